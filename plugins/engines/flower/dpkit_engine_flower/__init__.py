"""Federations over Flower: how a party reaches a relay by way of a SuperNode."""

from dpkit_engine_flower.mail import FlowerTransport as FlowerTransport

__all__ = ["FlowerTransport"]
