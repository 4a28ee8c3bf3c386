"""The engine as a process of its own: where it is reached, what is said to it."""
