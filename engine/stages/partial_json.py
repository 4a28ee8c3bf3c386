"""Reads one string out of a JSON object while it is still being written."""

from __future__ import annotations

import re
from typing import Final

from engine.providers.model import OnText

_MARK: Final = re.compile(r'["\\]')
LOOKED_AT: Final = 100_000
"""Characters of one answer that are looked at one by one, which is slow: those outside of strings,
and in escapes. No answer that is asked for has as many."""
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class StringField:
    """Passes on the text of one top-level string field, piece by piece, as it arrives.

    It is for showing only: what counts is parsed from the whole answer. So it never raises, and
    falls silent where the text is not what it expects.
    """

    def __init__(self, field: str, on_text: OnText) -> None:
        self._field = field
        self._on_text = on_text
        self._begin()

    def _begin(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escape = ""
        self._string: list[str] = []
        self._key: str | None = None
        self._is_value = False
        self._high_surrogate: int | None = None
        self._looked_at = 0

    def feed(self, piece: str | None) -> None:
        """The next piece of the answer as it comes in; None where it begins anew."""
        if piece is None:
            self._begin()
            self._on_text(None)
            return
        said: list[str] = []
        at = 0
        while at < len(piece) and self._looked_at < LOOKED_AT:
            if not self._in_string:
                self._outside(piece[at])
                self._looked_at += 1
                at += 1
            elif self._escape:
                self._escaped(piece[at], said)
                self._looked_at += 1
                at += 1
            else:
                end = self._run(piece, at, said)
                if end < len(piece):
                    self._end_of_run(piece[end])
                at = end + 1
        if said:
            self._on_text("".join(said))

    def _outside(self, char: str) -> None:
        match char:
            case '"':
                self._in_string = True
                self._string.clear()
            case "{" | "[":
                self._depth += 1
                self._is_value = False
            case "}" | "]":
                self._depth -= 1
                self._is_value = False
            case ":":
                self._is_value = True
            case ",":
                self._is_value = False
            case _:
                pass

    def _run(self, piece: str, at: int, said: list[str]) -> int:
        """Take what stands in a string up to its next quotation mark or escape; where that is."""
        mark = _MARK.search(piece, at)
        end = len(piece) if mark is None else mark.start()
        self._emit(piece[at:end], said)
        return end

    def _end_of_run(self, char: str) -> None:
        if char == "\\":
            self._escape = char
            return
        self._in_string = False
        # a key of the answer itself; what has the same name deeper down is another thing
        if self._depth == 1 and not self._is_value:
            self._key = "".join(self._string)

    def _escaped(self, char: str, said: list[str]) -> None:
        self._escape += char
        if self._escape[1] != "u":
            self._escape = ""
            self._emit(_ESCAPES.get(char, char), said)
        elif len(self._escape) == 6:
            digits, self._escape = self._escape[2:], ""
            try:
                self._emit_unit(int(digits, 16), said)
            except ValueError:
                self._emit("\ufffd", said)

    def _emit_unit(self, unit: int, said: list[str]) -> None:
        """A character beyond 16 bits comes as two escapes, a high half and a low half."""
        high, self._high_surrogate = self._high_surrogate, None
        if 0xD800 <= unit < 0xDC00:
            self._high_surrogate = unit
        elif high is not None and 0xDC00 <= unit < 0xE000:
            self._emit(chr(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00)), said)
        else:
            self._emit(chr(unit), said)

    def _emit(self, text: str, said: list[str]) -> None:
        if self._depth == 1 and self._is_value and self._key == self._field:
            said.append(text)
        elif not self._is_value:
            self._string.append(text)
