"""Light Markdown: which characters of a line of text deserve another ink. The marks stay visible.

There is no parser and no document: a line is looked at alone, so text can be drawn while it is
still being written, and a reviewer sees each character that the model sent.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from tui.text.ink import Ink, Styled

_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_HEADING: Final = re.compile(r"(?P<mark>#{1,6} +)(?P<text>.*)")
_ITEM: Final = re.compile(r" *(?P<mark>[-*+•]|\d{1,3}[.)]) ")
_QUOTE: Final = re.compile(r" {0,3}(?P<mark>>+)")
_RULER: Final = re.compile(r" {0,3}(?:-{3,}|\*{3,}|_{3,}) *")
_INLINE: Final = re.compile(
    r"(?P<code>`[^`]+`)|(?P<bold>\*\*(?=\S)[^*]+(?<=\S)\*\*)|(?P<italic>(?<![\w*])\*(?=\S)[^*]+(?<=\S)\*(?![\w*]))"
)


def fences(text: str, start: int = 0) -> list[int]:
    """Where the lines begin that open or close a block of code; `start` is the start of a line."""
    if "```" not in text and "~~~" not in text:
        return []
    return [fence.start() for fence in _FENCE.finditer(text, start)]


def styles(text: str, start: int, end: int, fence_starts: Sequence[int]) -> list[Styled]:
    """The inks of the line of `text` from `start` to `end`."""
    fence = bisect_right(fence_starts, start)
    if fence and fence_starts[fence - 1] == start:
        return [Styled(start, end, Ink.FAINT)]
    if fence % 2:
        return [Styled(start, end, Ink.CODE)]
    if heading := _HEADING.fullmatch(text, start, end):
        return [
            Styled(*heading.span("mark"), Ink.FAINT),
            Styled(*heading.span("text"), Ink.STRONG),
        ]
    if _RULER.fullmatch(text, start, end):
        return [Styled(start, end, Ink.FAINT)]
    return [*_opening(text, start, end), *_inline(text, start, end)]


def _opening(text: str, start: int, end: int) -> list[Styled]:
    if item := _ITEM.match(text, start, end):
        return [Styled(*item.span("mark"), Ink.ACCENT)]
    if quote := _QUOTE.match(text, start, end):
        return [Styled(start, end, Ink.MUTED), Styled(*quote.span("mark"), Ink.FAINT)]
    return []


def _inline(text: str, start: int, end: int) -> list[Styled]:
    found: list[Styled] = []
    for span in _INLINE.finditer(text, start, end):
        first, last = span.span()
        match span.lastgroup:
            case "code":
                mark, ink = 1, Ink.CODE
            case "bold":
                mark, ink = 2, Ink.STRONG
            case _:
                mark, ink = 1, Ink.THOUGHT
        found += [
            Styled(first, first + mark, Ink.FAINT),
            Styled(first + mark, last - mark, ink),
            Styled(last - mark, last, Ink.FAINT),
        ]
    return found
