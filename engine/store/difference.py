"""What is not the same in two files, line by line, however large they are."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from difflib import unified_diff
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Final, TextIO

from engine.regular import open_regular

MOST_LINES: Final = 2000
"""That are compared, from the first difference on; more would take minutes, and nobody reads it."""

_CONTEXT: Final = 3


def file_difference(there: Path, ours: Path, name: str) -> Iterator[str]:
    """A unified difference: from what is there to what would be written."""
    with _opened(there) as old, _opened(ours) as new:
        line, before, first = _common_beginning(old, new)
        old_lines = [*before, *first[:1], *islice(old, MOST_LINES)]
        new_lines = [*before, *first[1:], *islice(new, MOST_LINES)]
        is_long = bool(old.readline() or new.readline())
    place = f" from line {line - len(before)} on" if line > len(before) + 1 else ""
    head = (f"{name}, as it is{place}", f"{name}, as Crosswind would write it{place}")
    yield from (
        text.rstrip("\n") for text in unified_diff(old_lines, new_lines, *head, lineterm="")
    )
    if is_long:
        yield f"(compared no further than {MOST_LINES} lines behind the first difference)"


def _opened(path: Path) -> TextIO:
    return TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace", newline="\n")


def _common_beginning(old: TextIO, new: TextIO) -> tuple[int, list[str], list[str]]:
    """The number of the first line that differs, what stands just before it, and it in both."""
    before: deque[str] = deque(maxlen=_CONTEXT)
    line = 1
    while True:
        pair = [old.readline(), new.readline()]
        if pair[0] != pair[1] or not pair[0]:
            return line, list(before), pair
        before.append(pair[0])
        line += 1
