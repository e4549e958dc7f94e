"""A released model, applied to a table: ``dpkit predict``."""
