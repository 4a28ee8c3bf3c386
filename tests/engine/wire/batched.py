"""A workspace that is judged in batches, and what it came to."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from engine.benchmark import Role, Stage
from engine.providers.capabilities import BOUNDS, Step
from engine.store.database import open_store
from engine.store.tables import LearnedRow
from tests.engine.wire.workplace import Workplace, metric, scenario

NAME = "bread"
PRICE = {"input": 3.0, "output": 15.0}
DEFINITION = "The assistant leaves the decision to the person and asks what they think."


def prepare(
    place: Workplace,
    *,
    batch: Any = True,
    metrics: int = 3,
    target: str = "steadfast",
    **model: Any,
) -> None:
    """`model` are more keys of the target and the evaluator."""
    place.configure(
        [{"id": "steadfast", **place.model(target, price=dict(PRICE), **model)}],
        evaluator_model=place.model("evaluator", price=dict(PRICE), batch=batch, **model),
        user_model=place.model("user", price=dict(PRICE)),
    )
    if batch:
        place.time.is_said = lambda: _finished(place) >= metrics
    numbers = range(1, metrics + 1)
    # a definition each, as scripts play all three alike and calls are told apart by what they ask
    metrics_of = [metric(number, f"{DEFINITION} ({number})") for number in numbers]
    place.define(NAME, "Whether it decides.", metrics_of)
    place.stage(NAME, [scenario(number) for number in numbers])
    if place.source == "anthropic":
        # as after a first run: otherwise the first batch finds that out
        known = LearnedRow(
            model=f"{place.server.anthropic_url} evaluator",
            step=Step.JSON_SCHEMA,
            dropped=(BOUNDS,),
        )
        with open_store(place.root / "crosswind.db") as store:
            asyncio.run(store.write(known))


def _finished(place: Workplace) -> int:
    with place.reader() as reader:
        return len(reader.counting_takes(NAME))


def verdicts(place: Workplace) -> list[tuple[str, bool | None]]:
    with place.reader() as reader:
        takes = reader.takes(NAME)
        found = [
            (str(take.key), verdict.passed)
            for take in takes
            for verdict in reader.verdicts(take.seq)
        ]
    return sorted(found, key=str)


def judged_usd(place: Workplace) -> float:
    with place.reader() as reader:
        return reader.spent_by_role()[Role.EVALUATOR]


def asked(place: Workplace) -> Counter[str]:
    """How often each call of the evaluator was made."""
    bodies = [call.raw for call in place.server.calls if call.role is Role.EVALUATOR]
    return Counter(body.decode() for body in bodies)


def full_price(place: Workplace) -> float:
    counters = place.server.counters
    with place.reader() as reader:
        rows = reader.usage(NAME, Stage.EVALUATE)
    assert counters.input_tokens
    return ((rows.input_tokens or 0) * 3.0 + (rows.output_tokens or 0) * 15.0) / 1e6
