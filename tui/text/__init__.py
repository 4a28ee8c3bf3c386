"""Text as styled, wrapped lines: what states make and widgets draw, nothing of Textual in it."""
