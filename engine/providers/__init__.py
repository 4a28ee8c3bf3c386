"""One door to every model."""
