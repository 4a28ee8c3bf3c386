"""What the app does beside drawing: exports, preferences, the terminal, the engine, its clock."""
