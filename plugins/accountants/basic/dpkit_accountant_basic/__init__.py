"""Basic composition of pure and approximate differential privacy, as a dpkit accountant."""

from dpkit_accountant_basic.basic import BasicAccountant

__all__ = ["BasicAccountant"]
