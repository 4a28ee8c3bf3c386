"""Quotes of larger runs, of runs that were cut off, and of what is done again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Stage
from engine.pipeline.order import Order
from tests.engine.wire.test_price import CLAIM, DEFINITION, NAME, Shop
from tests.engine.wire.workplace import Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer

METRICS = [metric(number, DEFINITION) for number in range(1, 5)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with ProtocolServer() as server:
        yield Shop(Workplace(tmp_path / "workspace", server))


@pytest.mark.parametrize("source", ["openai", "anthropic"])
@pytest.mark.parametrize("turns", [1, 4, 12])
@pytest.mark.parametrize("demographics", [{}, {"age": ["younger", "older"], "town": ["yes", "no"]}])
def test_a_quote_holds_what_is_spent_at_each_length_and_breadth(
    shop: Shop, source: str, turns: int, demographics: dict[str, Any]
) -> None:
    shop.place.source = source
    generation = {"scenarios_per_metric": 2, "turns": turns, "num_samples": 2}
    shop.configure(demographics=demographics, generation=generation)
    shop.place.define(NAME, CLAIM, [])
    shop.holds()
    # what such calls used is known now: all of it once more is told in a narrower range
    again = shop.quote(Order((NAME,), force=True)).total
    assert again.measured
    assert again.usd.high / again.usd.low < 20


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
def test_each_order_of_a_run_that_is_cut_off_again_and_again_holds(
    shop: Shop, share: float
) -> None:
    shop.configure(generation={"scenarios_per_metric": 1, "turns": 4, "num_samples": 4})
    shop.place.define(NAME, CLAIM, METRICS)
    shop.place.stage(NAME, [scenario(number, turns=4) for number in range(1, 5)])
    whole = shop.quote().total.usd.high
    shop.configure(
        generation={"scenarios_per_metric": 1, "turns": 4, "num_samples": 4},
        run={"budget": whole * share / 8},
        max_tokens=1000,
    )
    shop.run()  # stops somewhere in the middle of conversations, or comes to its end
    shop.configure(generation={"scenarios_per_metric": 1, "turns": 4, "num_samples": 4})
    if shop.quote().total.calls.high:
        shop.holds()
    assert shop.quote().total.calls.high == 0


def test_a_target_that_is_added_and_a_stage_alone_hold(shop: Shop) -> None:
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, METRICS)
    for stage in (Stage.GEN_SCENARIOS, Stage.SIMULATE, Stage.EVALUATE):
        before, order = shop.spent()[3], Order((NAME,), stages=frozenset({stage}))
        quoted = shop.quote(order).total.usd
        shop.run(stages=order.stages)
        assert quoted.low <= shop.spent()[3] - before <= quoted.high
    shop.configure(targets=2)
    shop.holds()
