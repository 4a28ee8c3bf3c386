"""Named moments at which a test ends this process as hard as a power cut would."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from typing import Final

VARIABLE: Final = "CROSSWIND_TEST_KILL_AT"
"""`MOMENT`, or `MOMENT:N` for the N-th time that it comes. Read when this module is loaded; nobody
but a test sets it."""


class KillPoint(StrEnum):
    """Between any two of these lies one step that a crash must not cut in half."""

    LOCKING = "locking"
    LOCKED = "locked"
    MIGRATING = "migrating"
    """A new schema is made, and not committed yet."""
    MIGRATED = "migrated"
    BINDING = "binding"
    BOUND = "bound"
    SENDING = "sending"
    SENT = "sent"
    """The call is out, and may be billed; not a word of the reply is there."""
    FIRST_WORD = "first-word"
    LAST_WORD = "last-word"
    COMMITTING = "committing"
    COMMITTED = "committed"
    """It is on disk, and nobody was told."""
    ACKNOWLEDGED = "acknowledged"
    CHANGING_STATE = "changing-state"
    """A row of work is done, and does not say so yet."""
    CHANGED_STATE = "changed-state"
    WRITING_FILE = "writing-file"
    WROTE_FILE = "wrote-file"
    """Beside its place; neither synced nor moved."""
    SYNCED_FILE = "synced-file"
    MOVED_FILE = "moved-file"
    SYNCED_FOLDER = "synced-folder"


def _nothing(_: KillPoint, /) -> None:
    """A moment like any other."""


def _ending_at(order: str) -> Callable[[KillPoint], None]:
    name, _, number = order.partition(":")
    wanted, turn, seen = KillPoint(name), int(number or 1), count(1)

    def end(moment: KillPoint, /) -> None:
        if moment is wanted and next(seen) == turn:
            os.kill(os.getpid(), signal.SIGKILL)

    return end


def _meaning(order: str | None) -> Callable[[KillPoint], None]:
    return _nothing if order is None else _ending_at(order)


reached: Final = _meaning(os.environ.get(VARIABLE))
"""Say that this moment has come."""
