"""What calls used, told as sums: each becomes the one attempt that is missing to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from engine.benchmark import Role, Stage, Usage
from engine.importing.fields import OURS, UNKNOWN, usage_of
from engine.store.rows import AttemptRow

SUM: Final = "the sum of calls that were made elsewhere"
_NOTHING: Final = Usage(0, 0, None, 0, 0.0)
_NOISE_USD: Final = 1e-9

_ROLES: Final = {
    Stage.GEN_METRICS: Role.GENERATOR,
    Stage.GEN_SCENARIOS: Role.GENERATOR,
    Stage.SIMULATE: Role.TARGET,
    Stage.EVALUATE: Role.EVALUATOR,
}


def attempt_of(
    benchmark: str, stage: Stage, unit: str, target: str | None, *, model: str, usage: Usage
) -> AttemptRow:
    return AttemptRow(
        benchmark=benchmark,
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


@dataclass(slots=True)
class Used:
    """What is in the store, or on its way there, of a stage and target."""

    sums: dict[tuple[Stage, str | None], Usage] = field(default_factory=dict)

    def add(self, attempt: AttemptRow) -> None:
        key = (attempt.stage, attempt.target)
        self.sums[key] = _sum(self.sums.get(key, _NOTHING), attempt.usage)

    def knows(self, stage: Stage, target: str | None) -> bool:
        """Whether anything of it is on its way into the store."""
        return (stage, target) in self.sums

    def missing(self, stage: Stage, target: str | None, told: Usage, before: Usage) -> Usage | None:
        """What a file tells beyond what is known, `before` included; None where that is nothing."""
        known = _sum(before, self.sums.get((stage, target), _NOTHING))
        cost = None
        if told.cost_usd is not None:
            cost = max(told.cost_usd - (known.cost_usd or 0.0), 0.0)
            cost = 0.0 if cost < _NOISE_USD else cost
        left = Usage(
            1,
            _beyond(told.input_tokens, known.input_tokens),
            None,
            _beyond(told.output_tokens, known.output_tokens),
            cost,
        )
        return left if any((left.input_tokens, left.output_tokens, left.cost_usd)) else None


def _beyond(told: int | None, known: int | None) -> int | None:
    return None if told is None else max(told - (known or 0), 0)


def _sum(one: Usage, other: Usage) -> Usage:
    """What is not known adds nothing here: the file's sum tells it, or nobody does."""
    return Usage(
        0,
        (one.input_tokens or 0) + (other.input_tokens or 0),
        None,
        (one.output_tokens or 0) + (other.output_tokens or 0),
        (one.cost_usd or 0.0) + (other.cost_usd or 0.0),
    )


def phases(value: object) -> Iterator[tuple[Stage, Usage, bool]]:
    """Each stage that a `cost.json` tells of, and whether scripts made its calls."""
    for name, phase in value.items() if isinstance(value, Mapping) else ():
        if name in set(_ROLES) and isinstance(phase, Mapping):
            told = usage_of(phase)
            if told is not None:
                yield Stage(name), told, _is_scripted(phase)


def _is_scripted(phase: Mapping[str, Any]) -> bool:
    ours = phase.get(OURS)
    return isinstance(ours, Mapping) and ours.get("scripted") is True


def caller(*, scripted: bool) -> str:
    """The label of a model of which no more is known."""
    return f"offline:{UNKNOWN}" if scripted else UNKNOWN
