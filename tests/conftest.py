"""A place to install distributions, for tests of what finds and loads them."""

import signal

from distributions import site

__all__ = ["site"]

# A shell ignores ctrl-C for what it starts in the background; the processes that tests interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)
