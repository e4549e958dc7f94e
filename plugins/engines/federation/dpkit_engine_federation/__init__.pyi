# lazy_loader reads this file, and so do type checkers (SPEC 1).

from .joining import agree as agree
from .joining import join as join
from .joining import plan_of as plan_of
from .keys import Identity as Identity
from .mailbox import MailboxTransport as MailboxTransport
from .network import GrpcTransport as GrpcTransport
from .network import serving as serving
from .party import Participant as Participant
from .terms import Terms as Terms
from .transport import NoAnswer as NoAnswer
from .transport import Relay as Relay
from .transport import Transport as Transport
from .transport import Void as Void
