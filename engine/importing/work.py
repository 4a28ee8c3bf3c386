"""Imports the states of rows of work and the calls that were made for them, each once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from engine.benchmark import UNKNOWN, ConversationKey, Role, Stage, State, Usage
from engine.importing.context import ImportContext, RowLocation
from engine.importing.fields import OURS, UnfitError, usage_of
from engine.importing.histories import RowHistories
from engine.store.json_file import kind_of
from engine.store.tables import AttemptRow, StateRow, Verdict

SUM: Final = "the sum of calls that were made elsewhere"
_NOTHING: Final = Usage(0, 0, None, 0, 0.0)
_NOISE_USD: Final = 1e-9
"""Less than any provider charges, in US dollars."""
_SCRIPT: Final = f"offline:{UNKNOWN}"
"""The label of a scripted model of which no more is known."""

_ROLES: Final = {
    Stage.GEN_METRICS: Role.GENERATOR,
    Stage.GEN_SCENARIOS: Role.GENERATOR,
    Stage.SIMULATE: Role.TARGET,
    Stage.EVALUATE: Role.EVALUATOR,
}


def _excess_usage(stated: Usage, known: Usage) -> Usage | None:
    """Return a file's sum minus the known usage; None if nothing is left."""
    cost = None
    if stated.cost_usd is not None:
        cost = max(stated.cost_usd - (known.cost_usd or 0.0), 0.0)
        # sums of floats differ in their last digits, depending on the order
        cost = 0.0 if cost < _NOISE_USD else cost
    read = _excess(stated.input_tokens, known.input_tokens)
    written = _excess(stated.output_tokens, known.output_tokens)
    return Usage(1, read, None, written, cost) if any((read, written, cost)) else None


def _excess(stated: int | None, known: int | None) -> int | None:
    return None if stated is None else max(stated - (known or 0), 0)


def _sum(usage: Usage, other: Usage) -> Usage:
    """Add up usage. An unknown amount counts as 0: only the file's own sum may have it."""
    return Usage(
        0,
        (usage.input_tokens or 0) + (other.input_tokens or 0),
        None,
        (usage.output_tokens or 0) + (other.output_tokens or 0),
        (usage.cost_usd or 0.0) + (other.cost_usd or 0.0),
    )


def _phases(value: object) -> Iterator[tuple[Stage, Usage, str]]:
    """Yield each stage in a `cost.json` with its usage, and a label for who was called."""
    for name, phase in value.items() if isinstance(value, Mapping) else ():
        if name in set(_ROLES) and isinstance(phase, Mapping):
            usage = usage_of(phase)
            if usage is not None:
                ours = phase.get(OURS)
                is_scripted = isinstance(ours, Mapping) and ours.get("scripted") is True
                yield Stage(name), usage, _SCRIPT if is_scripted else UNKNOWN


_GENERATION = frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS})


