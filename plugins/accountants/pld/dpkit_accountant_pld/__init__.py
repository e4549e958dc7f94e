"""Privacy loss distributions by Google's dp-accounting, as a dpkit accountant."""

from dpkit_accountant_pld.pld import PldAccountant

__all__ = ["PldAccountant"]
