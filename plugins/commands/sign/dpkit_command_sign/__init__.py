"""Keys that sign releases, and keys that verify them: ``dpkit key``."""
