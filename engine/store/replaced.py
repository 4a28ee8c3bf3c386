"""What nothing rests on any more: takes that were replaced, and what was said of runs long ago."""

# ruff: noqa: S608  (SQL is put together from constants of this module, never from values)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from engine.store.connection import Connection

_REPLACED: Final = (
    "SELECT t.seq FROM take t WHERE t.at < ?1 AND EXISTS ("
    "  SELECT 1 FROM take n JOIN take_end e ON e.take = n.seq AND e.finished = 1"
    "  JOIN verdict v ON v.take = n.seq"
    "  WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id"
    "  AND n.target = t.target AND n.sample = t.sample AND n.number > t.number"
    ") ORDER BY t.seq"
)
"""Takes of whose conversation a newer one was played to its end, and judged."""
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
    """What can be taken away."""

    takes: Sequence[int]
    """By their `seq`."""
    messages: int
    verdicts: int
    characters: int
    """In those messages."""
    notes: Sequence[int]
    runs: Sequence[int]

    @property
    def is_empty(self) -> bool:
        return not (self.takes or self.notes or self.runs)

    def __str__(self) -> str:
        return (
            f"{_counted(len(self.takes), 'replaced take')} with "
            f"{_counted(self.messages, 'message')} ({self.characters} characters) and "
            f"{_counted(self.verdicts, 'verdict')}, {_counted(len(self.notes), 'note')} and "
            f"{_counted(len(self.runs), 'run')}"
        )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def plan_prune(connection: Connection, before: datetime | None) -> PrunePlan:
    """Replaced takes, all or those begun before a moment; notes and runs only before a moment."""
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
