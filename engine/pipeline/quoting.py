"""What an order is quoted at before it is done: its plans, each with what its calls will use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from engine.config.schema import Config
from engine.pipeline.estimate import NOTHING, Estimate, Estimator
from engine.pipeline.order import Order, PriceRange
from engine.pipeline.plan import RunPlan


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """What one benchmark's part of a run would do, and what that uses."""

    plan: RunPlan
    estimates: Sequence[Estimate]
    """Of `plan.calls`, in order."""

    @property
    def total(self) -> Estimate:
        return sum(self.estimates, NOTHING)


def price_plan(plan: RunPlan, estimator: Estimator) -> PricedPlan:
    return PricedPlan(plan, [estimator.estimate(calls.parts) for calls in plan.calls])


def quoted(order: Order, estimate: Estimate, config: Config, *, unasked: bool) -> Order:
    """The order, with what it is quoted at; as it is where nothing is paid for.

    It is kept to that unless the run has a budget of its own, or a person wants no question: with
    `unasked`.
    """
    if not estimate.usd.high:
        return order
    usd = estimate.usd
    binding = not unasked and config.run.budget is None
    return replace(order, quote=PriceRange(usd.low, usd.high, usd.expected, binding=binding))


def budget_words(
    config: Config, spent_usd: float | None, total: Estimate = NOTHING
) -> Iterator[str]:
    """What keeps a run, and all runs, within what they may cost; `spent_usd` is by all runs so far,
    None where that is not known."""
    most = config.run.budget
    if most is not None:
        words = f"a run stops before it has cost more than ${most:.2f} (`run.budget`)"
        yield words + _short(most, total)
    most = config.workspace_budget
    if most is not None:
        words = f"all runs together stop before ${most:.2f} (`workspace_budget`)"
        if spent_usd is None:
            yield words
        else:
            yield f"{words}, ${spent_usd:.2f} are spent" + _short(most - spent_usd, total)


def _short(left_usd: float, total: Estimate) -> str:
    return ": too little for all of it" if left_usd < total.usd.low else ""
