"""The common values of columns whose categories nobody may list: ``dpkit categories``."""
