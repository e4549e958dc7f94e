"""Whether releases cost what they say: ``dpkit verify``."""
