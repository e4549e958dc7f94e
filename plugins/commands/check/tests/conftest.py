"""The command line in this process, and a place to install what it attacks."""

from command_line import dpkit, folder, parts
from distributions import site

__all__ = ["dpkit", "folder", "parts", "site"]
