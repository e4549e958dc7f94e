"""Reading a table as a test needs it: opened, and encoded with what its options say of numbers."""

from dpkit_core import Dataset, ReadOptions, StreamedDataset, open_source


def read(where, schema, *, batch=False, **options):
    """Return the dataset of a table."""
    asked = ReadOptions(**options)
    return Dataset.from_source(open_source(where, asked), schema.read_with(asked), batch=batch)


def streamed(where, schema, **options):
    """Return the dataset of a table that is read in blocks."""
    asked = ReadOptions(**options)
    return StreamedDataset.from_source(open_source(where, asked), schema.read_with(asked))
