"""Scripted stand-ins for language models: seeded, reproducible, and without a key."""
