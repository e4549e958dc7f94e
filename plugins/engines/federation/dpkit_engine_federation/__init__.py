"""One release from the records of several parties: ``party`` has the protocol, ``shares`` the noise."""

from dpkit_engine_federation.joining import agree as agree
from dpkit_engine_federation.joining import federated as federated
from dpkit_engine_federation.joining import join as join
from dpkit_engine_federation.party import Identity as Identity
from dpkit_engine_federation.party import Participant as Participant
from dpkit_engine_federation.terms import Terms as Terms
from dpkit_engine_federation.transport import LocalServer as LocalServer
from dpkit_engine_federation.transport import Transport as Transport
