"""The command line in this process, small parts for it, and a place to install commands."""

from command_line import dpkit, folder, parts, without
from distributions import site

__all__ = ["dpkit", "folder", "parts", "site", "without"]
