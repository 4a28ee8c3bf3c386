"""Examines everything that a run needs, without changing it, and reports what it found."""
