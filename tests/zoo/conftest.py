"""The plugins of the zoo are installed by tests, not collected: some end the process when imported."""

collect_ignore = ["plugins"]
