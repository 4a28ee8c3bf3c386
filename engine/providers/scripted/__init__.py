"""Scripted stand-ins for language models: seeded, repeatable, and without a key."""
