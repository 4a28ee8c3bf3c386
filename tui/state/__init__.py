"""The states that screens show, folded from facts; independent of Textual."""
