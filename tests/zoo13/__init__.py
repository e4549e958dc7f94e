"""Round 13: parts of another author, written from the page of the protocols."""
