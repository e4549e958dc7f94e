"""One release from the records of several parties: ``party`` has the protocol, ``shares`` the noise."""

import lazy_loader

# The server loads what it relays by, and nothing that computes.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
