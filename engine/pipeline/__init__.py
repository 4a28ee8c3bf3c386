"""Plans what is missing or stale, does it with the models, and stores the results."""
