"""What each stage asks of a model, and how it reads the answer."""
