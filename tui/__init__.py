"""Crosswind's terminal app: a face for the engine, and no more."""
