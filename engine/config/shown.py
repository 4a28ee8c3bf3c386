"""What is in a file, as a message may quote it."""

from __future__ import annotations


def shown(text: str) -> str:
    """Text from a file as a message may quote it: short, and without invisible characters."""
    short = text if len(text) <= 40 else f"{text[:39]}…"
    return "".join(character if character.isprintable() else "�" for character in short)
