"""Data as scripts of one statement each, in files of a size that is loaded in a moment."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

LARGEST: Final = 256 * 1024
"""Characters from which on a numbered piece is closed; the last value may reach beyond."""

Write = Callable[[str, str], None]
"""Puts a text under a name."""


class Pieces:
    """Writes values, and knows a digest of all that was written."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._digest = blake2b(digest_size=5)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def add(self, name: str, value: Any) -> None:
        self.put(name, as_json(value))

    def put(self, name: str, text: str) -> None:
        """One whose value is JSON already."""
        script = f"crosswind({text});\n"
        self._digest.update(script.encode())
        self._write(f"{name}.js", script)

    def numbered(self, prefix: str) -> Numbered:
        return Numbered(self, prefix)


@dataclass(slots=True)
class Numbered:
    """Values one after the other, in as many pieces as they take: `t1`, `t2`, …"""

    pieces: Pieces
    prefix: str
    _number: int = 1
    _open: list[str] = field(default_factory=list)
    _size: int = 0

    def add(self, value: Any) -> tuple[int, int]:
        """The number of its piece, from 1, and its place in there, from 0."""
        text = as_json(value)
        place = self._number, len(self._open)
        self._open.append(text)
        self._size += len(text)
        if self._size >= LARGEST:
            self._flush()
        return place

    def close(self) -> int:
        """How many pieces there are."""
        if self._open:
            self._flush()
        return self._number - 1

    def _flush(self) -> None:
        self.pieces.put(f"{self.prefix}{self._number}", f"[{','.join(self._open)}]")
        self._number += 1
        self._open, self._size = [], 0


def as_json(value: Any) -> str:
    """ASCII, and nothing in it that a page could take for markup."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")
