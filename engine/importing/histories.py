"""Reads the history in our own files: times, inputs, calls, and the state of each row of work.

No file has the following, so a store that is made from files lacks it: runs and notes; what models
were found not to support; the order of writing, earlier states of a row of work, and earlier ends
of a take that was continued; versions of a scenario that nothing was played from; and everything of
targets that the configuration does not name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.benchmark import Metric, Scenario, State, Usage
from engine.importing.context import ImportContext, RowLocation
from engine.importing.fields import (
    ForeignObject,
    UnfitError,
    depends_of,
    objects_in,
    row_of,
    text,
    time_of,
)
from engine.importing.source import read_lines
from engine.store.inserts import WholeTake
from engine.store.json_file import kind_of
from engine.store.mirror_rows import HISTORY
from engine.store.scenarios_json import scenario_apart
from engine.store.tables import (
    AttemptRow,
    CheckRow,
    Depends,
    MetricRow,
    ReviewKind,
    ReviewRow,
    SettingsRow,
    StateRow,
    Verdict,
)

R = TypeVar("R", Verdict, CheckRow)

_SETTLED: Final = frozenset({State.DONE, State.FAILED, State.DROPPED})
_KINDS: Final = frozenset(kind.value for kind in ReviewKind)
_USED: Final = "input_tokens cached_tokens output_tokens cost_usd"
_CALL: Final = (
    "stage role model outcome status duration_ms detail first_token_ms served route left_out"
)
_NOT_TOLD: Final = {**dict.fromkeys(_USED.split()), "duration_ms": 0}
"""The values of a call that a file leaves out."""


@dataclass(slots=True)
class RowHistories:
    """The histories in one folder. What is not in our format is ignored."""

    context: ImportContext
    target: str | None
    """Our name of the target; None for the benchmark itself."""
    _units: dict[str, ForeignObject] = field(default_factory=dict)
    _locations: dict[str, RowLocation] = field(default_factory=dict)
    _scenarios: dict[str, ForeignObject] = field(default_factory=dict)
    _metrics: list[ForeignObject] = field(default_factory=list)
    _reviews: list[ForeignObject] = field(default_factory=list)
    _settings: dict[str, ForeignObject] = field(default_factory=dict)
    """By digest."""
    is_there: bool = False
    """Whether there is any history, so that nothing has to be inferred from the other files."""

    def read(self, path: Path) -> None:
        """Read a history, if the file exists."""
        file, rows = self.context.rows(path, read_lines)
        for row in rows:
            location = RowLocation(file, row.index, row.line)
            try:
                self._keep_row(row.value, location)
            except UnfitError as error:
                location.drop(error)

    def _keep_row(self, value: object, location: RowLocation) -> None:
        if not isinstance(value, dict):
            raise UnfitError("", f"expected an object, {{...}}, found {kind_of(value)}")
        if (scenario := text(value, "scenario")) is not None:
            self._scenarios[scenario] = value
            self._locations[scenario] = location
        elif isinstance(value.get("metric"), dict):
            self._metrics.append(value)
        elif isinstance(value.get("review"), dict):
            self._reviews.append(value)
        elif (name := text(value, "settings")) is not None:
            self._settings[name] = value
        elif (unit := text(value, "conv_id") or text(value, "unit")) is not None:
            # the benchmark itself is a row of work, and may have another name here
            mine = self.context.name if unit == self.context.source.name else unit
            self._units[mine] = value
            self._locations[mine] = location
        else:
            kinds = "`conv_id`, `unit`, `scenario`, `settings`, `metric` or `review`"
            expected = f"expected a row with a {kinds}"
            raise UnfitError("", expected)
        self.is_there = True

    def take(self, unit: str) -> RowHistory:
        """Return the history of a row of work and forget it; what is left has no other row."""
        return RowHistory(self.context.name, self.target, unit, self._units.pop(unit, {}))

    def of_unfinished(self) -> Iterator[tuple[RowLocation, ForeignObject]]:
        """Yield conversations that are not in `conversations.json`."""
        for unit, row in list(self._units.items()):
            if objects_in(row.get("apart")):
                yield self._locations[unit], row

    def unused(self) -> Iterator[RowHistory]:
        """Yield the histories that were not taken."""
        for unit in list(self._units):
            yield self.take(unit)

    def scenario(self, name: str) -> tuple[int | None, Depends | None]:
        """Return when a scenario was written, and from what inputs."""
        row = self._scenarios.get(name, {})
        return time_of(row.get("at")), depends_of(row)

    def apart_from_file(self, kind: str) -> Iterator[tuple[Scenario, str]]:
        """Yield the scenarios that only the history holds, with their sources: those that a person
        removed (`removed`), or bases without variants (`base`)."""
        for row in self._scenarios.values():
            scenario = scenario_apart(row, kind, Path(HISTORY))
            if scenario is not None:
                yield scenario, "model" if row.get("source") == "model" else "file"

    def settings(self) -> Iterator[SettingsRow]:
        """Yield what models were asked with."""
        for name, row in self._settings.items():
            if isinstance(row.get("values"), dict):
                yield SettingsRow(digest=name, settings=row["values"])

    def metrics(self) -> Iterator[MetricRow]:
        """Yield metrics as they were written, oldest first."""
        for row in self._metrics:
            fields, source = row["metric"], text(row, "source")
            names = "id name definition examples when"
            metric = row_of(Metric, fields, names, track=fields.get("type"))
            if metric is not None and source in {"model", "file"}:
                yield MetricRow(
                    benchmark=self.context.name,
                    metric=metric,
                    source=source,
                    depends=depends_of(row),
                    at=time_of(row.get("at")),
                )

    def reviews(self) -> Iterator[ReviewRow]:
        """Yield the reviews of metrics and scenarios, oldest first."""
        names = "action person account reason items"
        for row in self._reviews:
            about = {"benchmark": self.context.name, "at": time_of(row.get("at"))}
            review = row_of(ReviewRow, row["review"], names, **about)
            if review is not None and all(item.kind in _KINDS for item in review.items):
                yield review


@dataclass(frozen=True, slots=True)
class RowHistory:
    """The history of a row of work, or of the two that a conversation has."""

    benchmark: str
    target: str | None
    unit: str
    row: ForeignObject

    @property
    def calls(self) -> list[AttemptRow] | None:
        """The calls; None if none are listed."""
        if "calls" not in self.row:
            return None
        calls = map(self._call, objects_in(self.row["calls"]))
        return [call for call in calls if call is not None]

    @property
    def work(self) -> list[StateRow] | None:
        """The settled states; None if none are listed."""
        if "work" not in self.row:
            return None
        states = [
            row_of(StateRow, one, "stage state reason", **self._work_row(one))
            for one in objects_in(self.row["work"])
        ]
        return [state for state in states if state is not None and state.state in _SETTLED]

    def _call(self, entry: ForeignObject) -> AttemptRow | None:
        entry = {**_NOT_TOLD, **entry}
        usage = {name: entry[name] for name in _USED.split()}
        if row_of(Usage, usage, _USED) is None:
            return None
        return row_of(
            AttemptRow,
            entry,
            _CALL,
            usage={"calls": 1, **usage},
            is_other=entry.get("other") == 1,
            cost_reported=entry.get("reported") == 1,
            **self._work_row(entry),
        )

    def _work_row(self, entry: ForeignObject) -> dict[str, Any]:
        """Return what tells whose work an entry is about, and when it was done."""
        at = time_of(entry.get("at"))
        names = {"benchmark": self.benchmark, "unit": self.unit, "target": self.target}
        return {**names, "at": at}

    def dated(self, takes: Iterable[WholeTake]) -> list[WholeTake]:
        """Return the takes with their times and inputs, if these are known."""
        if not self.row:
            return list(takes)
        by_number = {
            take["take"]: take
            for take in objects_in(self.row.get("takes"))
            if isinstance(take.get("take"), int)
        }
        return [
            _with_times(take, by_number[take.begun.number])
            if take.begun.number in by_number
            else take
            for take in takes
        ]


def _with_times(take: WholeTake, times_of: ForeignObject) -> WholeTake:
    """Add times and inputs. Times of messages are used only if there are as many as messages."""
    messages, times = take.messages, times_of.get("messages")
    if isinstance(times, list) and len(times) == len(messages):
        messages = [
            replace(message, at=time_of(at)) for message, at in zip(messages, times, strict=True)
        ]
    began, inputs = time_of(times_of.get("at")), depends_of(times_of)
    return WholeTake(
        begun=replace(take.begun, at=began, depends=inputs),
        messages=messages,
        end=None if take.end is None else replace(take.end, at=time_of(times_of.get("ended"))),
        verdicts=tuple(_dated_rows(take.verdicts, times_of.get("verdicts"))),
        checks=tuple(_dated_rows(take.checks, times_of.get("checks"))),
    )


def _dated_rows(rows: Sequence[R], listed: object) -> Iterator[R]:
    """Add times and inputs to rows; those that a person added to the file follow without any."""
    entries = listed if isinstance(listed, list) else []
    for index, row in enumerate(rows):
        # matched by position: a list that is longer than the rows is about other rows
        history = entries[index] if index < len(entries) <= len(rows) else None
        if isinstance(history, dict):
            yield replace(row, at=time_of(history.get("at")), depends=depends_of(history))
        else:
            yield row
