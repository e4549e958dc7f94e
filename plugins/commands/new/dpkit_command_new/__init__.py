"""A new distribution with one working part, source or command: ``dpkit new``."""
