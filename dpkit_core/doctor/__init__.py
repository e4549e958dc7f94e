"""How everything that is installed fares when it is loaded: parts, observers and commands."""
