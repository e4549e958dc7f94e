"""What Flower runs is imported where Flower is, which is an environment of its own."""

collect_ignore = ["flower"]
