"""Where faults of the program itself are written down: `crosswind.log` in the workspace."""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from engine.config.workspace import LOG_FILE

_LINES: Final = 12
"""Of a traceback: where it was, without what was said."""


def trace(error: BaseException) -> str:
    """Where it was raised, without values: they may be what a model said, or a key."""
    return "".join(traceback.format_tb(error.__traceback__, -_LINES))


@dataclass(slots=True)
class FaultLog:
    """The faults of one run: each place is shown once, however many rows it fails."""

    root: Path
    _shown: set[str] = field(default_factory=set)

    def keep(self, what: str, error: BaseException) -> None:
        """Never raises: a full disk must not end a run for want of a log."""
        kind, where = type(error).__name__, trace(error)
        said = "as above" if where in self._shown else f"\n{where}"
        self._shown.add(where)
        line = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} engine {os.getpid()} "
        line += f"a bug in Crosswind failed {what}: {kind}, {said.rstrip()}\n"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with suppress(OSError):
            descriptor = os.open(self.root / LOG_FILE, flags | os.O_NONBLOCK, 0o600)
            with os.fdopen(descriptor, "ab") as log:
                log.write(line.encode("utf-8", "replace"))
