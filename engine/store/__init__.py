"""The only package that speaks SQL: stores what happened, and mirrors it to files."""
