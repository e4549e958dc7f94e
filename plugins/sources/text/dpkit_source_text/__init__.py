"""Tables in text files, as a source of records for dpkit: a record is one line."""

from dpkit_source_text.text import TextSource, open_csv, open_tsv

__all__ = ["TextSource", "open_csv", "open_tsv"]
