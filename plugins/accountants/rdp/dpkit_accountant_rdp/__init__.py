"""Renyi differential privacy accounting, as a dpkit accountant."""

from dpkit_accountant_rdp.rdp import RdpAccountant

__all__ = ["RdpAccountant"]
