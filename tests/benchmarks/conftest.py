"""What is not a test: a command, what it times, and one alternative."""

collect_ignore = ["speed.py", "rows.py", "published.py"]
