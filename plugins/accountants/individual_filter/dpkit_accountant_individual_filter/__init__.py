"""Renyi accounting with an account for every record."""

from dpkit_accountant_individual_filter.individual_filter import IndividualFilterAccountant

__all__ = ["IndividualFilterAccountant"]
