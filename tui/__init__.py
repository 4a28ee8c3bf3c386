"""Crosswind's terminal app: a face for the engine, and no more."""

import os

# Textual reads these when it is imported. What moves by itself costs bytes on a slow line, and is
# of no help to a reader; whoever sets them otherwise is obeyed.
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
os.environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")
