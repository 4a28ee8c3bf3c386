"""A run stops before it costs more than it may."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.benchmark import Role, Stage, Usage
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import InputError
from engine.pipeline.budget import Budget, BudgetLimit
from engine.pipeline.budget import _Left as CallsLeft
from engine.pipeline.control import StopRequested
from engine.pipeline.models import open_offline
from engine.pipeline.order import Order, PriceRange
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.model import Finish, Reply
from engine.store.database import open_store
from tests.engine.small_workspace import Place
from tests.pipelines import run_once


def test_a_call_is_made_while_spent_in_the_air_and_usual_fit() -> None:
    budget = Budget([BudgetLimit("run.budget", 1.0)], first_usd=lambda _role, _model: 0.4)
    with budget.call(Role.USER, "a") as first, budget.call(Role.TARGET, "a"):
        with pytest.raises(StopRequested), budget.call(Role.EVALUATOR, "a"):
            pass
        first(0.1)
    assert budget.spent_usd == pytest.approx(0.1)
    assert budget.overshoot_usd == pytest.approx(0)
    with budget.call(Role.USER, "a"):
        pass


def test_what_is_usual_is_the_95th_percentile_of_what_the_role_cost_so_far() -> None:
    budget = Budget(first_usd=lambda _role, _model: 9.0)
    for number in range(1, 101):
        with budget.call(Role.USER, "a") as spend:
            spend(number / 100)
    assert budget.usual_usd(Role.USER, "a") == pytest.approx(0.96)
    assert budget.usual_usd(Role.TARGET, "a") == 9.0


def test_what_is_left_is_told_on_another_thread_while_more_comes_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by the board of a run, which whoever looks at it asks for."""
    budget = Budget()
    budget.expect("bread", {(Role.TARGET, "a"): (2.0, 3.0)})
    alone = CallsLeft.rest_usd

    def meanwhile(left: CallsLeft, *, refuted: bool) -> float:
        budget.expect_more("bread", {(Role.USER, "b"): (1.0, 1.0)})
        return alone(left, refuted=refuted)

    monkeypatch.setattr(CallsLeft, "rest_usd", meanwhile)
    assert budget.rest_usd == 6.0


def test_without_a_limit_nothing_is_refused() -> None:
    budget = Budget()
    for _ in range(3):
        with budget.call(Role.USER, "a") as spend:
            spend(1e6)
    with budget.call(Role.USER, "a") as spend:
        spend(None)
    assert budget.spent_usd == pytest.approx(3e6)


class Priced:
    """A scripted model whose calls cost a cent each."""

    def __init__(self, spec: Any) -> None:
        self._model = open_offline(spec)
        self.label = self._model.label
        self.scripted = True

    async def reply(self, *given: Any, **more: Any) -> Reply:
        reply = await self._model.reply(*given, **more)
        return Reply(reply.text, Finish.STOP, Usage(1, 10, 0, 10, 0.01))


def test_a_run_ends_within_its_budget_and_the_next_goes_on(place: Place) -> None:
    place.edit(place.config, "run: {", "run: {budget: 0.5, ")
    result = place.heard_by(Priced).run()
    assert result.stopped
    with place.reader() as reader:
        spent = sum(
            (reader.usage("giving-in", stage).cost_usd or 0)
            for stage in (Stage.GEN_SCENARIOS, Stage.SIMULATE, Stage.EVALUATE)
        )
        notes = [note.text for note in reader.snapshot().notes]
    assert 0.3 < spent <= 0.5 + 1e-9
    assert any("`run.budget`, $0.50, has no room" in note for note in notes)
    while place.heard_by(Priced).run().stopped:
        pass
    assert len(place.json("runs", "holds", "scores.json")) == 8


def test_a_budget_needs_every_price(place: Place) -> None:
    place.edit(place.config, "run: {", "run: {budget: 0.5, ")
    place.edit(
        place.config,
        "model: steadfast, source: offline,",
        "model: nobody-knows, source: openai, base_url: 'http://127.0.0.1:9', apikey: '${K}',",
    )
    text = place.config.read_text().replace(
        "params: {pace: instant}}\n  - {id: wavers", "}\n  - {id: wavers"
    )
    place.config.write_text(text)
    with pytest.raises(InputError, match=r"targets\[0\].*price"):
        place.run()


