"""The private table and what the public knows of it: schemas, datasets, readers."""
