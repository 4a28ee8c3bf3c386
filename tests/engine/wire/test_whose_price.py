"""A price is that of one model on one server, and of no other that is called the same."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Role, Stage
from engine.config.schema import Config, load_config
from engine.config.secrets import Environment
from engine.config.workspace import Workspace
from engine.errors import InputError
from engine.pipeline.costs.ranges import CostEstimate
from engine.pipeline.models import ModelOpener, Models
from engine.pipeline.order import Order
from engine.pipeline.plan import plan_run
from engine.pipeline.planner import Planner
from engine.providers.accounts import Accounts
from engine.providers.limiter import HeldCalls
from engine.providers.real import RealModel
from engine.store.open_reader import empty_reader, open_reader
from engine.store.tables import AttemptRow
from tests.engine.commands import crosswind
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer

NAME = "bread"
CLAIM = "Whether an assistant keeps telling people what it thinks when they press it to agree."
DEFINITION = "The assistant leaves the decision to the person and asks what they think."
SCRIPTS = {
    "user_model": {"model": "user", "source": "offline", "params": {"pace": "instant"}},
    "evaluator_model": {"model": "evaluator", "source": "offline"},
    "generator_model": {"model": "generator", "source": "offline"},
}
FREE = {"input": 0, "output": 0}
DEAR = {"input": 100, "output": 100}
PLAYED = frozenset({Stage.SIMULATE})


@pytest.fixture
def elsewhere() -> Iterator[ProtocolServer]:
    """A second server."""
    with ProtocolServer() as server:
        yield server


class Bakery(Workplace):
    """A benchmark of two conversations with each target, in which only targets are on a server."""

    def open(self, *targets: dict[str, Any], **changes: Any) -> None:
        self.configure(targets, **{**SCRIPTS, "turns": 3, **changes})
        self.define(NAME, CLAIM, [metric(number, DEFINITION) for number in (1, 2)])
        self.stage(NAME, [scenario(number, turns=3) for number in (1, 2)])

    def target(self, name: str, server: ProtocolServer, **more: Any) -> dict[str, Any]:
        place = {"source": "vllm", "base_url": server.openai_url}
        return {"id": name, "model": "words-20", **place, **more}

    def config(self, **variables: str) -> Config:
        environment = Environment(self.root, {**VARIABLES, **variables})
        return load_config(self.root / "config.yaml", environment=environment)

    def quote(self, **order: Any) -> CostEstimate:
        return self._planned(Order((NAME,), **order))

    def _planned(self, order: Order) -> CostEstimate:
        path = self.root / "crosswind.db"
        reader = open_reader(path) if path.exists() else empty_reader(path)
        try:
            planner = Planner(Workspace(self.root), self.config(), reader, environ=VARIABLES)
            [bench] = planner.check(order)
            return plan_run(bench, order).priced(planner.estimator()).total
        finally:
            reader.close()

    def calls(self, target: str) -> list[AttemptRow]:
        """The calls to a target that were answered."""
        with self.reader() as reader:
            used = reader.used_calls()
        return [call for call in used if (call.role, call.target) == (Role.TARGET, target)]

    def costs(self, target: str) -> list[float | None]:
        return [call.usage.cost_usd for call in self.calls(target)]


@pytest.fixture
def bakery(server: ProtocolServer, tmp_path: Path) -> Bakery:
    return Bakery(tmp_path / "workspace", server)


def test_a_free_model_elsewhere_does_not_make_one_of_the_same_name_free(
    bakery: Bakery, server: ProtocolServer, elsewhere: ProtocolServer
) -> None:
    paid = bakery.target("paid", server)
    free = bakery.target("free", elsewhere, price={**FREE})
    for targets in ([paid], [paid, free], [free, paid]):
        bakery.open(*targets, run={"budget": 0.05})
        with pytest.raises(InputError, match=r"run\.budget needs the price of every model"):
            bakery.run(NAME)
    assert not server.calls
    bakery.open(paid, free)
    assert bakery.quote().unpriced.high
    bakery.run(NAME)
    assert set(bakery.costs("paid")) == {None}
    assert set(bakery.costs("free")) == {0.0}


def test_a_published_price_counts_beside_a_free_model_of_the_same_name(
    bakery: Bakery, elsewhere: ProtocolServer
) -> None:
    published = {"id": "paid", "model": "gpt-4o", "source": "openai", "apikey": "${CANARY_KEY}"}
    bakery.open(published)
    alone = bakery.quote().usd
    assert alone.low > 0
    bakery.open(published, bakery.target("free", elsewhere, model="gpt-4o", price={**FREE}))
    assert bakery.quote().usd == alone


def test_two_prices_of_one_name_are_each_that_of_its_own_server(
    bakery: Bakery, server: ProtocolServer, elsewhere: ProtocolServer
) -> None:
    bakery.open(
        bakery.target("dear", server, price={**DEAR}),
        bakery.target("cheap", elsewhere, price={"input": 1, "output": 1}),
    )
    bakery.run(NAME)
    for target, dollars in (("dear", 100), ("cheap", 1)):
        for call in bakery.calls(target):
            tokens = (call.usage.input_tokens or 0) + (call.usage.output_tokens or 0)
            assert call.usage.cost_usd == pytest.approx(tokens * dollars / 1_000_000)


def test_a_price_that_is_written_once_is_that_of_each_entry_of_the_same_model(
    bakery: Bakery, server: ProtocolServer
) -> None:
    bakery.open(
        bakery.target("first", server, price={**DEAR}),
        bakery.target("second", server, system_prompt="Be brief."),
        run={"budget": 5},
    )
    assert not bakery.run(NAME).stopped
    assert min(bakery.costs("second"), key=lambda usd: usd or 0.0)


def test_a_budget_reserves_for_each_entry_of_a_model_the_longest_answer_that_any_may_give(
    bakery: Bakery, server: ProtocolServer
) -> None:
    """Entries of one model may differ in `max_tokens`, and share what is known of its calls."""
    bakery.open(
        bakery.target("short", server, price={**DEAR}, params={"max_tokens": 10}),
        bakery.target("long", server, price={**DEAR}, params={"max_tokens": 4000}),
        run={"budget": 0.2},
    )
    assert bakery.run(NAME).stopped
    assert not server.calls


@pytest.fixture
def variable(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model's name that is looked up."""
    monkeypatch.setenv("MODEL_NAME", "words-20")
    return "${MODEL_NAME}"


