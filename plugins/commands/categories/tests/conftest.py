"""The command line in this process, and small parts to make releases with."""

from command_line import dpkit, folder, parts, without
from distributions import site

__all__ = ["dpkit", "folder", "parts", "site", "without"]