QUOTE = PriceRange(0.1, 0.5, 0.4, binding=True)


def spent_in(place: Place) -> float:
    with place.reader() as reader:
        return float(reader.spent_usd())


def test_a_run_that_leaves_its_quote_stops_where_nobody_is_there(place: Place) -> None:
    assert place.heard_by(Priced).run(quote=QUOTE).stopped
    spent = spent_in(place)
    assert 0.3 < spent <= QUOTE.high_usd + 1e-9
    with place.reader() as reader:
        notes = [note.text for note in reader.snapshot().notes]
    assert any("at most $0.50 were agreed to" in note for note in notes)
    assert any("`--yes` or `run.budget` lets it go on" in note for note in notes)
    while place.heard_by(Priced).run(quote=QUOTE).stopped:
        assert spent_in(place) <= spent + QUOTE.high_usd + 1e-9
        spent = spent_in(place)
    assert len(place.json("runs", "holds", "scores.json")) == 8


def test_a_run_that_leaves_its_quote_waits_for_whoever_watches(place: Place) -> None:
    async def play() -> None:
        with open_store(place.root / "crosswind.db") as store:
            config = load_config(place.config)
            pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=Priced)
            pipeline.attended = lambda: True
            run = asyncio.create_task(run_once(pipeline, Order(("giving-in",), quote=QUOTE)))
            asked = 0
            while not run.done():
                if pipeline.question is not None:
                    asked += 1
                    assert pipeline.control.paused
                    assert pipeline.question.spent_usd <= pipeline.question.agreed_usd + 1e-9
                    assert "`crosswind resume` lets it cost up to" in pipeline.question.words
                    said = f"running, for up to ${pipeline.question.more_usd:.2f}"
                    assert pipeline.resume() == said
                await asyncio.sleep(0)
            assert not run.result().stopped
            assert asked

    asyncio.run(play())
    assert spent_in(place) > QUOTE.high_usd
    assert len(place.json("runs", "holds", "scores.json")) == 8


def test_calls_that_cost_far_more_than_expected_are_asked_about_twice_at_most() -> None:
    questions: list[float] = []

    async def yes() -> bool:
        budget.refute()
        questions.append(budget.more_usd)
        budget.agree(budget.more_usd)
        return True

    async def play() -> None:
        for _ in range(100):
            await budget.wait_until_agreed(Role.TARGET, "m")
            with budget.call(Role.TARGET, "m", "b") as spend:
                spend(0.03)

    budget = Budget(on_beyond=yes)
    budget.agree(0.2, 0.1)
    budget.expect("b", {(Role.TARGET, "m"): (100.0, 0.001)})
    asyncio.run(play())
    assert 1 <= len(questions) <= 2
    assert questions[0] > 1.5  # of the 3 that it came to


def test_an_engine_waits_a_moment_for_whoever_has_started_it(place: Place) -> None:
    async def play() -> None:
        with open_store(place.root / "crosswind.db") as store:
            config = load_config(place.config)
            pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=Priced)
            pipeline.awaits_somebody = True
            run = asyncio.create_task(run_once(pipeline, Order(("giving-in",), quote=QUOTE)))
            while pipeline.question is None:
                assert not run.done()
                await asyncio.sleep(0)
            pipeline.drain()
            assert (await run).stopped

    asyncio.run(play())


def test_a_question_that_nobody_is_left_to_answer_ends_the_run(place: Place) -> None:
    async def play() -> RunResult:
        with open_store(place.root / "crosswind.db") as store:
            config = load_config(place.config)
            pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=Priced)
            pipeline.unattended_seconds = 0.0
            there = iter([True, True])  # when it is asked, and when it begins to wait
            pipeline.attended = lambda: next(there, False)
            return await run_once(pipeline, Order(("giving-in",), quote=QUOTE))

    assert asyncio.run(play()).stopped
    assert spent_in(place) <= QUOTE.high_usd + 1e-9
