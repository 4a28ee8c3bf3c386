"""Finds the words that a judge quoted in the text that was judged."""

from __future__ import annotations

import re
from typing import Final

_SINGLE: Final = "'\u2018\u2019\u201b\u2032`"
_DOUBLE: Final = '"\u201c\u201d\u201e\u2033\u00ab\u00bb'


def find_quote(text: str, quote: str) -> tuple[int, int] | None:
    """From where to where the quote stands, whatever its white space and quotation marks."""
    words = quote.split()
    if not words:
        return None
    found = re.search(r"\s+".join(map(_word, words)), text)
    return None if found is None else found.span()


def _word(word: str) -> str:
    return "".join(map(_char, word))


def _char(char: str) -> str:
    if char in _SINGLE:
        return f"[{_SINGLE}]"
    if char in _DOUBLE:
        return f"[{_DOUBLE}]"
    return re.escape(char)
