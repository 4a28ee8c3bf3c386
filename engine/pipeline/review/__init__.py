"""Carries out a person's review of scenarios, rewriting included."""
