"""Estimates what a run costs, and keeps it within its budgets."""
