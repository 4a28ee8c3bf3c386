"""Prunes rows that nothing depends on any more, and shrinks the file.

What was spent stays, and so does every take that counts or may be continued.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from engine.display import plural
from engine.facts import NoteKind
from engine.store.connection import transaction
from engine.store.database import Store
from engine.store.reader import Reader
from engine.store.tables import NoteRow

_REPLACED: Final = (
    "SELECT t.seq FROM take t WHERE t.at < ?1 AND EXISTS ("
    "  SELECT 1 FROM take n JOIN take_end e ON e.take = n.seq AND e.finished = 1"
    "  JOIN verdict v ON v.take = n.seq"
    "  WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id"
    "  AND n.target = t.target AND n.sample = t.sample AND n.number > t.number"
    ") ORDER BY t.seq"
)
"""Takes of a conversation that has a newer take which was finished and judged."""
_OLD_NOTES: Final = (
    "SELECT seq FROM note WHERE at < ?1 "
    "AND seq NOT IN (SELECT max(seq) FROM note GROUP BY kind, benchmark <> '')"
)
_OLD_RUNS: Final = (
    "SELECT seq FROM run WHERE at < ?1 AND seq <> (SELECT max(seq) FROM run) ORDER BY seq"
)
_FOR_EVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """The rows that can be deleted."""

    takes: Sequence[int]
    """Their `seq`."""
    messages: int
    verdicts: int
    characters: int
    """The length of those messages."""
    notes: Sequence[int]
    runs: Sequence[int]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to delete."""
        return not (self.takes or self.notes or self.runs)

    def __str__(self) -> str:
        return (
            f"{plural(len(self.takes), 'replaced take')} with "
            f"{plural(self.messages, 'message')} ({self.characters:,} characters) and "
            f"{plural(self.verdicts, 'verdict')}, {plural(len(self.notes), 'note')} and "
            f"{plural(len(self.runs), 'run')}"
        )


def plan_prune(reader: Reader, before: datetime | None) -> PrunePlan:
    """Find replaced takes, and old notes and runs.

    `before` limits takes by when they began. Without it, all replaced takes are found, but no notes
    and no runs.
    """
    connection = reader.connection
    limit = _FOR_EVER if before is None else _milliseconds(before)
    old = 0 if before is None else limit
    parts = f"take IN ({_REPLACED})"
    size = connection.all(
        f"SELECT count(*), coalesce(sum(length(text)), 0) FROM message WHERE {parts}", (limit,)
    )[0]
    return PrunePlan(
        takes=[row[0] for row in connection.all(_REPLACED, (limit,))],
        messages=size[0],
        verdicts=connection.number(f"SELECT count(*) FROM verdict WHERE {parts}", (limit,)),
        characters=size[1],
        notes=[row[0] for row in connection.all(_OLD_NOTES, (old,))],
        runs=[row[0] for row in connection.all(_OLD_RUNS, (old,))],
    )


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


_AT_ONCE: Final = 200
"""Takes that are deleted in one transaction, few so that other users of the store wait briefly."""


def prune(store: Store, plan: PrunePlan) -> None:
    """Delete what was planned. If interrupted, each take is either gone or complete.

    Raises `StoreError` and `sqlite3.Error`.
    """
    # this note gets the highest `seq`, so that no deleted `seq` is given again
    text = f"pruning: taking away {plan}"
    store.tell(NoteRow(kind=NoteKind.WARNING, benchmark="", text=text))
    for begin in range(0, len(plan.takes), _AT_ONCE):
        store.exclusively(partial(_take_away, takes=plan.takes[begin : begin + _AT_ONCE]))
    store.exclusively(partial(_delete, rows={"note": plan.notes, "run": plan.runs}))


def shrink(store: Store) -> int | None:
    """Rewrite the file without its free pages, and return by how many bytes it shrank. None if the
    disk has no room for that. Raises `StoreError` and `sqlite3.Error`."""
    # before measuring: what was deleted is in the log until that is checkpointed
    store.exclusively(_fold_in)
    before = store.path.stat().st_size
    # the most that VACUUM may take: https://sqlite.org/lang_vacuum.html
    if shutil.disk_usage(store.path.parent).free < 2 * before:
        return None
    # VACUUM cannot run within a transaction, so it runs between two of the writer's
    store.exclusively(lambda connection: connection.execute("VACUUM").close())
    store.exclusively(_fold_in)
    return before - store.path.stat().st_size


def _fold_in(connection: sqlite3.Connection) -> None:
    """Checkpoint the log."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _take_away(connection: sqlite3.Connection, takes: Sequence[int]) -> None:
    marks = ", ".join("?" * len(takes))
    with transaction(connection):
        # rows before the take that they refer to: foreign keys are checked with each statement
        for part in ("verdict", "take_check", "message", "take_end"):
            connection.execute(f"DELETE FROM {part} WHERE take IN ({marks})", takes)
        connection.execute(f"DELETE FROM take WHERE seq IN ({marks})", takes)


def _delete(connection: sqlite3.Connection, rows: dict[str, Sequence[int]]) -> None:
    with transaction(connection):
        for table, seqs in rows.items():
            connection.executemany(f"DELETE FROM {table} WHERE seq = ?", [(seq,) for seq in seqs])
