"""A new distribution with one working part or source: ``dpkit new``."""
