"""Pieces of Markdown that more than one generated page is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def code(text: str) -> str:
    """As code, also with backquotes in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table. What stands in a cell is Markdown; its line breaks and bars cannot end it."""
    lines = [_line(heads), _line(["---"] * len(heads)), *map(_line, rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
