"""How good a released model is, for a budget of its own: ``dpkit evaluate``."""
