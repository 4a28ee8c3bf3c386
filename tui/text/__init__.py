"""Styled, wrapped lines of text, independent of Textual."""
