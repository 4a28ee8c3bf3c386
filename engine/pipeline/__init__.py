"""Finds what is missing or stale, does it, stores it."""
