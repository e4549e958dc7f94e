"""Accounts that runs share, what they have spent, and whether that is true: ``dpkit ledger``."""
