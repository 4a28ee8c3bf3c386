"""Screens: each wires widgets to what is being watched, and can be closed at any moment."""
