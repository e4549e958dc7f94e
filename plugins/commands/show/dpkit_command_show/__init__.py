"""Everything about one part, asked of the part itself: ``dpkit show``."""
