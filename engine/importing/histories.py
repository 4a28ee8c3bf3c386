"""Reads the history in our own files: times, inputs, calls, and the state of each row of work.

No file has the following, so a store that is made from files lacks it: runs and notes; what models
were found not to support; the order of writing, earlier states of a row of work, and earlier ends
of a take that was continued; versions of a scenario that nothing was played from; and everything of
targets that the configuration does not name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from engine.benchmark import Metric, Role, Scenario, Stage, State, Track, Usage, When
from engine.importing.context import ImportContext, RowLocation
from engine.importing.fields import (
    ForeignObject,
    UnfitError,
    amount,
    objects_in,
    text,
    whole_number,
)
from engine.importing.json_rows import read_lines
from engine.importing.takes import FileTake
from engine.store.codec import storable
from engine.store.json_file import kind_of
from engine.store.mirror_rows import HISTORY
from engine.store.scenarios_json import scenario_apart
from engine.store.tables import (
    AttemptRow,
    CheckRow,
    Depends,
    MetricRow,
    ReviewAction,
    ReviewItem,
    ReviewKind,
    ReviewRow,
    SettingsRow,
    StateRow,
    Verdict,
)

R = TypeVar("R", Verdict, CheckRow)

_LAST_MOMENT: Final = 253_402_300_799_999
"""The end of the year 9999 in milliseconds since 1970."""
_SETTLED: Final = {state.value: state for state in (State.DONE, State.FAILED, State.DROPPED)}
_STAGES: Final = {stage.value: stage for stage in Stage}
_ROLES: Final = {role.value: role for role in Role}
_TRACKS: Final = {track.value: track for track in Track}
_ACTIONS: Final = {action.value: action for action in ReviewAction}
_KINDS: Final = frozenset(kind.value for kind in ReviewKind)
_WHEN: Final = {when.value: when for when in When}


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
            self._settings[storable(name)] = value
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
        return _time(row.get("at")), _depends(row)

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
            metric, source = _metric(row["metric"]), text(row, "source")
            if metric is not None and source in {"model", "file"}:
                yield MetricRow(
                    benchmark=self.context.name,
                    metric=metric,
                    source=source,
                    depends=_depends(row),
                    at=_time(row.get("at")),
                )

    def reviews(self) -> Iterator[ReviewRow]:
        """Yield the reviews of metrics and scenarios, oldest first."""
        for row in self._reviews:
            review = row["review"]
            action = _ACTIONS.get(str(review.get("action")))
            person, account = text(review, "person"), text(review, "account")
            items = tuple(_review_items(review.get("items")))
            if action is not None and person is not None and account is not None and items:
                yield ReviewRow(
                    benchmark=self.context.name,
                    action=action,
                    person=storable(person),
                    account=storable(account),
                    reason=storable(text(review, "reason") or ""),
                    items=items,
                    at=_time(row.get("at")),
                )


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
        entries = map(self._call, objects_in(self.row["calls"]))
        return [call for call in entries if call is not None]

    @property
    def work(self) -> list[StateRow] | None:
        """The settled states; None if none are listed."""
        if "work" not in self.row:
            return None
        entries = map(self._state, objects_in(self.row["work"]))
        return [state for state in entries if state is not None]

    def _call(self, call: Mapping[str, Any]) -> AttemptRow | None:
        stage, role = _STAGES.get(str(call.get("stage"))), _ROLES.get(str(call.get("role")))
        model, outcome = text(call, "model"), text(call, "outcome")
        if stage is None or role is None or model is None or outcome is None:
            return None
        return AttemptRow(
            benchmark=self.benchmark,
            stage=stage,
            unit=self.unit,
            target=self.target,
            role=role,
            model=model,
            outcome=outcome,
            status=whole_number(call.get("status")),
            duration_ms=whole_number(call.get("duration_ms")) or 0,
            usage=Usage(
                1,
                whole_number(call.get("input_tokens")),
                whole_number(call.get("cached_tokens")),
                whole_number(call.get("output_tokens")),
                amount(call.get("cost_usd")),
            ),
            detail=text(call, "detail"),
            first_token_ms=whole_number(call.get("first_token_ms")),
            served=text(call, "served"),
            is_other=call.get("other") == 1,
            route=text(call, "route"),
            cost_reported=call.get("reported") == 1,
            left_out=text(call, "left_out"),
            at=_time(call.get("at")),
        )

    def _state(self, entry: Mapping[str, Any]) -> StateRow | None:
        stage, state = _STAGES.get(str(entry.get("stage"))), _SETTLED.get(str(entry.get("state")))
        if stage is None or state is None:
            return None
        reason = text(entry, "reason")
        return StateRow(
            benchmark=self.benchmark,
            stage=stage,
            unit=self.unit,
            target=self.target,
            state=state,
            reason=None if reason is None else storable(reason),
            at=_time(entry.get("at")),
        )

    def dated(self, takes: Iterable[FileTake]) -> list[FileTake]:
        """Return the takes with their times and inputs, if these are known."""
        if not self.row:
            return list(takes)
        by_number = {
            take["take"]: take
            for take in objects_in(self.row.get("takes"))
            if isinstance(take.get("take"), int)
        }
        return [
            _with_times(take, by_number[take.number]) if take.number in by_number else take
            for take in takes
        ]


def _with_times(take: FileTake, times_of: ForeignObject) -> FileTake:
    """Add times and inputs. Times of messages are used only if there are as many as messages."""
    messages = list(take.transcript.messages)
    times = times_of.get("messages")
    if isinstance(times, list) and len(times) == len(messages):
        messages = [
            replace(message, at=_time(at)) for message, at in zip(messages, times, strict=True)
        ]
    return replace(
        take,
        transcript=replace(take.transcript, messages=messages),
        at=_time(times_of.get("at")),
        ended_at=_time(times_of.get("ended")),
        depends=_depends(times_of),
        verdicts=tuple(_dated_rows(take.verdicts, times_of.get("verdicts"))),
        checks=tuple(_dated_rows(take.checks, times_of.get("checks"))),
    )


def _dated_rows(rows: tuple[R, ...], listed: object) -> Iterator[R]:
    """Add times and inputs to rows; those that a person added to the file follow without any."""
    entries = listed if isinstance(listed, list) else []
    for index, row in enumerate(rows):
        # matched by position: a list that is longer than the rows is about other rows
        history = entries[index] if index < len(entries) <= len(rows) else None
        if isinstance(history, dict):
            yield replace(row, at=_time(history.get("at")), depends=_depends(history))
        else:
            yield row


def _time(value: object) -> int | None:
    is_time = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LAST_MOMENT
    return value if is_time and isinstance(value, int) else None


def _depends(row: ForeignObject) -> Depends | None:
    digests = row.get("depends")
    if not isinstance(digests, dict) or not all(
        isinstance(digest, str) for digest in digests.values()
    ):
        return None
    return {storable(name): storable(digest) for name, digest in digests.items()}


def _review_items(value: object) -> Iterator[ReviewItem]:
    for item in objects_in(value):
        kind, name, digest = (text(item, key) for key in ("kind", "id", "digest"))
        was = item.get("was")
        if kind in _KINDS and name is not None and digest is not None:
            yield ReviewItem(str(kind), name, digest, was if isinstance(was, dict) else None)


def _metric(value: Mapping[str, Any]) -> Metric | None:
    name, title, definition = (text(value, key) for key in ("id", "name", "definition"))
    track, examples = _TRACKS.get(str(value.get("type"))), value.get("examples")
    if name is None or title is None or definition is None or track is None:
        return None
    listed = examples if isinstance(examples, list) else []
    when = _WHEN.get(str(value.get("when")), When.ANYWHERE)
    return Metric(name, title, track, definition, tuple(str(value) for value in listed), when)
