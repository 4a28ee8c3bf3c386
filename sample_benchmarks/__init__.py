"""A complete workspace to look at and to run, without a key."""
