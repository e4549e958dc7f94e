"""From parts to a release: compose, plan, run, observe."""
