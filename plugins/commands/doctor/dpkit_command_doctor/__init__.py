"""How each installed part, source, observer and command fares when it is loaded: ``dpkit doctor``."""
