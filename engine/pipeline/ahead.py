"""What of a benchmark waits for a person, and what nothing was made from yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.benchmark import metric_of
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.generate import plan_scenarios, rejected_metrics
from engine.pipeline.order import Order
from engine.pipeline.reviews import Reviews, is_required
from engine.review import ReviewMode


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """What is left to do for one benchmark, as its files and the store have it."""

    to_review: int = 0
    """Metrics and scenarios that a model wrote and nobody approved; 0 where nothing is to be said
    of it."""
    required: bool = False
    """Whether nothing is made from those before."""
    metrics: int = 0
    """Of which scenarios are to be written, and that wait for nobody."""
    conversations: int = 0
    """That were not begun and wait for nobody, with targets that others were begun with, or with
    all where none was."""
    all_rejected: bool = False
    """Whether a person rejected every metric."""

    @classmethod
    def of(cls, bench: BenchmarkContext) -> RemainingWork:
        """Worked out from its files and the store. Raises `StoreError`."""
        reviews = Reviews.of(bench.definition, bench.reader)
        waiting = [] if bench.config.review is ReviewMode.OFF else reviews.waiting()
        required = is_required(bench.config, bench.name)
        held = reviews.held() if required else {}
        to_write = plan_scenarios(bench, Order((bench.name,)))
        fresh = [
            name
            for name, row in reviews.rows.items()
            if row.played and name not in held and row.scenario.metric_id in bench.metrics
        ]
        return cls(
            len(waiting),
            required,
            len({*to_write.bases, *map(metric_of, to_write.variants)}),
            _not_begun(fresh, bench),
            bool(rejected_metrics(bench)),
        )


def _not_begun(scenarios: Sequence[str], bench: BenchmarkContext) -> int:
    samples = bench.config.generation.num_samples
    begun = bench.reader.begun_samples(bench.name, samples)
    targets = {target.id for target in bench.config.targets}
    # what was imported has targets of its own, and nobody asked yet that ours be tried on it
    targets = targets & {target for _, target in begun} if begun else targets
    return sum(samples - begun.get((name, target), 0) for name in scenarios for target in targets)
