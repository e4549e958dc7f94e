"""Commands: what their authors write them with, and how those of other distributions are found."""
