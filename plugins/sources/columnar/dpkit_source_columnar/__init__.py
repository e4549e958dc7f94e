"""Tables in Parquet, Feather and Arrow files: a file, a folder, or a pattern."""
