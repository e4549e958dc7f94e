"""The command line in this process."""

from command_line import dpkit, folder

__all__ = ["dpkit", "folder"]
