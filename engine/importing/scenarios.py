"""Imports the scenarios of one benchmark: which are new, which are known, which conflict."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from engine.benchmark import UNKNOWN, Scenario, Stage, metric_of
from engine.errors import Problem
from engine.importing import fields
from engine.importing.context import ImportContext, RowLocation
from engine.importing.fields import (
    OURS,
    PARTIAL,
    ForeignObject,
    UnfitError,
    is_secret,
    our_metric_id,
    our_scenario_id,
    without_secrets,
)
from engine.importing.histories import RowHistories
from engine.importing.work import WorkImport
from engine.store.inserts import BulkRow
from engine.store.scenarios_json import differ, read_scenario, told_base
from engine.store.tables import ScenarioRow, without_base

PERSONA_USED: Final = "persona_used"
"""A key of a scenario's `extra`: whether the user model was told `persona` or `user_persona`."""

_OF_A_CONVERSATION: Final = frozenset(
    "conv_id target target_model sample _sample transcript _usage model source base_url params "
    "temperature max_tokens present passed score justification".split()
) | {OURS, PARTIAL}
_GOALS: Final = frozenset({"user_goal", "latent_adversarial_goal"})


def has_scenario(row: ForeignObject) -> bool:
    """Whether a conversation's row holds its scenario, as in the oldest files."""
    return row.keys() >= _GOALS and ("persona" in row or "user_persona" in row)


def scenario_of(
    row: ForeignObject, *, path: Path, index: int, metrics: Collection[str]
) -> tuple[Scenario | None, list[Problem]]:
    """Read the scenario in a row; None if our reader refuses it, with everything wrong in it."""
    fields = _without_conversation_keys(row)
    known = metrics or {str(fields.get("metric_id"))}
    scenario, problems = read_scenario(fields, path=path, index=index, metrics=known)
    if scenario is None or "user_persona" not in row:
        return scenario, problems
    used = "persona" if "persona" in fields else "user_persona"
    return replace(scenario, extra={**scenario.extra, PERSONA_USED: used}), problems


def _without_conversation_keys(row: ForeignObject) -> dict[str, object]:
    """Drop what belongs to a conversation, and keys and headers."""
    fields: dict[str, object] = {
        name: without_secrets(value)
        for name, value in row.items()
        if name not in _OF_A_CONVERSATION and not is_secret(name)
    }
    demographic = fields.get("demographic")
    if isinstance(demographic, dict):
        fields["demographic"] = {
            axis: value for axis, value in demographic.items() if value is not None
        }
    if fields.get("persona") is None:
        fields.pop("persona", None)
    return fields


def source_of(row: ForeignObject) -> str:
    """Return `model` only if our own file says so: otherwise a person may have written it."""
    ours = row.get(OURS)
    is_models = isinstance(ours, dict) and ours.get("source") == "model"
    return "model" if is_models else "file"


def published_scenario(scenario: Mapping[str, Any], published_id: str) -> dict[str, Any]:
    """Convert a published scenario to a row of `scenarios.json` with our id, and theirs beside."""
    row = dict(scenario)
    metric = row.get("metric_id")
    if isinstance(metric, str):
        row["metric_id"] = our_metric_id(metric) or metric
    row["id"] = our_scenario_id(published_id) or published_id
    if row["id"] != published_id:
        row["published_id"] = published_id
    if "metric" in row:
        row["published_metric"] = row.pop("metric")
    return row


_PLAYED_FROM = (
    *("metric_id", "persona", "user_persona", "user_goal", "latent_adversarial_goal"),
    *("landmarks", "demographic", "target_system_prompt"),
)
_OTHER = "the workspace has another scenario of this id"
_HINT = "import into another workspace; conversations of it are not taken"


