"""Crosswind's engine: everything that is true without a screen."""
