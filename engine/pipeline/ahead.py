"""What of a benchmark waits for a person, and what nothing was made from yet."""

from __future__ import annotations

from dataclasses import dataclass

from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.pipeline.reviews import Reviews, is_required
from engine.review import ReviewMode
from engine.store.reader import Reader


@dataclass(frozen=True, slots=True)
class Ahead:
    """Of one benchmark, as its files and the store have it."""

    to_review: int = 0
    """Metrics and scenarios that a model wrote and nobody approved; 0 where nothing is to be said
    of it."""
    required: bool = False
    """Whether nothing is made from those before."""
    metrics: int = 0
    """That have no scenarios and wait for nobody."""
    scenarios: int = 0
    """That nothing was played from and that wait for nobody."""

    @classmethod
    def of(cls, definition: Definition, config: Config, reader: Reader) -> Ahead:
        """Raises `StoreError`."""
        reviews = Reviews.of(definition, reader)
        waiting = [] if config.review is ReviewMode.OFF else reviews.waiting()
        required = is_required(config, definition.name)
        held = reviews.held() if required else {}
        ids = {one.id for one in waiting} if required else set()
        has = {row.scenario.metric_id for row in (*reviews.rows.values(), *reviews.gone.values())}
        begun = reader.begun_scenarios(definition.name)
        metrics = {one.id for one in definition.metrics}
        fresh = [
            name
            for name, row in reviews.rows.items()
            if row.played and name not in begun and row.scenario.metric_id in metrics
        ]
        return cls(
            len(waiting),
            required,
            len(metrics - has - ids),
            sum(name not in held for name in fresh),
        )
