"""Finds conversations in every state, played or not, with the filters and orders of `browsing`.

A conversation is known by the number of its first row of work, which stays as long as the store.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from engine.benchmark import ConversationKey, Stage, State
from engine.store.browsing import (
    FAILED,
    METRIC_ID,
    ORDERS,
    PLACE,
    RUNNING,
    STATES,
    UNCOUNTED,
    WAITING,
    BrowsedRow,
    Browser,
    Column,
    Field,
    Filter,
    FilterResult,
    Sorting,
)
from engine.store.codec import read
from engine.store.connection import Parameter
from engine.store.tables import utc_datetime

_BY_ID: Final = Sorting()
JUDGED: Final = "judged"
PLAYED: Final = "played"
"""Played to its end and not judged yet."""
DROPPED: Final = "dropped"
"""No run asks for it any more."""

_TOLD: Final = (
    "WITH told (benchmark, stage, unit, state) AS MATERIALIZED (SELECT json_extract(value, '$[0]'),"
    " json_extract(value, '$[1]'), json_extract(value, '$[2]'), json_extract(value, '$[3]')"
    " FROM json_each(?)) "
)
"""The states that are not as stored, and the failures that stand."""
_SCENARIO_ID: Final = "substr(s.unit, 1, instr(s.unit, '__') - 1)"
_SAMPLE: Final = (
    "CAST(substr(s.unit, instr(s.unit, '__') + length(s.target) + length('____s')) AS INTEGER)"
)
_TAKE: Final = (
    f"SELECT n.seq FROM take n WHERE n.benchmark = s.benchmark AND n.scenario_id = {_SCENARIO_ID}"
    f" AND n.target = s.target AND n.sample = {_SAMPLE}"
)
_FINISHED_FIRST: Final = (
    " ORDER BY EXISTS (SELECT 1 FROM take_end f WHERE f.take = n.seq AND f.finished = 1) DESC,"
    " n.number DESC LIMIT 1"
)
_ALL: Final = (
    "SELECT min(seq) AS first, max(seq) AS last FROM state"
    f" WHERE stage = '{Stage.SIMULATE}' GROUP BY benchmark, unit"
)
_SOME: Final = (
    "SELECT f.seq AS first, (SELECT max(seq) FROM state WHERE benchmark = f.benchmark"
    " AND stage = f.stage AND unit = f.unit) AS last FROM state f WHERE f.seq IN ({})"
)
_JUDGING: Final = (
    "SELECT max(seq) FROM state WHERE benchmark = s.benchmark"
    f" AND stage = '{Stage.EVALUATE}' AND unit = s.unit"
)
_CONVERSATIONS: Final = (
    "FROM (SELECT w.first AS row, s.seq AS last, s.at, s.reason, s.benchmark, s.target,"
    f" {_SCENARIO_ID} AS scenario_id, {_SAMPLE} AS sample, k.seq AS seq, k.number AS number,"
    " coalesce(p.state, nullif(s.state, 'failed'), 'dropped') AS playing,"
    " coalesce(q.state, nullif(j.state, 'failed'), '') AS judging,"
    " j.reason AS why_not_judged"
    f" FROM ({{}}) w JOIN state s ON s.seq = w.last"
    f" LEFT JOIN state j ON j.seq = ({_JUDGING})"
    " LEFT JOIN told p ON p.unit = s.unit AND p.benchmark = s.benchmark AND p.stage = s.stage"
    " LEFT JOIN told q ON q.unit = s.unit AND q.benchmark = s.benchmark"
    f" AND q.stage = '{Stage.EVALUATE}'"
    f" LEFT JOIN take k ON k.seq = ({_TAKE}{_FINISHED_FIRST})) t"
    " LEFT JOIN take_end e ON e.take = t.seq AND e.finished = 1"
    " LEFT JOIN verdict v ON v.seq = (SELECT max(seq) FROM verdict WHERE take = t.seq)"
)
_STATE: Final = (
    f"CASE WHEN '{State.FAILED}' IN (t.playing, t.judging) THEN '{FAILED}'"
    f" WHEN '{State.RUNNING}' IN (t.playing, t.judging) THEN '{RUNNING}'"
    f" WHEN v.seq IS NOT NULL THEN '{JUDGED}'"
    f" WHEN t.playing = '{State.DONE}' THEN '{PLAYED}'"
    f" WHEN t.playing = '{State.QUEUED}' THEN '{WAITING}' ELSE '{DROPPED}' END"
)
"""Of what the rows of work say; what was played stays played where a run asks for it no more."""
_RANKS: Final = " ".join(
    f"WHEN '{state}' THEN {rank}"
    for rank, state in enumerate((RUNNING, FAILED, WAITING, PLAYED, JUDGED, DROPPED))
)
_ORDERS: Final = {
    Column.ID: (),
    Column.OUTCOME: (f"CASE {_STATE} {_RANKS} END", "coalesce(v.counted, -1)"),
    Column.AT: ("max(t.last, coalesce(v.seq, 0))",),
}
_TURNS: Final = (
    "(SELECT count(*) FROM message m WHERE m.speaker = 'assistant' AND m.take ="
    " (SELECT max(n.seq) FROM take n WHERE n.benchmark = t.benchmark"
    " AND n.scenario_id = t.scenario_id AND n.target = t.target AND n.sample = t.sample))"
)


@dataclass(frozen=True, slots=True)
class ConversationsFound(FilterResult):
    """Conversations, by number where a `FilterResult` has takes; verdicts are counted as there."""

    states: Mapping[str, int] = field(default_factory=dict)
    rows_of_takes: Mapping[int, int] = field(default_factory=dict)
    """The conversations by their takes, as far as they were played."""

    @classmethod
    def none(cls) -> Self:
        """What is known before the store was read."""
        return cls(array("q"), 0, 0, 0)

    @property
    def unscored(self) -> int:
        judged = self.states.get(JUDGED, 0)
        return judged - self.passed - self.failed - self.uncounted


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation, in whatever state."""

    row: int
    benchmark: str
    key: ConversationKey
    state: str
    """`failed`, `running`, `waiting`, `played`, `judged` or `dropped`."""
    is_judging: bool
    """Whether the state is that of a judge's work, not of the conversation."""
    metric_id: str
    at: datetime
    """Since when."""
    reason: str
    """Why it failed; empty if it did not."""
    take: int | None
    """The `seq` of the take that counts, else of the newest; None where none was begun."""
    number: int | None
    """Its number."""
    turns: int
    """Turns played in its newest take."""
    judged: BrowsedRow | None
    """None before a verdict."""