@dataclass(slots=True)
class ScenarioImport:
    """Imports the scenarios of one benchmark."""

    context: ImportContext
    work: WorkImport
    history: RowHistories
    by_id: dict[str, Scenario] = field(default_factory=dict)
    """The scenarios as they will be in the store."""
    _conflicts: set[str] = field(default_factory=set)
    _gone: list[tuple[Scenario, str]] = field(default_factory=list)
    _told: dict[str, ForeignObject] = field(default_factory=dict)
    """The fields of each id's scenario as a conversation last gave them: hundreds give the same."""

    def __post_init__(self) -> None:
        self.by_id.update(self.context.scenarios)

    def file(self, path: Path) -> Iterator[BulkRow]:
        """Yield the new rows of a `scenarios.json`."""
        file, rows = self.context.rows(path)
        seen: dict[str, int] = {}
        for row in rows:
            file.rows += 1
            location = RowLocation(file, row.index, row.line)
            try:
                value = fields.as_object(row.value)
                name = fields.row_scenario_id(value)
            except UnfitError as error:
                location.drop(error)
                continue
            if seen.setdefault(name, row.index) != row.index:
                location.drop(UnfitError("id", f"the row [{seen[name]}] has this id too"))
                continue
            yield from self._row(value, location)

    def cached(self, value: object, location: RowLocation) -> Iterator[BulkRow]:
        """Yield what is new in a cached row that no `scenarios.json` has yet."""
        location.file.rows += 1
        try:
            row = fields.as_object(value)
            fields.row_scenario_id(row)
        except UnfitError as error:
            location.drop(error)
            return
        yield from self._row(row, location)

    def bases(self) -> Iterator[BulkRow]:
        """Yield the new base scenarios that have no variants in the file."""
        for scenario, source in self.history.apart_from_file("base"):
            is_new = scenario.id not in {*self.by_id, *self.context.removed}
            if is_new or self._is_newer(scenario):
                self.by_id[scenario.id] = scenario
                yield self._scenario_row(scenario, source)

    def removed(self) -> Iterator[BulkRow]:
        """Yield the scenarios that were removed from the file, as they were: conversations were
        played from them. `forgotten` must follow."""
        for scenario, source in self.history.apart_from_file("removed"):
            if scenario.id in self.context.removed:
                continue
            if scenario.id not in self.by_id:
                self.by_id[scenario.id] = scenario
                # stored first, so that takes can refer to it; its removal follows them
                yield self._scenario_row(scenario, source)
                self._gone.append((scenario, source))

    def forgotten(self) -> Iterator[BulkRow]:
        """Yield the removals of the scenarios that `removed` gave."""
        for scenario, source in self._gone:
            yield replace(self._scenario_row(scenario, source), removed=True)

    def _row(self, value: ForeignObject, location: RowLocation) -> Iterator[BulkRow]:
        file = location.file
        scenario = self._read(value, location)
        if scenario is None:
            file.dropped += 1
        elif scenario.id in self.context.removed:
            file.known += 1
            note = "scenarios that were taken out of the workspace, left out"
            self.context.report.notes[note] += 1
        elif scenario.id not in self.by_id:
            file.taken += 1
            yield from self._new_scenario_rows(scenario, value, location)
        elif self._is_newer(scenario):
            file.taken += 1
            yield from self._base(scenario, value, location)
            self.by_id[scenario.id] = scenario
            yield self._scenario_row(scenario, source_of(value))
        elif differ(scenario, self.by_id[scenario.id]):
            self._conflicts.add(scenario.id)
            location.drop(UnfitError("", f"{scenario.id}: {_OTHER}", _HINT))
        else:
            file.known += 1
            if self.context.repairs:
                yield from self._base(scenario, value, location)

    def _read(self, value: ForeignObject, location: RowLocation) -> Scenario | None:
        """Read a scenario; None if our reader refuses it, which is reported."""
        scenario, problems = scenario_of(
            value, path=location.file.path, index=location.index, metrics=self.context.tracks
        )
        location.file.tell_all(problems)
        return scenario

    def _new_scenario_rows(
        self, scenario: Scenario, value: ForeignObject, location: RowLocation
    ) -> Iterator[BulkRow]:
        source = source_of(value)
        yield from self._base(scenario, value, location)
        if scenario.id not in self.by_id:
            self.by_id[scenario.id] = scenario
            yield self._scenario_row(scenario, source)
        if source == "model" and not self.history.is_there:
            for unit in (scenario.metric_id, scenario.id):
                yield from self.work.state(Stage.GEN_SCENARIOS, unit)
            ours = value.get(OURS)
            if isinstance(ours, dict) and ours.get("scripted") is True:
                yield self.work.written_by_script(scenario.id)

    def _base(
        self, variant: Scenario, value: ForeignObject, location: RowLocation
    ) -> Iterator[BulkRow]:
        """Yield a variant's base if the row gives it and the store has none, or an older one."""
        base = told_base(value, variant, path=location.file.path, index=location.index)
        if base is not None and (base.id not in self.by_id or self._is_newer(base)):
            self.by_id[base.id] = base
            yield self._scenario_row(base, source_of(value))

    def _is_newer(self, scenario: Scenario) -> bool:
        """Say whether the store lost this row and has only older ones of the same id left."""
        stored = self.context.versions.get(scenario.id, ())
        return bool(stored) and all(differ(scenario, version) for version in stored)

    def _scenario_row(self, scenario: Scenario, source: str = "file") -> ScenarioRow:
        at, depends = self.history.scenario(scenario.id)
        if scenario.base_id not in self.by_id:
            depends = without_base(depends)
        return ScenarioRow(
            benchmark=self.context.name,
            scenario=scenario,
            source=source,
            depends=depends if source == "model" else None,
            at=at,
        )

    # For conversations

    def of_conversation(
        self, value: ForeignObject, scenario_id: str, location: RowLocation
    ) -> tuple[list[BulkRow], list[BulkRow]]:
        """Return the rows to write before and after a new conversation.

        In the oldest files each conversation held its scenario, possibly an older version than
        today's of its id: that one is written before, and today's again after. Raises `UnfitError`
        if the workspace has another scenario of this id.
        """
        if scenario_id in self._conflicts:
            raise UnfitError("id", f"{scenario_id}: {_OTHER}", _HINT)
        # compared before it is read, as hundreds of conversations give the same scenario
        values = {name: value.get(name) for name in _PLAYED_FROM}
        if self._told.get(scenario_id) == values:
            return [], []
        played = self._read(value, location) if has_scenario(value) else None
        today = self.by_id.get(scenario_id)
        if played is None or played.id != scenario_id:
            if today is None:
                note = "conversations of scenarios that no file describes"
                self.context.report.notes[note] += 1
            return [], []
        if today is None:
            return list(self._new_scenario_rows(played, value, location)), []
        if not differ(played, today):
            self._told[scenario_id] = values
            return [], []
        if scenario_id in self.context.scenarios:
            raise UnfitError("id", f"{scenario_id}: {_OTHER}", _HINT)
        note = "conversations that were played from an older version of their scenario"
        self.context.report.notes[note] += 1
        return [self._scenario_row(played)], [self._scenario_row(today)]

    def played(self, before: Iterable[BulkRow], scenario_id: str) -> Scenario | None:
        """Return the scenario that a conversation was played from, given the rows before it."""
        for row in before:
            if isinstance(row, ScenarioRow) and row.scenario.id == scenario_id:
                return row.scenario
        return self.by_id.get(scenario_id)

    def metric_of(self, value: ForeignObject, scenario_id: str) -> str:
        """Return the scenario's metric, else the row's, else the one that the id begins with."""
        scenario = self.by_id.get(scenario_id)
        if scenario is not None:
            return scenario.metric_id
        if (own := fields.text(value, "metric_id")) is not None:
            return own
        named = metric_of(scenario_id)
        return named if named in self.context.tracks else UNKNOWN

    @property
    def metrics_named(self) -> dict[str, str]:
        """The names of metrics in published files, by metric id."""
        return {
            scenario.metric_id: str(scenario.extra["published_metric"])
            for scenario in self.by_id.values()
            if "published_metric" in scenario.extra
        }
