"""Named moments at which a test kills this process, as abruptly as a power cut."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import StrEnum
from itertools import count
from typing import Final

VARIABLE: Final = "CROSSWIND_TEST_KILL_AT"
"""`MOMENT`, or `MOMENT:N` for its N-th occurrence. Read when this module is imported; only tests
set it."""


class KillPoint(StrEnum):
    """Between two adjacent moments lies one step that must survive a crash."""

    LOCKING = "locking"
    LOCKED = "locked"
    MIGRATING = "migrating"
    """The new schema is made, but not committed."""
    MIGRATED = "migrated"
    BINDING = "binding"
    BOUND = "bound"
    SENDING = "sending"
    SENT = "sent"
    """The call is out and may be billed; no part of the reply has arrived."""
    FIRST_WORD = "first-word"
    LAST_WORD = "last-word"
    BATCH_INTENDED = "batch-intended"
    """A batch is written down, and not submitted."""
    BATCH_SUBMITTED = "batch-submitted"
    """The provider has it, and its name for it is not written down."""
    COMMITTING = "committing"
    COMMITTED = "committed"
    """On disk, but not acknowledged to anybody."""
    ACKNOWLEDGED = "acknowledged"
    CHANGING_STATE = "changing-state"
    """A row of work is finished, but not yet marked so."""
    CHANGED_STATE = "changed-state"
    WRITING_FILE = "writing-file"
    WROTE_FILE = "wrote-file"
    """Under its temporary name; neither synced nor moved."""
    SYNCED_FILE = "synced-file"
    MOVED_FILE = "moved-file"
    SYNCED_FOLDER = "synced-folder"


def _do_nothing(_: KillPoint, /) -> None:
    """Do nothing: outside of such tests, no moment matters."""


def _ending_at(order: str) -> Callable[[KillPoint], None]:
    name, _, number = order.partition(":")
    wanted, turn, seen = KillPoint(name), int(number or 1), count(1)

    def end(moment: KillPoint, /) -> None:
        if moment is wanted and next(seen) == turn:
            os.kill(os.getpid(), signal.SIGKILL)

    return end


def _meaning(order: str | None) -> Callable[[KillPoint], None]:
    return _do_nothing if order is None else _ending_at(order)


reached: Final = _meaning(os.environ.get(VARIABLE))
"""Report that this moment has come; kills the process if `VARIABLE` names it."""
