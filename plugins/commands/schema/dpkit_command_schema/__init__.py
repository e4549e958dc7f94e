"""The start of a schema file, with kinds and formats guessed for a person to check: ``dpkit schema``."""
