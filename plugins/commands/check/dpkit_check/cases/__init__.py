"""What attacks see of parts: their plans, worlds that are neighbors, and runs by chosen answers.

The only modules that know kinds of parts and how each is called.
"""
