"""What a person asks of a run, and the rows of work that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from engine.benchmark import ConversationKey, Stage


class Why(StrEnum):
    """Why a row of work is done, in the words that `--explain` uses."""

    MISSING = "missing"
    INTERRUPTED = "interrupted"
    FAILED = "failed before"
    STALE = "stale"
    FORCED = "forced"
    ASKED = "asked for"


@dataclass(frozen=True, slots=True)
class Order:
    """Which part of the work to do, and whether again."""

    benchmarks: tuple[str, ...]
    stages: frozenset[Stage] = frozenset(Stage)
    targets: frozenset[str] | None = None
    """None for all."""
    force: bool = False
    """Do everything again."""
    stale: bool = False
    """Do again what no longer is what would be asked today."""
    again: Mapping[str, frozenset[ConversationKey]] = field(default_factory=dict)
    """By benchmark: conversations to simulate, or with only `evaluate` among the stages to judge,
    again. Where it is not empty, nothing else is done."""


@dataclass(frozen=True, slots=True)
class Work:
    """One row of work and why it is to be done."""

    stage: Stage
    unit: str
    why: Why
    target: str | None = None
    detail: str | None = None
    """For a stale row what changed, for one that failed its reason."""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.stage} {self.unit}: {self.why}{detail}"


def what_changed(then: Mapping[str, str] | None, now: Mapping[str, str]) -> str | None:
    """The names of the inputs that are not what they were; None where all are, or nothing is
    known of then, as for rows that came from files."""
    if then is None:
        return None
    changed = [name for name in now if then.get(name) != now[name]]
    changed += [name for name in then if name not in now]
    return ", ".join(changed) + " changed" if changed else None
