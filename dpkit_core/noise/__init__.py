"""Exact noise: random streams, grids, samplers, selections."""
