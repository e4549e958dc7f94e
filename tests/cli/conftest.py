"""The command line in this process, and small parts for it."""

from command_line import dpkit, folder, parts, without

__all__ = ["dpkit", "folder", "parts", "without"]
