"""What the app does besides drawing: exports, preferences, terminal, engine control, clock."""