class ConversationBrowser(Browser):
    """Queries conversations over a reader's connection, by number where a `Browser` has takes."""

    states: Iterable[tuple[str, Stage, str, State]] = ()
    """By benchmark, stage and row of work: the states that are not as stored, and each failure that
    stands."""

    def find(self, wanted: Filter = (), sorting: Sorting = _BY_ID) -> ConversationsFound:
        where, parameters = self._where(wanted)
        way = " DESC" if sorting.backwards else ""
        order = _ORDERS.get(sorting.column, (ORDERS[sorting.column],))
        ordered = ", ".join(f"{each}{way}" for each in (*order, *PLACE))
        through = self._store.number("SELECT coalesce(max(seq), 0) FROM verdict")
        rows = self._store.all(
            f"{_TOLD}SELECT t.row, t.seq, {_STATE}, v.counted {_CONVERSATIONS.format(_ALL)}"
            f" WHERE 1{where} ORDER BY {ordered}",
            [self._told(), *parameters],
        )
        states = Counter(row[2] for row in rows)
        outcomes = Counter(self._outcome(row[1], row[3]) for row in rows if row[2] == JUDGED)
        return ConversationsFound(
            array("q", [row[0] for row in rows]),
            outcomes["pass"],
            outcomes["fail"],
            through,
            outcomes[UNCOUNTED],
            states,
            {row[1]: row[0] for row in rows if row[1] is not None},
        )

    def _told(self) -> str:
        return json.dumps(
            [(name, str(stage), unit, str(to)) for name, stage, unit, to in self.states]
        )

    def _condition(self, field: Field, value: str) -> tuple[str, list[Parameter]]:
        if field is Field.IS and value in STATES:
            return f"{_STATE} = ?", [value]
        return super()._condition(field, value)

    def count(self) -> int:
        """Count the conversations, whatever the filter."""
        return self._store.number(f"SELECT count(*) FROM ({_ALL})")

    def longest_id(self) -> int:
        """Return the length of the longest conversation id, in characters."""
        asked = "SELECT coalesce(max(length(unit)), 0) FROM state WHERE stage = ?"
        return int(self._store.all(asked, [str(Stage.SIMULATE)])[0][0])

    def conversations(
        self, rows: Sequence[int], judges: Sequence[str] = ()
    ) -> dict[int, ConversationRow]:
        """Return these conversations by number. `judges` are those whose verdicts count."""
        found = list(
            self._store.of_each(
                f"{_TOLD}SELECT t.*, {_STATE} AS state, v.seq AS verdict, {METRIC_ID} AS metric_id,"
                f" {_TURNS} AS turns {_CONVERSATIONS.format(_SOME)}",
                rows,
                [self._told()],
            )
        )
        takes = [row["seq"] for row in found if row["verdict"] is not None]
        judged = super().rows(takes, judges)
        with self._store.reporting_damage():
            return {row["row"]: _conversation(row, judged.get(row["seq"])) for row in found}

    def keys(self, takes: Sequence[int]) -> list[tuple[str, ConversationKey]]:
        """Return benchmark and conversation of each number, in this order."""
        found: dict[int, tuple[str, ConversationKey]] = {}
        for row in self._store.of_each("SELECT * FROM state WHERE seq IN ({})", takes):
            with self._store.reporting_damage():
                found[row["seq"]] = row["benchmark"], ConversationKey.parse(row["unit"])
        return [found[take] for take in takes if take in found]

    def row_of(self, benchmark: str, key: ConversationKey) -> int | None:
        """Return the number of a conversation; None where there is no work of it."""
        asked = "SELECT min(seq) FROM state WHERE benchmark = ? AND stage = ? AND unit = ?"
        found: int | None = self._store.all(asked, [benchmark, Stage.SIMULATE, str(key)])[0][0]
        return found


def _conversation(row: sqlite3.Row, judged: BrowsedRow | None) -> ConversationRow:
    is_judging = row["playing"] == State.DONE
    return ConversationRow(
        row["row"],
        row["benchmark"],
        read(ConversationKey, row),
        row["state"],
        is_judging,
        row["metric_id"] or "",
        utc_datetime(row["at"]),
        (row["why_not_judged"] if is_judging else row["reason"]) or "",
        row["seq"],
        row["number"],
        row["turns"],
        judged,
    )
