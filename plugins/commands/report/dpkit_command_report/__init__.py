"""A page about a release, for people: what was asked, spent, released and assumed, and how to check it."""