@dataclass(slots=True)
class WorkImport:
    """Imports states and calls of one benchmark."""

    context: ImportContext
    _used: dict[tuple[Stage, str | None], Usage] = field(default_factory=dict)
    """Usage by stage and target that this import has added."""
    _announced: set[tuple[Stage, str]] = field(default_factory=set)

    def state(
        self, stage: Stage, unit: str, target: str | None = None, *, failed: str | None = None
    ) -> Iterator[StateRow]:
        """Yield the state done, or failed with a reason, unless one is known already."""
        yield from self.unknown_states(
            StateRow(
                benchmark=self.context.name,
                stage=stage,
                unit=unit,
                target=target,
                state=State.DONE if failed is None else State.FAILED,
                reason=failed,
            )
        )

    def judged_since(self, key: ConversationKey, verdicts: Iterable[Verdict]) -> Iterator[StateRow]:
        """Yield the state done if the store has another one and a usable verdict is added."""
        unit = str(key)
        usable = any(verdict.passed is not None for verdict in verdicts)
        if usable and self.context.known.state(Stage.EVALUATE, unit) is not State.DONE:
            yield StateRow(
                benchmark=self.context.name,
                stage=Stage.EVALUATE,
                unit=unit,
                target=key.target_id,
                state=State.DONE,
            )

    def unknown_states(self, row: StateRow) -> Iterator[StateRow]:
        """Yield a state unless one is known already. Only those without a target are remembered:
        there may be very many conversations, and each comes once."""
        if self.context.known.state(row.stage, row.unit) is not None:
            return
        if row.target is None:
            if (row.stage, row.unit) in self._announced:
                return
            self._announced.add((row.stage, row.unit))
        yield row

    def listed_calls(self, calls: Iterable[AttemptRow]) -> list[AttemptRow]:
        """Add calls that are listed one by one, so that no sum includes them again."""
        listed = list(calls)
        for call in listed:
            self._use(call)
        return listed

    def _use(self, call: AttemptRow) -> None:
        key = (call.stage, call.target)
        self._used[key] = _sum(self._used.get(key, _NOTHING), call.usage)

    def attempt(
        self, stage: Stage, unit: str, target: str | None, model: str, usage: Usage
    ) -> AttemptRow:
        """Return the sum of calls that were made elsewhere, as one attempt."""
        attempt = AttemptRow(
            benchmark=self.context.name,
            stage=stage,
            unit=unit,
            target=target,
            role=_ROLES[stage],
            model=model,
            outcome="answer",
            duration_ms=0,
            usage=usage,
            detail=SUM,
        )
        self._use(attempt)
        return attempt

    def written_by_script(self, scenario_id: str) -> AttemptRow:
        """Mark a scenario as written by a script; the usage is in the sum of all calls."""
        nothing = Usage(1, 0, 0, 0, 0.0)
        return self.attempt(Stage.GEN_SCENARIOS, scenario_id, None, _SCRIPT, nothing)

    def remaining(self, histories: RowHistories) -> Iterator[AttemptRow | StateRow]:
        """Yield the calls and states of rows of work that no other file has."""
        known = self.context.known
        for history in histories.unused():
            calls = history.calls or []
            yield from self.listed_calls(
                call for call in calls if not known.has_call(call.stage, call.unit)
            )
            if "takes" not in history.row:
                for state in history.work or ():
                    yield from self.unknown_states(state)

    def costs(self, path: Path, target: str | None) -> Iterator[AttemptRow]:
        """Yield the part of each sum in a `cost.json` that listed calls do not cover."""
        if not path.is_file():
            return
        file = self.context.report.file(path)
        value = self.context.value(path, file)
        if value is None:
            return
        if not isinstance(value, dict):
            what = f"expected an object, {{...}}, found {kind_of(value)}"
            RowLocation(file, 0, 1).drop(UnfitError("", what))
            return
        for stage, stated, label in _phases(value):
            if (stage in _GENERATION) != (target is None):
                continue
            file.rows += 1
            known, added = self.context.known, self._used.get((stage, target), _NOTHING)
            before = known.reader.usage(known.benchmark, stage, target)
            missing = _excess_usage(stated, _sum(before, added))
            if missing is None:
                is_told = (stage, target) in self._used
                file.taken += is_told
                file.known += not is_told
                continue
            file.taken += 1
            unit = target or self.context.name
            yield self.attempt(stage, unit, target, label, missing)

    def of_stages(self, folder: Path, history: RowHistories) -> Iterator[StateRow]:
        """Yield the states of stages that files imply: metrics are in `benchmark.yaml`, and results
        were computed if there is a file."""
        if history.is_there:
            return
        name, definition = self.context.name, self.context.definition
        if definition is not None and definition.metrics:
            yield from self.state(Stage.GEN_METRICS, name)
        if (folder / "results.json").is_file():
            yield from self.state(Stage.AGGREGATE, name)
