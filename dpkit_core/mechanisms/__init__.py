"""Maths that parts share: calibration, picks, cells, exact sums and second moments."""
