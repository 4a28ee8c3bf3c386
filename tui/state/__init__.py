"""What a screen shows, folded from facts: plain values and functions, nothing of Textual in it."""
