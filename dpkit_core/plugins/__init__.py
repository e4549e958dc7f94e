"""Finding, loading and examining what is installed."""
