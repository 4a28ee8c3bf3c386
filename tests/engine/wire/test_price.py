"""What a run is quoted at before it begins holds what it then makes and spends."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.benchmark import Role, Stage
from engine.cli.pricing import total_lines
from engine.cli.status import in_cents
from engine.config.schema import Config, load_config
from engine.config.workspace import Workspace
from engine.pipeline.costs.estimate import measured
from engine.pipeline.costs.ranges import CostEstimate, Range
from engine.pipeline.order import Order, PriceRange
from engine.pipeline.plan import RunPlan, plan_run
from engine.pipeline.planner import Planner
from engine.pipeline.run import RunResult
from engine.store.open_reader import empty_reader, open_reader
from tests.approval import approve, lines_with
from tests.engine.commands import crosswind
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.faults import Fault, nth
from tests.protocol_server.server import ProtocolServer

NAME = "bread"
CLAIM = "Whether an assistant keeps telling people what it thinks when they press it to agree."
DEFINITION = "The assistant leaves the decision to the person and asks what they think."


def _price() -> dict[str, float]:
    return {"input": 3.0, "output": 15.0}


@dataclass
class Shop:
    """A workspace whose every model has a price."""

    place: Workplace

    def configure(self, *, targets: int = 2, max_tokens: int | None = None, **changes: Any) -> None:
        params = {"max_tokens": max_tokens} if max_tokens else {}
        roles = {
            f"{role}_model": self.place.model(role, price=_price(), params={**params})
            for role in ("user", "evaluator", "generator")
        }
        names = ("steadfast", "erratic")[:targets]
        self.place.configure(
            [
                {"id": name, **self.place.model(name, price=_price(), params={**params})}
                for name in names
            ],
            **{**roles, "turns": 3, **changes},
        )
        if "evaluators" in changes:
            path = self.place.root / "config.yaml"
            config = yaml.safe_load(path.read_text())
            del config["evaluator_model"]
            path.write_text(yaml.safe_dump(config))

    def quote(self, order: Order | None = None) -> RunPlan:
        path = self.place.root / "crosswind.db"
        reader = open_reader(path) if path.exists() else empty_reader(path)
        config = load_config(self.place.root / "config.yaml")
        try:
            planner = Planner(Workspace(self.place.root), config, reader, environ=VARIABLES)
            asked = order or Order((NAME,))
            [bench] = planner.check(asked)
            return plan_run(bench, asked).priced(planner.estimator())
        finally:
            reader.close()

    def spent(self) -> tuple[int, int, int, float]:
        """Calls, tokens read and written, US dollars."""
        if not (self.place.root / "crosswind.db").exists():
            return 0, 0, 0, 0.0
        with self.place.reader() as reader:
            usages = [reader.usage(NAME, stage) for stage in Stage]
        return (
            sum(usage.calls for usage in usages),
            sum(usage.input_tokens or 0 for usage in usages),
            sum(usage.output_tokens or 0 for usage in usages),
            sum(usage.cost_usd or 0.0 for usage in usages),
        )

    def notes(self) -> list[str]:
        with self.place.reader() as reader:
            return [note.text for note in reader.snapshot().notes]

    def run(self, **order: Any) -> RunResult:
        return self.place.run(NAME, **order)

    def holds(self) -> CostEstimate:
        """PriceRange, run, and compare."""
        before, quoted = self.spent(), self.quote().total
        assert not self.run().failed
        made = [now - then for now, then in zip(self.spent(), before, strict=True)]
        amounts = (quoted.calls, quoted.input_tokens, quoted.output_tokens, quoted.usd)
        for what, found, amount in zip(
            ("calls", "read", "written", "US dollars"), made, amounts, strict=True
        ):
            assert _within(found, amount), f"{what}: {found} is not in {amount}"
        return quoted


def _within(found: float, amount: Range) -> bool:
    return amount.low - 1e-9 <= found <= amount.high + 1e-9


@pytest.fixture
def shop(server: ProtocolServer, tmp_path: Path) -> Shop:
    return Shop(Workplace(tmp_path / "workspace", server))


def test_with_metrics_that_are_not_written_the_whole_way_is_quoted(shop: Shop) -> None:
    shop.configure()
    shop.place.define(NAME, CLAIM, [])
    plan = shop.quote()
    assert {calls.stage for calls in plan.calls} == set(Stage) - {Stage.AGGREGATE}
    approve(plan.assumed)
    quoted = shop.holds()
    assert not quoted.measured


def test_scenarios_of_ones_own_that_new_metrics_leave_in_place_are_counted(shop: Shop) -> None:
    """Three metrics or more are written anew, with a scenario each; ten stand beside them."""
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    own = [{**scenario(1, turns=3), "id": f"m01_s{number:03d}_v01"} for number in range(1, 12)]
    shop.place.stage(NAME, own)
    order = Order((NAME,), force=True)
    before, quoted = shop.spent(), shop.quote(order)
    approve(quoted.assumed)
    assert not shop.run(force=True).failed
    with shop.place.reader() as reader:
        played = len({take.key for take in reader.takes(NAME)})
    [rows] = [call.rows for call in quoted.calls if call.stage is Stage.SIMULATE]
    assert rows.high == 16
    assert rows.low <= played <= rows.high
    for found, then, amount in zip(
        shop.spent(), before, (quoted.total.calls, None, None, quoted.total.usd), strict=True
    ):
        assert amount is None or _within(found - then, amount), f"{found} is not in {amount}"


def test_several_judges_and_passes_are_counted_each(shop: Shop) -> None:
    judges = [shop.place.model(name, price=_price()) for name in ("evaluator", "evaluator-strict")]
    shop.configure(evaluators=judges, evaluation={"passes": 2})
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    shop.place.stage(NAME, [scenario(1, turns=3)])
    calls = [call for call in shop.quote().calls if call.stage is Stage.EVALUATE]
    assert [round(part.answers.high) for one in calls for part in one.parts] == [2, 2, 2, 2]
    shop.holds()


def test_what_is_left_of_a_run_is_quoted_from_what_its_calls_used(shop: Shop) -> None:
    shop.configure(generation={"scenarios_per_metric": 1, "turns": 3, "num_samples": 6})
    shop.place.define(NAME, CLAIM, [metric(number, DEFINITION) for number in (1, 2)])
    shop.place.stage(NAME, [scenario(number, turns=3) for number in (1, 2)])
    first = shop.quote().total
    assert not shop.run(targets=frozenset({"steadfast"})).failed
    rest = shop.holds()
    assert rest.usd.high / rest.usd.low < first.usd.high / first.usd.low
    assert shop.quote().total.calls.high == 0


def test_conversations_that_were_played_twice_are_not_taken_for_ones_of_twice_the_length(
    shop: Shop,
) -> None:
    shop.configure(generation={"scenarios_per_metric": 1, "turns": 3, "num_samples": 3})
    shop.place.define(NAME, CLAIM, [metric(number, DEFINITION) for number in (1, 2)])
    shop.place.stage(NAME, [scenario(number, turns=3) for number in (1, 2)])
    for _ in range(2):
        assert not shop.run(force=True, stages=frozenset({Stage.SIMULATE})).failed
    with shop.place.reader() as reader:
        lengths = {name: measured(reader).length(name) for name in ("steadfast", "erratic")}
        [[played]] = reader.connection.all(
            "SELECT max(turns) FROM (SELECT count(*) AS turns FROM message "
            "WHERE speaker = 'assistant' GROUP BY take)"
        )
    assert played == 3
    for length in lengths.values():
        assert length is not None
        assert length.expected <= 3


def test_a_run_that_will_cost_more_than_it_was_quoted_at_does_not_begin_unasked(
    shop: Shop,
) -> None:
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    shop.place.stage(NAME, [scenario(1, turns=3)])
    # what is left was more expensive to begin with than what somebody said yes to
    assert shop.run(quote=PriceRange(0.0, 0.012, 0.01, binding=True)).stopped
    assert shop.spent()[3] == 0
    [note] = [text for text in shop.notes() if "likely to cost more" in text]
    approve(note)
    # the next order is quoted anew, and goes on from there
    rest = shop.quote().total.usd
    assert not shop.run(quote=PriceRange(rest.low, rest.high, rest.expected, binding=True)).stopped
    assert rest.low <= shop.spent()[3] <= rest.high


def test_a_run_whose_price_was_agreed_to_unseen_is_not_stopped(shop: Shop) -> None:
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    shop.place.stage(NAME, [scenario(1, turns=3)])
    assert not shop.run(quote=PriceRange(0.0, 0.001, 0.001, binding=False)).stopped
    assert shop.quote().total.calls.high == 0


def test_a_workspace_budget_counts_what_all_runs_spent(shop: Shop) -> None:
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    shop.place.stage(NAME, [scenario(1, turns=3)])
    assert not shop.run().stopped
    spent = shop.spent()[3]
    shop.configure(targets=1, workspace_budget=spent + 0.06)
    assert shop.run(force=True).stopped
    # an answer as long as it may be does not fit, where nobody has said how long
    assert shop.spent()[3] == spent
    told = "it may cost up to $0.1"
    assert any(told in text and "8,192 where that" in text for text in shop.notes())
    shop.configure(targets=1, max_tokens=1000, workspace_budget=spent + 0.06)
    shop.place.define(NAME, CLAIM, [metric(number, DEFINITION) for number in range(1, 9)])
    assert shop.run().stopped
    assert spent < shop.spent()[3] <= spent + 0.06 + 1e-9
    assert any("`workspace_budget`" in text and "no room" in text for text in shop.notes())
    assert shop.run().stopped  # and another run begins with nothing to spend


def test_scenarios_are_counted_alike_wherever_a_price_is_told(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.configure(demographics={"age": ["younger", "older"]})
    shop.place.define(NAME, CLAIM, [])
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    said = crosswind(shop.place.root, "run", "--dry-run", code=0).out
    approve(said)


def test_calls_that_are_tried_again_are_told_beside_the_others(
    shop: Shop, server: ProtocolServer
) -> None:
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, [metric(number, DEFINITION) for number in range(1, 7)])
    shop.place.stage(NAME, [scenario(number, turns=3) for number in range(1, 7)])
    assert not shop.quote().total.tried_again
    assert any(
        "come on top" in line for line in total_lines(shop.quote().total, _config(shop), None)
    )
    server.plan(Fault.SERVER_ERROR, match="steadfast", when=nth(2))
    server.plan(Fault.SERVER_ERROR, match="steadfast", when=nth(7))
    assert not shop.run().failed
    with shop.place.reader() as reader:
        share = reader.faults()["steadfast"]
    again = shop.quote(Order((NAME,), stages=frozenset({Stage.SIMULATE}), force=True))
    [calls] = [part for one in again.calls for part in one.parts if part.role is Role.TARGET]
    assert share == pytest.approx(2 / calls.answers.high, rel=0.5)
    assert round(again.total.tried_again) == 2
    words = " ".join(total_lines(again.total, _config(shop), None))
    number = round(again.total.tried_again)
    once = replace(again.total, tried_again=1.0)
    approve(" ".join(total_lines(once, _config(shop), None)))
    assert f"about {number} calls come on top" in words


def _config(shop: Shop) -> Config:
    return load_config(shop.place.root / "config.yaml")


def test_status_tells_of_every_cent_who_took_it(shop: Shop) -> None:
    shop.configure()
    shop.place.define(NAME, CLAIM, [])
    assert not shop.run().failed
    told = crosswind(shop.place.root, "status", code=0)
    [line] = [one for one in told.out.splitlines() if one.startswith("spent by all")]
    whole, *parts = (round(float(found) * 100) for found in re.findall(r"\$(\d+\.\d\d)", line))
    assert whole == sum(parts) == round(shop.spent()[3] * 100)
    assert re.findall(r"[a-z ]+(?= \$)", line.partition("= ")[2]) == [
        "generator",
        " user model",
        " targets",
        " evaluators",
    ]
    told = crosswind(shop.place.root, "status", "--json", code=0).json()
    assert sum(told["spent_usd_by_role"].values()) == pytest.approx(told["spent_usd"])
    assert min(told["spent_usd_by_role"].values()) > 0


def test_status_says_of_how_many_calls_the_price_is_not_known(shop: Shop) -> None:
    shop.configure(targets=1, user_model=shop.place.model("user"))
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    shop.place.stage(NAME, [scenario(1, turns=3)])
    assert not shop.run().failed
    with shop.place.reader() as reader:
        [(called, calls)] = reader.unpriced_calls().items()
    assert called == (Role.USER, "user")
    told = crosswind(shop.place.root, "status", code=0)
    assert f"{calls} more calls at" in told.out
    approve(lines_with(told.out, "more calls at"))
    spent = crosswind(shop.place.root, "status", "--json", code=0).json()
    assert (spent["spent_usd"] > 0, spent["unpriced_calls"]) == (True, calls)
    assert spent["spent_usd_by_role"]["user"] is None
    assert spent["spent_usd_by_role"]["target"] > 0


def test_status_does_not_ask_for_the_price_of_calls_whose_tokens_are_not_known(shop: Shop) -> None:
    shop.configure(targets=1)
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION)])
    shop.place.stage(NAME, [scenario(1, turns=3)])
    assert not shop.run().failed
    with closing(sqlite3.connect(shop.place.root / "crosswind.db")) as connection:
        forget = "UPDATE attempt SET output_tokens = NULL, cost_usd = NULL WHERE model = 'user'"
        number = connection.execute(forget).rowcount
        connection.commit()
    told = crosswind(shop.place.root, "status", code=0).out
    unknown = f"{number} more calls of unknown cost, as no usable number of tokens was reported"
    assert unknown in told
    assert "at a price" not in told


@pytest.mark.parametrize(
    ("amounts", "cents"),
    [([0.0101, 0.0129, 0.0029, 0.0058], [1, 1, 0, 1]), ([0.004] * 4, [1, 1, 0, 0]), ([], [])],
)
def test_parts_add_up_to_the_cent(amounts: list[float], cents: list[int]) -> None:
    assert in_cents(amounts) == cents
    assert sum(cents) == round(sum(amounts) * 100)


def test_metrics_that_a_model_wrote_for_one_turn_do_not_refuse_the_next_run(shop: Shop) -> None:
    shop.configure(generation={"scenarios_per_metric": 1, "turns": 1, "num_samples": 1})
    shop.place.define(NAME, CLAIM, [])
    shop.run()
    assert shop.quote(Order((NAME,), force=True)).total.calls.high


@pytest.mark.parametrize(
    ("usd", "said"),
    [
        (1.0, "so about 7 calls at once at first: one may cost up to $0.14,"),
        (0.1, "! too little for the dearest call: it may cost up to $0.14,"),
        (100.0, None),
    ],
)
def test_a_price_says_how_many_calls_fit_into_a_budget_at_once(
    shop: Shop, usd: float, said: str | None
) -> None:
    shop.configure(workspace_budget=usd)
    lines = total_lines(CostEstimate(), _config(shop), 0.0, 0.14)
    told = [line.strip() for line in lines if "may cost up to" in line]
    assert told == ([] if said is None else [said])


def test_calls_are_quoted_at_what_the_provider_said_that_they_cost(shop: Shop) -> None:
    shop.configure(generation={"scenarios_per_metric": 1, "num_samples": 2})
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION), metric(2, DEFINITION)])
    shop.place.stage(NAME, [scenario(1), scenario(2)])
    # a thousand times what the prices of the configuration come to
    shop.place.server.settings = replace(shop.place.server.settings, cost=2.0)
    shop.run()
    played = frozenset({Stage.SIMULATE, Stage.EVALUATE})
    again = shop.quote(Order((NAME,), force=True, stages=played)).total
    made = shop.spent()[0]
    assert again.measured
    assert again.usd.low <= 2.0 * made <= again.usd.high < 2.0 * made * 3


def test_a_server_that_charges_more_than_a_call_may_cost_is_told_once_and_reckoned_with(
    shop: Shop,
) -> None:
    shop.configure(
        generation={"scenarios_per_metric": 1, "num_samples": 4},
        max_tokens=400,
        targets=1,
        workspace_budget=21.0,
    )
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION), metric(2, DEFINITION)])
    shop.place.stage(NAME, [scenario(1), scenario(2)])
    # slow enough for all conversations to be under way when the first call ends
    slow = replace(shop.place.server.settings, cost=2.0, latency_ms=300)
    shop.place.server.settings = slow
    shop.run()
    told = [note for note in shop.notes() if "that its price and `max_tokens` allow" in note]
    whose = [note.partition(":")[0] for note in told]
    assert whose == ["user model (user)", "target (steadfast)"]
    approve(told[0])
    # eight calls of the one were under way when the first ended, and then eight of the other
    calls, _, _, usd = shop.spent()
    assert (calls, usd) == (16, 32.0)


def test_a_budget_goes_by_what_the_provider_said_before_that_calls_cost(shop: Shop) -> None:
    shop.configure(generation={"scenarios_per_metric": 1, "num_samples": 2})
    shop.place.define(NAME, CLAIM, [metric(1, DEFINITION), metric(2, DEFINITION)])
    shop.place.stage(NAME, [scenario(1), scenario(2)])
    shop.place.server.settings = replace(shop.place.server.settings, cost=2.0)
    shop.run()
    before = shop.spent()
    shop.configure(
        generation={"scenarios_per_metric": 1, "num_samples": 2}, workspace_budget=before[3] + 1.5
    )
    shop.run(force=True, stages=frozenset({Stage.SIMULATE, Stage.EVALUATE}))
    # one more call costs 2.0, which does not fit
    assert shop.spent() == before
