"""Widgets that draw lines: each draws what it is given and knows no store and no engine."""