def test_a_budget_holds_where_the_models_name_is_a_variable(
    bakery: Bakery, server: ProtocolServer, variable: str
) -> None:
    target = bakery.target(
        "a", server, model=variable, price={**DEAR}, params={"max_tokens": 100, "seed": 1}
    )
    bakery.open(target, run={"budget": 0.005})
    said = crosswind(bakery.root, "run", "--headless", "--yes", "--plain", code=3)
    assert "`run.budget`, $0.01, has no" in said.words
    assert not server.calls
    bakery.open(target, run={"budget": 5})
    crosswind(bakery.root, "run", "--headless", "--yes", "--plain", code=0)
    assert all(bakery.costs("a"))
    assert len(bakery.costs("a")) == len(server.calls) > 0


def test_a_model_that_is_named_by_a_variable_is_called_by_its_name(
    bakery: Bakery, server: ProtocolServer, variable: str
) -> None:
    judge = {"model": variable, "source": "vllm", "base_url": server.openai_url}
    bakery.open(bakery.target("a", server), evaluator_model=judge)
    # a name may hold what is secret, so it is stored as it is written
    assert bakery.config(MODEL_NAME="evaluator").jury.judges == ("${MODEL_NAME}",)


def test_a_budget_needs_the_price_of_a_judge_that_an_order_names(
    bakery: Bakery, server: ProtocolServer
) -> None:
    judge = {"model": "evaluator", "source": "vllm", "base_url": server.openai_url}
    bakery.open(
        bakery.target("a", server, price={**FREE}), models={"second": judge}, run={"budget": 1.0}
    )
    with pytest.raises(InputError, match=r"models\.second"):
        bakery.run(NAME, evaluator="second")
    assert not server.calls


def test_measured_costs_of_another_server_are_not_expected_of_this_one(
    bakery: Bakery, server: ProtocolServer, elsewhere: ProtocolServer
) -> None:
    bakery.open(bakery.target("a", elsewhere, price={**FREE}), generation=_samples(2))
    bakery.run(NAME)
    assert bakery.quote(force=True, stages=PLAYED).is_free
    # what it used is known, and its price is not
    bakery.open(bakery.target("a", server), generation=_samples(2))
    moved = bakery.quote(force=True, stages=PLAYED)
    assert moved.measured
    assert moved.unpriced.high


@pytest.mark.parametrize("of_run", ["imported after it", "in it, with a damaged configuration"])
def test_what_calls_cost_of_which_the_server_is_not_known_is_not_expected(
    bakery: Bakery, server: ProtocolServer, of_run: str
) -> None:
    server.settings = replace(server.settings, cost=0.01)
    bakery.open(bakery.target("a", server), generation=_samples(2))
    bakery.run(NAME)
    assert bakery.quote(force=True, stages=PLAYED).usd.high
    with closing(sqlite3.connect(bakery.root / "crosswind.db")) as store, store:
        if of_run.startswith("imported"):
            store.execute("UPDATE attempt SET seq = seq + 1000000")
        else:
            store.execute("UPDATE run SET config = '{'")
    found = bakery.quote(force=True, stages=PLAYED)
    assert found.measured
    assert found.unpriced.high
    assert not found.usd.high


def _samples(number: int) -> dict[str, int]:
    return {"scenarios_per_metric": 1, "turns": 3, "num_samples": number}


def test_what_keeps_a_model_is_not_said_of_one_of_its_name_on_another_server(
    bakery: Bakery, server: ProtocolServer, elsewhere: ProtocolServer
) -> None:
    brief = bakery.target("brief", server, system_prompt="Be brief.")
    bakery.open(bakery.target("a", server), brief, bakery.target("b", elsewhere))
    config = bakery.config()
    environment = Environment(bakery.root, VARIABLES)
    opened = Models(config, ModelOpener(environment, Accounts(), lambda _note: None))
    senders = []
    for target in ("a", "brief", "b"):
        model = opened.target(target)
        assert isinstance(model, RealModel)
        senders.append(model.sender)
    here, _, there = (target.identity for target in config.targets)
    assert here.label == there.label
    with senders[0].waits.holding("no room"):
        assert opened.held() == {here: HeldCalls("no room", None, 1)}
        with senders[1].waits.holding("no room"), senders[2].waits.holding("else"):
            both = {here: HeldCalls("no room", None, 2), there: HeldCalls("else", None, 1)}
            assert opened.held() == both
