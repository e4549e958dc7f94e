"""Maths that parts share: calibration, private quantiles, exact second moments."""
