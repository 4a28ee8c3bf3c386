"""Reads `scenarios.json` as people and other tools write it, and reports everything wrong in it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Landmark, Scenario, name_fault
from engine.errors import InputError, Problem
from engine.store.json_file import ParsedObject, kind_of, read_json
from engine.store.mirror_rows import OURS

HistoryRow = Mapping[str, Any]
"""A line of `history.jsonl`, as it was read."""

_READ: Final = frozenset(
    {
        "id",
        "metric_id",
        "persona",
        "user_goal",
        "latent_adversarial_goal",
        "landmarks",
        "demographic",
        "target_system_prompt",
    }
)
_OURS: Final = frozenset({"metric_name", "metric_type", OURS})
"""Keys that are not read, as they are always written from what is known."""


def read_scenarios(
    path: Path, *, turns: int, metrics: Collection[str]
) -> tuple[list[Scenario], list[str]]:
    """Return the scenarios in the order of the file, and warnings.

    `turns` is the length of a conversation, `metrics` the benchmark's metric ids. Raises
    `InputError` with all faults.
    """
    rows = read_json(path)
    if not isinstance(rows, list):
        raise InputError(
            Problem(f"expected a list of scenarios, [...], found {kind_of(rows)}", path=path)
        )
    file = _FileCheck(path, turns, frozenset(metrics))
    scenarios = [_scenario(_RowCheck(file, index, row)) for index, row in enumerate(rows)]
    if file.problems:
        raise InputError(file.problems)
    return [scenario for scenario in scenarios if scenario is not None], file.warnings


def read_scenario(
    value: object, *, path: Path, index: int, metrics: Collection[str]
) -> tuple[Scenario | None, list[Problem]]:
    """Read a single row; return its scenario, or None if there are faults, and the faults. Any turn
    of a landmark is accepted, and so is an id that another row has."""
    file = _FileCheck(path, turns=sys.maxsize, metrics=frozenset(metrics))
    scenario = _scenario(_RowCheck(file, index, value))
    return (None if file.problems else scenario), file.problems


def differ(scenario: Scenario, other: Scenario) -> bool:
    """Say whether two scenarios differ in anything that a conversation depends on."""
    return _played_from(scenario) != _played_from(other)


def _played_from(scenario: Scenario) -> tuple[object, ...]:
    return (
        *(scenario.metric_id, scenario.persona, scenario.user_goal),
        *(scenario.latent_adversarial_goal, scenario.landmarks, dict(scenario.demographic)),
        scenario.target_system_prompt,
    )


def told_base(
    row: Mapping[str, object], variant: Scenario, *, path: Path, index: int
) -> Scenario | None:
    """Return the base scenario that our own file gives with the first of its variants, if any."""
    ours = row.get(OURS)
    base = ours.get("base") if isinstance(ours, dict) else None
    if not isinstance(base, dict) or variant.base_id == variant.id:
        return None
    fields = {**base, "id": variant.base_id, "metric_id": variant.metric_id}
    scenario, _ = read_scenario(fields, path=path, index=index, metrics={variant.metric_id})
    return scenario


def scenario_apart(row: HistoryRow, kind: str, path: Path) -> Scenario | None:
    """Return the scenario that a row of the history holds, as no other file has it. Its metric may
    be one that the benchmark has no more."""
    fields = row.get(kind)
    if not isinstance(fields, dict):
        return None
    metrics = {str(fields.get("metric_id"))}
    return read_scenario(fields, path=path, index=0, metrics=metrics)[0]


@dataclass(slots=True)
class _FileCheck:
    """What rows are checked against, and the faults that were found."""

    path: Path
    turns: int
    metrics: frozenset[str]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    """The index of the row that has each id."""


class _RowCheck:
    """A row. Faults are collected, and reading continues."""

    def __init__(self, file: _FileCheck, index: int, value: object) -> None:
        self.file = file
        self.place = f"[{index}]"
        self.index = index
        self.fields: Mapping[str, object] = value if isinstance(value, dict) else {}
        self.name = self.fields.get("id")
        self.is_object = isinstance(value, dict)
        if not self.is_object:
            self.wrong(None, f"expected a scenario, {{...}}, found {kind_of(value)}")
        self.note_doubled(None, value)

    def wrong(self, key: str | None, what: str, hint: str | None = None) -> None:
        place = self.place if key is None else f"{self.place}.{key}"
        is_name = isinstance(self.name, str) and name_fault(self.name) is None
        named = f"{self.name}: {what}" if is_name else what
        self.file.problems.append(Problem(named, path=self.file.path, key=place, hint=hint))

    def note_doubled(self, key: str | None, value: object) -> None:
        for name in value.doubled if isinstance(value, ParsedObject) else ():
            self.wrong(name if key is None else f"{key}.{name}", "this key is there twice")

    def text(self, key: str, *, of: Mapping[str, object] | None = None, at: str = "") -> str:
        """Return a text; note a fault if it is missing, blank or not a text."""
        fields = self.fields if of is None else of
        if key not in fields:
            self.wrong(at + key, "missing; expected a text")
            return ""
        value = fields[key]
        if not isinstance(value, str):
            self.wrong(at + key, f"expected a text, found {kind_of(value)}")
            return ""
        if not value.strip():
            self.wrong(at + key, "is empty; expected a text")
        return value


def _scenario(row: _RowCheck) -> Scenario | None:
    if not row.is_object:
        return None
    persona = "persona" if "persona" in row.fields or "user_persona" not in row.fields else None
    return Scenario(
        id=_id(row),
        metric_id=_metric(row),
        persona=row.text(persona or "user_persona"),
        user_goal=row.text("user_goal"),
        latent_adversarial_goal=row.text("latent_adversarial_goal"),
        landmarks=tuple(_landmarks(row)),
        demographic=_demographic(row),
        target_system_prompt=_system_prompt(row),
        extra={k: v for k, v in row.fields.items() if k not in _READ and k not in _OURS},
    )


def _id(row: _RowCheck) -> str:
    name = row.text("id")
    if not name.strip():
        return name
    if fault := name_fault(name):
        row.wrong("id", f"cannot be an id: {fault}")
    first = row.file.seen.setdefault(name, row.index)
    if first != row.index:
        row.wrong("id", f"the row [{first}] has this id too; expected each id once")
    return name


def _metric(row: _RowCheck) -> str:
    name = row.text("metric_id")
    if name.strip() and name not in row.file.metrics:
        known = sorted(row.file.metrics)
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
        row.wrong("metric_id", f"the benchmark has no metric {name!r}", hint)
    return name


def _demographic(row: _RowCheck) -> dict[str, str]:
    value = row.fields.get("demographic")
    if value is None:
        return {}
    if not isinstance(value, dict):
        row.wrong("demographic", f"expected {{axis: value}}, found {kind_of(value)}")
        return {}
    row.note_doubled("demographic", value)
    for axis, text in value.items():
        if not isinstance(text, str | int) or isinstance(text, bool):
            row.wrong(f"demographic.{axis}", f"expected a text, found {kind_of(text)}")
    return {str(axis): str(text) for axis, text in value.items()}


def _system_prompt(row: _RowCheck) -> str | None:
    value = row.fields.get("target_system_prompt")
    if value is not None and not isinstance(value, str):
        row.wrong("target_system_prompt", f"expected a text or null, found {kind_of(value)}")
        return None
    return value


def _landmarks(row: _RowCheck) -> Iterable[Landmark]:
    """Yield the landmarks, whose turns must rise from 1. One beyond the last turn gives a warning,
    as it will not be reached."""
    value = row.fields.get("landmarks")
    if value is not None and not isinstance(value, list):
        row.wrong("landmarks", f"expected a list, found {kind_of(value)}")
        return
    before = 0
    for number, landmark in enumerate(value or []):
        at = f"landmarks[{number}]"
        if not isinstance(landmark, dict):
            row.wrong(at, f"expected {{turn, instruction}}, found {kind_of(landmark)}")
            continue
        row.note_doubled(at, landmark)
        instruction = row.text("instruction", of=landmark, at=f"{at}.")
        turn = _turn(row, landmark, f"{at}.turn", before)
        if turn is not None:
            before = turn
            yield Landmark(turn, instruction)


def _turn(row: _RowCheck, landmark: Mapping[str, object], key: str, before: int) -> int | None:
    if "turn" not in landmark:
        row.wrong(key, "missing; expected the number of a turn")
        return None
    turn = landmark["turn"]
    if not isinstance(turn, int) or isinstance(turn, bool):
        row.wrong(key, f"expected the number of a turn, found {kind_of(turn)}")
        return None
    if turn < 1:
        row.wrong(key, f"expected a turn from 1 on, found {turn}")
        return None
    if turn <= before:
        row.wrong(key, f"expected a turn after {before}, found {turn}; turns must rise")
    elif turn > row.file.turns:
        row.file.warnings.append(
            f"{row.file.path}: {row.place}.{key}: {row.name}: a conversation has "
            f"{row.file.turns} turns; what is meant for turn {turn} will not be reached"
        )
    return turn
