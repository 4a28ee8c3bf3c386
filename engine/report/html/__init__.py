"""Results as one file that a browser shows without asking anybody for anything."""
