"""Telling thoughts that a model writes into its reply, between `<think>` marks, from the reply."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class _Place(Enum):
    BEFORE = auto()
    """Nothing but white space, or a part of the opening mark, has come."""
    INSIDE = auto()
    BETWEEN = auto()
    """Behind the closing mark, where the reply has not begun."""
    REPLY = auto()


class ThoughtSplitter:
    """Fed with pieces of a reply. Only marks at its very beginning count: later ones are quoted."""

    __slots__ = ("_held", "_place", "thoughts")

    def __init__(self) -> None:
        self._place = _Place.BEFORE
        self._held = ""
        self.thoughts: list[str] = []

    def feed(self, piece: str) -> str:
        """The part of it that is the reply."""
        match self._place:
            case _Place.REPLY:
                return piece
            case _Place.BEFORE:
                return self._before(self._held + piece)
            case _Place.INSIDE:
                return self._inside(self._held + piece)
            case _Place.BETWEEN:
                return self._between(piece)

    def close(self) -> str:
        """What was held back and turned out to be the reply."""
        held, self._held = self._held, ""
        if self._place is _Place.INSIDE:
            self.thoughts.append(held)
            return ""
        return held

    def _before(self, text: str) -> str:
        begun = text.lstrip()
        if begun.startswith(_OPEN):
            self._place, self._held = _Place.INSIDE, ""
            return self._inside(begun.removeprefix(_OPEN))
        # it may still become a mark: shown now, it could not be taken back
        if _OPEN.startswith(begun):
            self._held = text
            return ""
        self._place, self._held = _Place.REPLY, ""
        return text

    def _inside(self, text: str) -> str:
        thought, mark, rest = text.partition(_CLOSE)
        if mark:
            self.thoughts.append(thought)
            self._place, self._held = _Place.BETWEEN, ""
            return self._between(rest)
        # the longest end of it that the closing mark could begin with
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        self.thoughts.append(text[: len(text) - keep])
        self._held = text[len(text) - keep :]
        return ""

    def _between(self, text: str) -> str:
        begun = text.lstrip()
        if begun:
            self._place = _Place.REPLY
        return begun


def unopened(text: str) -> tuple[str, str] | None:
    """Thoughts and reply, where a server's template wrote the opening mark itself so that only the
    closing one is in the text; None where that is not so."""
    thought, mark, rest = text.partition(_CLOSE)
    return (thought, rest.lstrip()) if mark and _OPEN not in thought else None
