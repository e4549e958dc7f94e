"""A page about a release for readers: what was asked, spent, released and assumed, and how to check it."""
