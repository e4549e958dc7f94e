"""The private table and what the public knows of it: sources, schemas, datasets."""
