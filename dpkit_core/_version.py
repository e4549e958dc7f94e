"""The version of dpkit, read by everything that must not import more than this."""

__version__ = "0.1.0"
