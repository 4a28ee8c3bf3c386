"""Writes `crosswind.log`: how runs begin, pause and end, tracebacks of bugs, and what a workspace's
functions print."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from engine.config.workspace import LOG_FILE
from engine.display import one_line

_LINES: Final = 12
"""Frames of a traceback that are kept."""
LONGEST_LINE: Final = 300
MOST_PRINTED: Final = 256 * 1024
"""The most characters printed by a workspace's functions that are kept of one run."""


def traceback_text(error: BaseException) -> str:
    """The traceback of an error without any values: they may contain model text or a key."""
    return "".join(traceback.format_tb(error.__traceback__, -_LINES))


@dataclass(slots=True)
class FaultLog:
    """The faults of one run; each traceback is written once, however many rows it fails."""

    root: Path
    _shown: set[str] = field(default_factory=set)
    _printed: int = 0
    """Characters of function output written so far."""

    def keep(self, what: str, error: BaseException) -> None:
        """Log a bug. Never raises."""
        kind, where = type(error).__name__, traceback_text(error)
        trace = "as above" if where in self._shown else f"\n{where}"
        self._shown.add(where)
        append_to_log(self.root, f"a bug in Crosswind failed {what}: {kind}, {trace.rstrip()}")

    def keep_printed(self, row: str, lines: Sequence[str]) -> None:
        """Log what a function of the workspace wrote to standard error. Never raises."""
        whole = "\n".join(f"  {one_line(line, LONGEST_LINE)}" for line in lines)
        if self._printed > MOST_PRINTED:
            return
        entry = " as above" if whole in self._shown else f"\n{whole}"
        self._shown.add(whole)
        self._printed += len(entry)
        if self._printed > MOST_PRINTED:
            entry += "\n  and more, which is not kept: it is too much for one run"
        append_to_log(self.root, f"printed by the function, {row}:{entry}")


def append_to_log(root: Path, words: str) -> None:
    """Write a line with the time to a workspace's log. Never raises."""
    line = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} engine {os.getpid()} {words}\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with suppress(OSError):  # a full disk must not end a run for want of a log
        descriptor = os.open(root / LOG_FILE, flags | os.O_NONBLOCK, 0o600)
        with os.fdopen(descriptor, "ab") as log:
            log.write(line.encode("utf-8", "replace"))
