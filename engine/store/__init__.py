"""The one place that speaks SQL: what happened, and the files that mirror it."""
