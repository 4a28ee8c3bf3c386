"""Looks at everything that a run stands on, changes none of it, and says what it found."""
