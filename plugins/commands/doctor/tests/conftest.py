"""The command line in this process, and a place to install what the doctor examines."""

from command_line import dpkit, parts
from distributions import site

__all__ = ["dpkit", "parts", "site"]
