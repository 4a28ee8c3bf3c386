"""HTML that is put together from pieces, in which text can only ever be text."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from engine.display import clean

_EMPTY: Final = frozenset({"meta", "br", "hr", "line", "circle", "rect", "path"})
"""Elements that have no content."""


class Markup(str):
    """Text that is HTML already. Everything else is escaped where it is put in."""

    __slots__ = ()


Piece = str | Iterable["Piece"] | None


def text(piece: str) -> Markup:
    """What a model, a file or a person wrote, as text: no mark, no control character acts."""
    return piece if isinstance(piece, Markup) else Markup(escape(clean(piece)))


def joined(*pieces: Piece) -> Markup:
    parts: list[str] = []
    for piece in pieces:
        if piece is None:
            continue
        parts.append(text(piece) if isinstance(piece, str) else joined(*piece))
    return Markup("".join(parts))


def element(tag: str, /, *content: Piece, **attributes: str | float | None) -> Markup:
    """`element("td", "a < b", class_="name")`; attributes of None are left out, and `_` stands for
    `-` in their names, at the end for nothing."""
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(clean(_number(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{said}>" if tag in {"meta", "br", "hr"} else f"<{tag}{said}/>")
    return Markup(f"<{tag}{said}>{joined(*content)}</{tag}>")


def _number(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
