"""What the documented files have no row for: when each thing came true, from what, by which calls,
and how each row of work stands."""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from difflib import unified_diff
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from sqlite3 import Row
from typing import Final, TextIO

from engine.benchmark import State, When
from engine.files import open_regular
from engine.store.codec import read, readable
from engine.store.connection import Parameter
from engine.store.mirror_rows import JsonObject, known, scenario_fields
from engine.store.reader import Reader
from engine.store.tables import ReviewRow, ScenarioRow

_SETTLED: Final = (State.DONE.value, State.FAILED.value, State.DROPPED.value)
"""What waits or is under way is so for an engine that runs, and begins anew with another."""
_CALL: Final = (
    *("stage", "role", "model", "outcome", "status", "at", "duration_ms", "first_token_ms"),
    *("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "detail"),
    *("served", "other", "route", "reported"),
)
_OF_TAKE: Final = (
    "SELECT x.take, {} FROM take t JOIN {} x ON x.take = t.seq "
    "WHERE t.benchmark = ? AND t.target = ? ORDER BY x.take, {}"
)


class BenchmarkHistory:
    """Of one benchmark. Times are milliseconds since 1970, UTC, as the store has them."""

    def __init__(self, reader: Reader, benchmark: str) -> None:
        self._store = reader.connection
        self._benchmark = benchmark

    def calls(self, target: str | None) -> dict[str, list[JsonObject]]:
        """Every attempt made on behalf of a target, or of none, by its row of work."""
        found: defaultdict[str, list[JsonObject]] = defaultdict(list)
        rows = self._store.all(
            "SELECT * FROM attempt WHERE benchmark = ? AND target IS ? ORDER BY seq",
            (self._benchmark, target),
        )
        for row in rows:
            found[row["unit"]].append(_known(row, _CALL))
        return found

    def work(self, target: str | None) -> dict[str, list[JsonObject]]:
        """How each row of work stands that is settled, by its id."""
        found: defaultdict[str, list[JsonObject]] = defaultdict(list)
        rows = self._store.all(
            "SELECT unit, stage, target, state, reason, at, max(seq) FROM state "
            "WHERE benchmark = ? GROUP BY stage, unit HAVING target IS ? ORDER BY seq",
            (self._benchmark, target),
        )
        for row in rows:
            if row["state"] in _SETTLED:
                found[row["unit"]].append(_known(row, ("stage", "state", "reason", "at")))
        return found

    def takes(self, target: str) -> dict[int, JsonObject]:
        """When all of each take came true, and from what; by its `seq`."""
        found: dict[int, JsonObject] = {}
        rows = self._store.all(
            "SELECT seq, number, at, depends FROM take WHERE benchmark = ? AND target = ?",
            (self._benchmark, target),
        )
        for row in rows:
            found[row["seq"]] = {"take": row["number"], **_made(row), "messages": []}
        for row in self._of_takes("x.at", "message", "x.turn, x.speaker = 'assistant'", target):
            found[row["take"]]["messages"].append(row["at"])
        for row in self._of_takes("x.at", "take_end", "x.seq", target):
            found[row["take"]]["ended"] = row["at"]
        for row in self._of_takes("x.at, x.depends", "verdict", "x.seq", target):
            found[row["take"]].setdefault("verdicts", []).append(_made(row))
        for row in self._of_takes("x.at, x.depends", "take_check", "x.seq", target):
            found[row["take"]].setdefault("checks", []).append(_made(row))
        return found

    def _of_takes(self, columns: str, table: str, order: str, target: str) -> list[Row]:
        return self._store.all(_OF_TAKE.format(columns, table, order), (self._benchmark, target))

    def scenarios(self) -> list[JsonObject]:
        """When each was written, and from what; with all that it was where a person took it out."""
        rows = self._store.all(
            "SELECT *, max(seq) FROM scenario WHERE benchmark = ? GROUP BY scenario_id "
            "ORDER BY scenario_id",
            self._named,
        )
        return [_scenario(row) for row in rows]

    def metrics(self) -> list[JsonObject]:
        """Every one that a model wrote, or that was replaced by such a one, oldest first."""
        rows = self._store.all("SELECT * FROM metric WHERE benchmark = ? ORDER BY seq", self._named)
        return [_metric(row) for row in rows]

    def reviews(self) -> list[JsonObject]:
        """What people said of both, oldest first."""
        rows = self._store.all("SELECT * FROM review WHERE benchmark = ? ORDER BY seq", self._named)
        return [_review(read(ReviewRow, row)) for row in rows]

    @property
    def _named(self) -> Sequence[Parameter]:
        return (self._benchmark,)


def _known(row: Row, names: Sequence[str]) -> JsonObject:
    """What is not known is left out, and a number that no file can hold is not known."""
    found = {name: row[name] for name in names if row[name] is not None}
    return {
        name: value
        for name, value in found.items()
        if not isinstance(value, float) or math.isfinite(value)
    }


@readable
def _made(row: Row) -> JsonObject:
    made: JsonObject = {"at": row["at"]}
    if row["depends"] is not None:
        made["depends"] = json.loads(row["depends"])
    return made


@readable
def _metric(row: Row) -> JsonObject:
    return {
        "metric": {
            "id": row["metric_id"],
            "name": row["name"],
            "type": row["track"],
            "definition": row["definition"],
            "examples": json.loads(row["examples"]),
            **({} if row["holds"] == When.ANYWHERE else {"when": row["holds"]}),
        },
        "source": row["source"],
        **_made(row),
    }


def _review(row: ReviewRow) -> JsonObject:
    names = ("action", "person", "account", "reason")
    items = [known(asdict(item), "was") for item in row.items]
    told = {**{name: str(getattr(row, name)) for name in names}, "items": items}
    return {"review": told, "at": row.at}


def _scenario(row: Row) -> JsonObject:
    told = {"scenario": row["scenario_id"], **_made(row)}
    if row["removed"]:
        scenario = read(ScenarioRow, row).scenario
        told |= {"source": row["source"], "removed": scenario_fields(scenario)}
    return told


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
