"""What a person asks of a run, and the rows of work that follow from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from engine.benchmark import ConversationKey, Stage, base_id, metric_of

if TYPE_CHECKING:
    from engine.config.schema import Config


class WorkReason(StrEnum):
    """Why a row of work is done, in the words that `--explain` uses."""

    MISSING = "missing"
    INTERRUPTED = "interrupted"
    FAILED = "failed before"
    STALE = "stale"
    FORCED = "forced"
    ASKED = "asked for"


@dataclass(frozen=True, slots=True)
class PriceRange:
    """What an order was said to cost before it began, in US dollars."""

    low_usd: float
    high_usd: float
    expected_usd: float
    binding: bool
    """Whether somebody is asked before it costs more."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What a person wants a model to write otherwise."""

    stage: Stage
    """Of a metric or of scenarios."""
    id: str
    unit: str
    """The row of work that it is a part of."""
    note: str
    person: str
    account: str
    """`user@host`."""


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
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By benchmark: ids of rows, as `run` would do them; a metric or a scenario stands for all
    that hangs on it. Where it is not empty, nothing else is done."""
    evaluator: str | None = None
    """The name of another judge than the configuration's."""
    replay: bool = False
    """Whether the judges judge once more, in passes of their own beside those that count."""
    pilot: int = 0
    """Of each metric, so many base scenarios at most, each written and played in one variant and
    once; 0 for all of them."""
    rewrite: Mapping[str, Rewriting] = field(default_factory=dict)
    """By benchmark: a metric or scenario that a model is to write again. Where it is not empty,
    nothing else is done."""
    quote: PriceRange | None = field(default=None, compare=False)
    """None where nothing is paid for, or nothing was said."""

    def asks(self, benchmark: str, key: ConversationKey) -> bool:
        """Whether this conversation is one that it is about."""
        if self.again:
            return key in self.again.get(benchmark, ())
        if self.only:
            scenario = key.scenario_id
            names = {benchmark, metric_of(scenario), base_id(scenario), scenario, str(key)}
            return not names.isdisjoint(self.only.get(benchmark, ()))
        return self.targets is None or key.target_id in self.targets

    def generates(self, benchmark: str) -> bool:
        """Whether it is about metrics and scenarios too."""
        if self.again:
            return False
        # a conversation's id is the only one with two underscores together
        return not self.only or any("__" not in unit for unit in self.only.get(benchmark, ()))


@dataclass(frozen=True, slots=True)
class PricedOrder:
    """An order with its price, for somebody to say yes or no to."""

    order: Order
    """With what it is quoted at."""
    lines: Sequence[str] = ()
    """The whole of it last; none where nothing is paid for."""
    total: Sequence[str] = ()
    """The last of them, which say what all of it costs."""
    notes: Sequence[str] = ()
    """What should be known before, although it may go well."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One row of work and why it is to be done."""

    stage: Stage
    unit: str
    why: WorkReason
    target: str | None = None
    detail: str | None = None
    """For a stale row what changed, for one that failed its reason."""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.stage} {self.unit}: {self.why}{detail}"


def changed_inputs(then: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    """The names of the inputs that are not what they were; none where all are, or nothing is
    known of then, as for rows that came from files."""
    if then is None or then == now:
        return []
    changed = [name for name in now if then.get(name) != now[name]]
    return changed + [name for name in then if name not in now]


def changed_words(names: Sequence[str]) -> str | None:
    """`prompt, metric definition changed`; None where nothing did."""
    return ", ".join(names) + " changed" if names else None


def what_changed(then: Mapping[str, str] | None, now: Mapping[str, str]) -> str | None:
    """`prompt, metric definition changed`; None where nothing did, or nothing is known of then."""
    return changed_words(changed_inputs(then, now))


def budget_words(config: Config, spent_usd: float | None, needed_usd: float = 0.0) -> Iterator[str]:
    """What keeps a run, and all runs, within what they may cost; `spent_usd` is by all runs so far,
    None where that is not known. `needed_usd` is the least that what is planned will cost."""
    most = config.run.budget
    if most is not None:
        words = f"a run stops before it has cost more than ${most:.2f} (`run.budget`)"
        yield words + _short(most, needed_usd)
    most = config.workspace_budget
    if most is not None:
        words = f"all runs together stop before ${most:.2f} (`workspace_budget`)"
        if spent_usd is None:
            yield words
        else:
            yield f"{words}, ${spent_usd:.2f} are spent" + _short(most - spent_usd, needed_usd)


def _short(left_usd: float, needed_usd: float) -> str:
    return ": too little for all of it" if left_usd < needed_usd else ""
