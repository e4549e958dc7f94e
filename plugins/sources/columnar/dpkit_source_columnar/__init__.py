"""Tables in Parquet, Feather and Arrow files: one, a folder of them, or those that match a pattern."""
