"""What a person asks of a run, and the rows of work that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from engine.benchmark import ConversationKey, Stage, base_id, metric_of

if TYPE_CHECKING:
    from engine.config.schema import Config


class WorkReason(StrEnum):
    """Why a row of work is done; the values are the words of `--explain`."""

    MISSING = "missing"
    INTERRUPTED = "interrupted"
    FAILED = "failed before"
    STALE = "stale"
    FORCED = "forced"
    ASKED = "asked for"


PILOT_SCENARIOS: Final = 2


@dataclass(frozen=True, slots=True)
class PriceRange:
    """The price that an order was quoted at, in US dollars."""

    low_usd: float
    high_usd: float
    expected_usd: float
    binding: bool
    """Whether a person is asked before the run costs more."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A request to let a model rewrite one metric or scenario."""

    stage: Stage
    """The stage that writes it."""
    id: str
    unit: str
    """The row of work that its calls belong to."""
    note: str
    person: str
    account: str
    """`user@host`."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which part of the work to do, and whether to repeat it."""

    benchmarks: tuple[str, ...]
    stages: frozenset[Stage] = frozenset(Stage)
    targets: frozenset[str] | None = None
    """None for all targets."""
    force: bool = False
    """Repeat everything."""
    stale: bool = False
    """Repeat what is stale."""
    again: Mapping[str, frozenset[ConversationKey]] = field(default_factory=dict)
    """By benchmark: conversations to play again or, with only evaluation among the stages, to judge
    again. If not empty, nothing else is done."""
    only: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By benchmark: ids of rows to do as a run would; a metric's or scenario's id includes
    everything that depends on it. If not empty, nothing else is done."""
    evaluator: str | None = None
    """The name of a judge to use instead of the configured ones."""
    replay: bool = False
    """Whether the judges judge again, in separate passes beside those that count."""
    pilot: int = 0
    """The most base scenarios of each metric, each played in one variant, once; 0 for all. A pilot
    plays `PILOT_SCENARIOS` if nobody says how many."""
    rewrite: Mapping[str, Rewriting] = field(default_factory=dict)
    """By benchmark: what a model is to rewrite. If not empty, nothing else is done."""
    resubmit: bool = False
    """Submit again what may be in a batch, without finding out whether it is."""
    quote: PriceRange | None = field(default=None, compare=False)
    """None where nothing is paid for, or no price was shown."""

    def includes(self, benchmark: str, key: ConversationKey) -> bool:
        """Whether the order includes this conversation."""
        if self.again:
            return key in self.again.get(benchmark, ())
        if self.only:
            scenario = key.scenario_id
            names = {benchmark, metric_of(scenario), base_id(scenario), scenario, str(key)}
            return not names.isdisjoint(self.only.get(benchmark, ()))
        return self.targets is None or key.target_id in self.targets

    def includes_generation(self, benchmark: str) -> bool:
        """Whether the order includes metrics and scenarios."""
        if self.again:
            return False
        # only ids of conversations contain two underscores together
        return not self.only or any("__" not in unit for unit in self.only.get(benchmark, ()))


@dataclass(frozen=True, slots=True)
class PricedOrder:
    """An order with its price, for a person to accept or refuse."""

    order: Order
    """Carries its quote."""
    lines: Sequence[str] = ()
    """The price in lines, the total last; empty where nothing is paid for."""
    total: Sequence[str] = ()
    """The last of `lines`, which state the total."""
    notes: Sequence[str] = ()
    """Warnings that do not prevent the order."""
    doubts: Sequence[str] = ()
    """The first of `lines`, which need not be said again once they are agreed to."""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One row of work and why it is done."""

    stage: Stage
    unit: str
    why: WorkReason
    target: str | None = None
    """For `run --dry-run --json`, like all fields."""
    detail: str | None = None
    """What changed, for a stale row; the reason, for one that failed."""
    optional: bool = False
    """Whether nothing but checks is missing, without which the row is done."""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.stage} {self.unit}: {self.why}{detail}"


def changed_inputs(then: Mapping[str, str] | None, now: Mapping[str, str]) -> list[str]:
    """The names of changed inputs; empty where nothing changed, or the earlier inputs are unknown,
    as for rows from files."""
    if then is None or then == now:
        return []
    changed = [name for name in now if then.get(name) != now[name]]
    return changed + [name for name in then if name not in now]


def changed_words(names: Sequence[str]) -> str | None:
    """`prompt, metric definition changed`; None for no names."""
    return ", ".join(names) + " changed" if names else None


def what_changed(then: Mapping[str, str] | None, now: Mapping[str, str]) -> str | None:
    """`prompt, metric definition changed`; None where nothing changed or `then` is unknown."""
    return changed_words(changed_inputs(then, now))


def any_changed(then: Iterable[Mapping[str, str] | None], now: Mapping[str, str]) -> str | None:
    """As `what_changed`, for several rows together: each input that changed for any of them."""
    names = (name for depends in then for name in changed_inputs(depends, now))
    return changed_words([*dict.fromkeys(names)])


def cut_off_words(usd: float) -> str:
    """Describe calls that were cut off, which may have cost this much."""
    return f"calls that were cut off, as by a kill, may have cost up to ${usd:.2f} more"


def budget_words(config: Config, spent_usd: float | None, needed_usd: float = 0.0) -> Iterator[str]:
    """Describe the budgets of a run and of all runs. `spent_usd` is by all runs so far, None where
    it is not known; `needed_usd` is the least that the planned work will cost."""
    most = config.run.budget
    if most is not None:
        words = f"a run stops before it has cost more than ${most:.2f} (`run.budget`)"
        yield words + _shortage_words(most, needed_usd)
    most = config.workspace_budget
    if most is not None:
        words = f"all runs together stop before ${most:.2f} (`workspace_budget`)"
        if spent_usd is None:
            yield words
        else:
            yield f"{words}, ${spent_usd:.2f} are spent" + _shortage_words(
                most - spent_usd, needed_usd
            )


def _shortage_words(left_usd: float, needed_usd: float) -> str:
    return ": too little for all of it" if left_usd < needed_usd else ""
