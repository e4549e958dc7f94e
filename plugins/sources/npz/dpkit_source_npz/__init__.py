"""Tables in NPZ files, which NumPy writes: X and y, and perhaps the names of the columns of X."""
