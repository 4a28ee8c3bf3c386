"""Verdicts counted, compared, and summed up in findings."""
