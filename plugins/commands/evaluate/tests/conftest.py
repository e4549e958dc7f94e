"""The command line in this process, and small parts that release models."""

from command_line import dpkit, folder, parts
from distributions import site

__all__ = ["dpkit", "folder", "parts", "site"]
