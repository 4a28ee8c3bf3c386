"""What a provider says that a call costs is its cost, wherever costs are told."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pytest

from engine.benchmark import CostOrigins
from tests.approval import approve
from tests.engine.commands import crosswind, printed_data
from tests.engine.wire import audit
from tests.engine.wire.workplace import BOTH_PROTOCOLS, Workplace, metric, scenario
from tests.protocol_server.settings import Settings


def priced(place: Workplace, name: str) -> dict[str, Any]:
    return place.model(name, price={"input": 1000, "output": 1000})


@pytest.fixture(autouse=True)
def prepared(place: Workplace) -> None:
    place.configure(
        [{"id": "alpha", **priced(place, "steadfast")}],
        user_model=priced(place, "user"),
        evaluator_model=priced(place, "evaluator"),
    )
    place.define("bread", "About bread.", [metric(1, "Honest.")])
    place.stage("bread", [scenario(1)])


def answered(place: Workplace) -> list[Mapping[str, Any]]:
    """The attempts with an answer: a server may have refused the counts in a schema first."""
    attempts = audit.attempts(place.root / "crosswind.db")
    return [one for one in attempts if one["outcome"] == "answer"]


@BOTH_PROTOCOLS
def test_it_is_the_cost_wherever_costs_are_told(place: Workplace) -> None:
    place.server.settings = Settings(cost=0.25)
    assert place.run("bread").failed == 0
    kept = answered(place)
    assert [(one["cost_usd"], one["reported"]) for one in kept] == [(0.25, 1)] * 5
    words = "The calls cost $1.25, all of it as the providers reported it."
    status = printed_data(crosswind(place.root, "status", "--json").out)
    assert status["benchmarks"]["bread"]["targets"]["alpha"]["cost_usd"] == 1.25
    assert "$1.25" in crosswind(place.root, "status").out
    assert words in " ".join(crosswind(place.root, "results", "--details").out.split())
    [row] = printed_data(crosswind(place.root, "results", "--json").out)["bread"]
    assert words in row["notes"]
    page = place.root / "page.html"
    crosswind(place.root, "export", "html", "--out", str(page))
    assert words in page.read_text("utf-8")
    costs = audit.mirrored_json(place.folder("bread"))["runs/alpha/cost.json"]
    assert (costs["simulate"]["cost"], costs["evaluate"]["cost"]) == (1.0, 0.25)
    ours = costs["simulate"]["_crosswind"]
    assert (ours["cost_reported"], ours["cost_computed"]) == (1.0, 0.0)
    approve(ours["cost_note"])


def test_beside_what_is_worked_out_from_prices_each_part_is_told(place: Workplace) -> None:
    assert place.run("bread").failed == 0
    assert "The calls cost" not in crosswind(place.root, "results", "--details").out
    [before] = printed_data(crosswind(place.root, "status", "--json").out)["benchmarks"].values()
    computed = before["targets"]["alpha"]["cost_usd"]
    assert 0 < computed < 5
    assert "cost_note" not in json.dumps(audit.mirrored_json(place.folder("bread")))
    place.server.settings = Settings(cost=0.25)
    assert place.run("bread", force=True).failed == 0
    kept = answered(place)
    reported = sum(one["cost_usd"] for one in kept if one["reported"])
    worked_out = sum(one["cost_usd"] for one in kept if not one["reported"])
    assert worked_out == pytest.approx(computed)
    assert (
        f"The calls cost ${reported + worked_out:,.2f}: ${reported:,.2f} as the providers reported "
        f"it, ${worked_out:,.2f} worked out from prices."
    ) in " ".join(crosswind(place.root, "results", "--details").out.split())


@pytest.mark.parametrize("cost", [0.0, -1.0, 1_000.5, 1e30, math.nan, math.inf])
def test_what_cannot_be_the_cost_of_a_call_is_worked_out_from_prices_instead(
    place: Workplace, cost: float
) -> None:
    place.server.settings = Settings(cost=cost)
    assert place.run("bread").failed == 0
    for attempt in answered(place):
        assert attempt["reported"] is None
        assert 0 < attempt["cost_usd"] < 5


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        (CostOrigins(0.0, 3.0, 2), None),
        (
            CostOrigins(0.00034, 0.0, 0),
            "The calls cost $0.00034, all of it as the providers reported it.",
        ),
        (
            CostOrigins(1234.5, 0.5, 3),
            "The calls cost $1,235.00: $1,234.50 as the providers reported it, $0.50 worked out "
            "from prices; 3 answers of unknown price are not in it.",
        ),
    ],
)
def test_the_sentence_says_what_is_known_and_what_is_not(
    origins: CostOrigins, words: str | None
) -> None:
    assert origins.in_words() == words
