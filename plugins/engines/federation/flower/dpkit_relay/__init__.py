"""What Flower runs: the relay at the server, the post at each node."""
