"""What builds the wheel runs where hatchling is."""

collect_ignore = ["hatch_build.py"]
