"""A run stops before it costs more than it may."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

import pytest

from engine.benchmark import Role, Stage, Usage
from engine.config.schema import ModelId, ModelSpec, load_config
from engine.config.workspace import Workspace
from engine.errors import InputError, StopRequested
from engine.pipeline.costs.budget import (
    Budget,
    BudgetLimit,
    ExpectedCalls,
    ExpectedWork,
    RemainingCalls,
)
from engine.pipeline.costs.ranges import CallCost
from engine.pipeline.models import open_offline
from engine.pipeline.order import Order, PriceRange
from engine.pipeline.run import BudgetQuestion, Pipeline, RunResult
from engine.providers.accounts import StoppableWaits
from engine.providers.limiter import HeldCalls
from engine.providers.model import Model
from engine.store.database import open_store
from tests.approval import approve
from tests.engine.small_workspace import Place
from tests.models import Overheard
from tests.pipelines import run_once

# of one name, at two addresses
A, B = (ModelId("openai", f"https://{host}/v1", "m") for host in ("a.example", "b.example"))


def test_a_call_is_made_while_spent_in_flight_and_usual_fit() -> None:
    async def play() -> None:
        async with budget.call(Role.USER, A) as (first, _), budget.call(Role.TARGET, A):
            third = asyncio.create_task(one(budget, Role.EVALUATOR, 0.4))
            await asyncio.sleep(0)
            assert budget.in_flight_usd == pytest.approx(0.8)
            assert not third.done()
            first(0.1)
        await third
        assert budget.in_flight_usd == 0
        with pytest.raises(StopRequested):
            await one(budget, Role.CHECKER, 0.6)

    budget = Budget(
        [BudgetLimit("run.budget", 1.0)],
        cost_of=lambda role, _: exactly(0.6) if role is Role.CHECKER else CallCost(0.4, 0.4),
    )
    asyncio.run(play())
    assert budget.spent_usd == pytest.approx(0.5)


def exactly(usd: float) -> CallCost:
    return CallCost(usd, usd)


async def one(
    budget: Budget, role: Role, usd: float, *, unit: str = "", model: ModelId = A
) -> None:
    async with budget.call(role, model, "bread", unit) as (spend, _):
        await asyncio.sleep(0)
        spend(usd)


def test_what_is_usual_is_the_95th_percentile_of_what_the_role_cost_so_far() -> None:
    async def play() -> None:
        for number in range(1, 101):
            await one(budget, Role.USER, number / 100)

    budget = Budget(cost_of=lambda _role, _model: exactly(9.0))
    asyncio.run(play())
    assert budget.usual_usd(Role.USER, A) == pytest.approx(0.96)
    # an answer as long as it may be can still come
    assert budget.most_usd(Role.USER, A) == 9.0
    assert budget.usual_usd(Role.TARGET, A) == 9.0


def two_hundred_at_once(costs: Sequence[float], limit: float, first: CallCost) -> Budget:
    """As many calls as there are costs, in the order in which they end, until the limit stops
    them."""

    async def one_after_the_other() -> None:
        for usd in left:
            await one(budget, Role.TARGET, usd)

    async def play() -> None:
        await asyncio.gather(*(one_after_the_other() for _ in range(200)), return_exceptions=True)

    left = iter(costs)
    stopped = asyncio.Event()

    async def may_begin() -> bool:
        return not stopped.is_set()

    budget = Budget(
        [BudgetLimit("run.budget", limit)],
        cost_of=lambda _role, _model: first,
        on_spent=lambda _limit, _usd: stopped.set(),
        may_begin=may_begin,
    )
    asyncio.run(play())
    return budget


@pytest.mark.exhaustive
@pytest.mark.parametrize("first_usd", [0.001, 0.05], ids=["too low", "too high"])
@pytest.mark.parametrize("seed", range(2))
def test_two_hundred_at_once_come_near_the_limit_and_not_beyond(
    seed: int, first_usd: float
) -> None:
    random = Random(seed)
    costs = [random.lognormvariate(-5, 1.0) for _ in range(3000)]
    budget = two_hundred_at_once(costs, 10.0, CallCost(first_usd, 0.12))
    assert 9.7 < budget.spent_usd <= 10.0 + 1e-9


@pytest.mark.parametrize("limit", [0.5, 2.0, 5.0])
def test_calls_that_all_cost_more_than_assumed_do_not_break_the_limit(limit: float) -> None:
    """Though as many as the limit would hold by the assumption could begin before one has ended."""
    random = Random(1)
    costs = [random.uniform(0.03, 0.05) for _ in range(1000)]
    budget = two_hundred_at_once(costs, limit, CallCost(0.011, 0.12))
    assert limit - 0.12 < budget.spent_usd <= limit + 1e-9


@pytest.mark.parametrize("longest_in_limit", [1, 5, 60])
@pytest.mark.parametrize("short", [0, 300])
def test_answers_that_are_all_as_long_as_they_may_be_do_not_break_the_limit(
    short: int, longest_in_limit: int
) -> None:
    """After short ones that say nothing of them; no calls are made that do not fit then."""
    longest = 0.12
    limit = short * 0.001 + longest * longest_in_limit
    budget = two_hundred_at_once(
        [*[0.001] * short, *[longest] * 300], limit, CallCost(0.01, longest)
    )
    assert limit - longest < budget.spent_usd <= limit + 1e-9


@dataclass
class Overcharging:
    """A server that now and then charges more than a call may cost, for calls told ever more."""

    at_once: int
    limit: float = 8.0
    allowed: float = 0.01
    token: float = 0.00001
    beyond: float = 0.05
    from_the_first: bool = False
    """Whether the first call is one of those; else they come when the limit is near."""
    in_air_then: int = 0
    """How many calls were in flight when the first of them ended."""

    def spends(self) -> float:
        budget = Budget(
            [BudgetLimit("run.budget", self.limit)],
            cost_of=lambda _role, _model: CallCost(
                self.allowed, self.allowed, answer_usd=self.allowed, token_usd=self.token
            ),
        )
        numbers = iter(range(10_000))

        async def row() -> None:
            while True:
                told = next(numbers)
                async with budget.call(Role.TARGET, A, input_tokens=told) as (spend, _):
                    in_air.add(told)
                    await asyncio.sleep(0)
                    near = budget.spent_usd > self.limit - 0.3
                    more = self.beyond if near or (self.from_the_first and not told) else 0.0
                    spend(self.allowed + told * self.token + more)
                    if more and not self.in_air_then:
                        self.in_air_then = len(in_air)
                    in_air.remove(told)

        async def play() -> None:
            await asyncio.gather(*(row() for _ in range(self.at_once)), return_exceptions=True)

        in_air = set[int]()
        asyncio.run(play())
        return budget.spent_usd


@pytest.mark.parametrize("at_once", [1, 5, 20])
def test_a_server_that_charges_too_much_passes_a_budget_with_the_calls_in_flight_at_most(
    at_once: int,
) -> None:
    server = Overcharging(at_once)
    spent = server.spends()
    assert spent <= server.limit + server.in_air_then * server.beyond + 1e-9


@pytest.mark.parametrize("at_once", [1, 5, 20])
def test_what_a_server_has_charged_too_much_once_is_reserved_for_each_later_call(
    at_once: int,
) -> None:
    server = Overcharging(at_once, from_the_first=True)
    assert server.limit - 0.1 < server.spends() <= server.limit + 1e-9


def test_what_a_call_is_told_counts_for_what_it_may_cost() -> None:
    async def play() -> None:
        async with budget.call(Role.TARGET, A, input_tokens=1000) as (spend, _):
            assert budget.in_flight_usd == pytest.approx(0.5 + 0.4)
            spend(0.1)
        with pytest.raises(StopRequested):
            async with budget.call(Role.TARGET, A, input_tokens=1001):
                pass

    cost = CallCost(0.1, 0.2, answer_usd=0.5, token_usd=0.0004)
    budget = Budget([BudgetLimit("run.budget", 1.0)], cost_of=lambda _role, _model: cost)
    asyncio.run(play())
    assert budget.spent_usd == pytest.approx(0.1)


def test_rows_that_were_begun_go_before_others_where_there_is_little_room() -> None:
    done: list[str] = []

    async def call(unit: str, usd: float) -> None:
        await one(budget, Role.TARGET, usd, unit=unit)
        done.append(unit)

    async def play() -> None:
        await call("old", 0.1)
        async with budget.call(Role.USER, A, "bread", "other"):
            new = [asyncio.create_task(call(f"new-{n}", 0.1)) for n in range(2)]
            await asyncio.sleep(0)
            old = asyncio.create_task(call("old", 0.1))
            await asyncio.sleep(0)
            assert done == ["old"]
        await asyncio.gather(old, *new)

    budget = Budget([BudgetLimit("run.budget", 1.0)], cost_of=lambda _role, _model: exactly(0.6))
    asyncio.run(play())
    assert done == ["old", "old", "new-0", "new-1"]


def test_calls_that_wait_for_room_are_counted_by_model_with_the_limit_that_lacks_it() -> None:
    async def play() -> None:
        async with budget.call(Role.USER, A):
            waiting = [
                asyncio.create_task(one(budget, Role.TARGET, 0.1, model=model))
                for model in (A, A, B)
            ]
            await asyncio.sleep(0)
            why = (
                "`run.budget` leaves no room beside the calls in flight, which may cost up to $0.60"
            )
            assert budget.held() == {A: HeldCalls(why, None, 2), B: HeldCalls(why, None, 1)}
        await asyncio.gather(*waiting)
        assert budget.held() == {}

    limits = [BudgetLimit("workspace_budget", 9.0), BudgetLimit("run.budget", 1.0)]
    budget = Budget(limits, cost_of=lambda _role, _model: exactly(0.6))
    asyncio.run(play())


def test_a_call_that_waits_for_room_is_not_made_once_the_run_is_to_stop() -> None:
    draining = False

    async def may_begin() -> bool:
        return not draining

    async def play() -> None:
        nonlocal draining
        async with budget.call(Role.USER, A):
            waiting = [asyncio.create_task(one(budget, Role.USER, 0.1)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[1].cancel()
            draining = True
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [
            StopRequested,
            asyncio.CancelledError,
            StopRequested,
        ]

    budget = Budget(
        [BudgetLimit("run.budget", 1.0)],
        cost_of=lambda _role, _model: exactly(0.6),
        may_begin=may_begin,
    )
    asyncio.run(play())
    assert budget.spent_usd == 0


def test_calls_that_wait_for_room_or_come_later_end_at_a_stop_before_those_in_flight() -> None:
    async def play() -> None:
        async with budget.call(Role.USER, A):
            waiting = [asyncio.create_task(one(budget, Role.USER, 0.1)) for _ in range(3)]
            await asyncio.sleep(0)
            waits.stop()
            waiting.append(asyncio.create_task(one(budget, Role.USER, 0.1)))
            async with asyncio.timeout(5):
                ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(end) for end in ends] == [StopRequested] * 4
        assert budget.held() == {}

    waits = StoppableWaits()
    budget = Budget(
        [BudgetLimit("run.budget", 1.0)],
        cost_of=lambda _role, _model: exactly(0.6),
        waits=waits,
    )
    asyncio.run(play())


def expected(role: Role, model: ModelId, calls: ExpectedCalls) -> ExpectedWork:
    return ExpectedWork({(role, model): calls})


def priced(spec: ModelSpec) -> Model:
    """A scripted model whose calls cost a cent each."""
    usage = Usage(1, 10, 0, 10, 0.01)
    return Overheard(open_offline(spec), changed=lambda reply: replace(reply, usage=usage))


def test_a_run_ends_within_its_budget_and_the_next_goes_on(place: Place) -> None:
    place.edit(place.config, "run: {", "run: {budget: 0.5, ")
    result = place.heard_by(priced).run()
    assert result.stopped
    with place.reader() as reader:
        spent = sum(
            (reader.usage("giving-in", stage).cost_usd or 0)
            for stage in (Stage.GEN_SCENARIOS, Stage.SIMULATE, Stage.EVALUATE)
        )
        notes = [note.text for note in reader.snapshot().notes]
    assert 0.3 < spent <= 0.5 + 1e-9
    assert any("`run.budget`, $0.50, has no" in note for note in notes)
    while place.heard_by(priced).run().stopped:
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
    assert place.heard_by(priced).run(quote=QUOTE).stopped
    spent = spent_in(place)
    assert 0.3 < spent <= QUOTE.high_usd + 1e-9
    with place.reader() as reader:
        notes = [note.text for note in reader.snapshot().notes]
    assert any("most $0.50 were agreed" in note for note in notes)
    assert any("`--yes` or `run.budget`" in note for note in notes)
    while place.heard_by(priced).run(quote=QUOTE).stopped:
        assert spent_in(place) <= spent + QUOTE.high_usd + 1e-9
        spent = spent_in(place)
    assert len(place.json("runs", "holds", "scores.json")) == 8


def test_a_run_that_leaves_its_quote_waits_for_whoever_watches(place: Place) -> None:
    async def play() -> None:
        with open_store(place.root / "crosswind.db") as store:
            config = load_config(place.config)
            pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=priced)
            pipeline.attended = lambda: True
            run = asyncio.create_task(run_once(pipeline, Order(("giving-in",), quote=QUOTE)))
            asked = 0
            while not run.done():
                if pipeline.question is not None:
                    asked += 1
                    assert pipeline.control.paused
                    assert pipeline.question.spent_usd <= pipeline.question.agreed_usd + 1e-9
                    assert "`crosswind resume` lets" in pipeline.question.words
                    said = f"running, for up to ${pipeline.question.more_usd:.2f}"
                    assert pipeline.resume() == said
                await asyncio.sleep(0)
            assert not run.result().stopped
            assert asked

    asyncio.run(play())
    assert spent_in(place) > QUOTE.high_usd
    assert len(place.json("runs", "holds", "scores.json")) == 8


@dataclass(frozen=True)
class Prices:
    """What calls cost as a conversation goes on, in US dollars."""

    reply: float
    """Tokens of the target's replies."""
    turns: int

    def of_call(self, role: Role, turn: int) -> float:
        told_before = 340 if self.reply == ASSUMED else self.reply + 90
        history = told_before * (self.turns if role is Role.EVALUATOR else turn - 1)
        told = {Role.USER: 750, Role.TARGET: 190, Role.EVALUATOR: 750}[role] + history
        said = {Role.USER: 120, Role.TARGET: self.reply, Role.EVALUATOR: 220}[role]
        return 3e-6 * told + 15e-6 * said

    def mean(self, role: Role) -> float:
        turns = range(1, self.turns + 1)
        return sum(self.of_call(role, turn) for turn in turns) / self.turns


ASSUMED = 250


class Conversations:
    """Conversations of a user model, a target and a judge, several at once."""

    def __init__(self, number: int, *, turns: int, reply: float) -> None:
        self._number, self._turns = number, turns
        self.prices = Prices(reply, turns)
        assumed = Prices(ASSUMED, turns)
        speaking = {
            (role, A): ExpectedCalls(
                number * turns,
                assumed.mean(role),
                assumed.of_call(role, 1) / assumed.mean(role),
                turns,
            )
            for role in (Role.USER, Role.TARGET)
        }
        judging = ExpectedCalls(number, assumed.of_call(Role.EVALUATOR, 0))
        calls = {**speaking, (Role.EVALUATOR, A): judging}
        self.expected_usd = sum(one.number * one.usd for one in calls.values())
        self.questions: list[tuple[float, float]] = []
        """What was spent and what was agreed to then."""
        self.budget = Budget(on_beyond=self._yes)
        each = {kind: float(turns) for kind in speaking} | {(Role.EVALUATOR, A): 1.0}
        self.budget.remaining.expect("b", ExpectedWork(calls, {"m": each}))

    async def _yes(self, rest_usd: float) -> bool:
        self.questions.append((self.budget.spent_usd, self.budget.more_usd(rest_usd)))
        self.budget.agree(self.questions[-1][1])
        return True

    def play(self, *, quoted: float, at_once: int) -> float:
        """Return what all of them cost."""
        self.budget.agree(quoted, self.expected_usd)
        left = iter(range(self._number))

        async def some() -> None:
            for number in left:
                await self._one(str(number))

        async def play() -> None:
            await asyncio.gather(*(some() for _ in range(at_once)))

        asyncio.run(play())
        return self.budget.spent_usd

    async def _one(self, unit: str) -> None:
        remaining = self.budget.remaining
        calls = remaining.conversation("b", "m", roles=frozenset(Role))
        await self.budget.begin("b", unit, calls)
        for turn in range(1, self._turns + 1):
            await self._call(Role.USER, turn, unit)
            await self._call(Role.TARGET, turn, unit)
        await self._call(Role.EVALUATOR, 0, unit)
        self.budget.end("b", unit)

    async def _call(self, role: Role, turn: int, unit: str) -> None:
        await self.budget.wait_until_agreed(role, A)
        async with self.budget.call(role, A, "b", unit, turn=turn) as (spend, _):
            await asyncio.sleep(0)
            spend(self.prices.of_call(role, turn))


@pytest.mark.parametrize(
    ("turns", "reply", "most"),
    [(6, 900, 1), (12, 500, 1), (12, 3000, 2)],
)
def test_after_a_yes_nobody_is_asked_again_because_conversations_grow(
    turns: int, reply: float, most: int
) -> None:
    """The first calls of conversations cost less than the later ones, which are told more."""
    run = Conversations(48, turns=turns, reply=reply)
    spent = run.play(quoted=1.3 * run.expected_usd, at_once=16)
    assert 1 <= len(run.questions) <= most
    assert spent <= run.questions[-1][1] < 2 * spent


@pytest.mark.parametrize("turns", [1, 6, 12])
def test_a_run_that_costs_what_was_expected_asks_nothing(turns: int) -> None:
    run = Conversations(24, turns=turns, reply=ASSUMED)
    spent = run.play(quoted=1.1 * run.expected_usd, at_once=8)
    assert spent == pytest.approx(run.expected_usd)
    assert run.questions == []
    assert run.budget.remaining.rest_usd == pytest.approx(0.0, abs=1e-9)


def test_conversations_that_end_early_leave_nothing_to_expect() -> None:
    async def play() -> None:
        for unit in "12345678":
            calls = remaining.conversation("b", "m", roles=frozenset(Role))
            await budget.begin("b", unit, calls)
            async with budget.call(Role.TARGET, A, "b", unit, turn=1) as (spend, _):
                spend(0.01)
            budget.end("b", unit)

    budget = Budget()
    remaining = budget.remaining
    work = {(Role.TARGET, A): ExpectedCalls(80.0, 0.01, turns=10)}
    remaining.expect("b", ExpectedWork(work, {"m": {(Role.TARGET, A): 10.0}}))
    assert remaining.rest_usd == pytest.approx(0.8)
    asyncio.run(play())
    assert remaining.rest_usd == pytest.approx(0.0, abs=1e-9)


async def test_an_engine_waits_a_moment_for_whoever_has_started_it(place: Place) -> None:
    with open_store(place.root / "crosswind.db") as store:
        config = load_config(place.config)
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=priced)
        pipeline.awaits_somebody = True
        run = asyncio.create_task(run_once(pipeline, Order(("giving-in",), quote=QUOTE)))
        while pipeline.question is None:
            assert not run.done()
            await asyncio.sleep(0)
        pipeline.drain()
        assert (await run).stopped


def test_a_question_that_nobody_is_left_to_answer_ends_the_run(place: Place) -> None:
    async def play() -> RunResult:
        with open_store(place.root / "crosswind.db") as store:
            config = load_config(place.config)
            pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=priced)
            pipeline.unattended_seconds = 0.0
            there = iter([True, True])  # when it is asked, and when it begins to wait
            pipeline.attended = lambda: next(there, False)
            return await run_once(pipeline, Order(("giving-in",), quote=QUOTE))

    assert asyncio.run(play()).stopped
    assert spent_in(place) <= QUOTE.high_usd + 1e-9


def test_what_is_left_is_told_on_another_thread_while_more_comes_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by the board of a run, which whoever looks at it asks for."""
    remaining = RemainingCalls()
    remaining.expect("bread", expected(Role.TARGET, A, ExpectedCalls(2.0, 3.0)))
    alone = ExpectedCalls.each_usd

    def meanwhile(left: ExpectedCalls, *, refuted: bool) -> float:
        remaining.expect_more("bread", expected(Role.USER, B, ExpectedCalls(1.0, 1.0)))
        return alone(left, refuted=refuted)

    monkeypatch.setattr(ExpectedCalls, "each_usd", meanwhile)
    assert remaining.rest_usd == 6.0


def test_calls_that_cost_far_more_than_expected_are_asked_about_twice_at_most() -> None:
    questions: list[float] = []

    async def yes(rest_usd: float) -> bool:
        questions.append(budget.more_usd(rest_usd))
        budget.agree(questions[-1])
        return True

    async def play() -> None:
        for _ in range(100):
            await budget.wait_until_agreed(Role.TARGET, A)
            async with budget.call(Role.TARGET, A, "b") as (spend, _):
                spend(0.03)

    budget = Budget(on_beyond=yes)
    budget.agree(0.2, 0.1)
    budget.remaining.expect("b", expected(Role.TARGET, A, ExpectedCalls(100.0, 0.001)))
    asyncio.run(play())
    assert 1 <= len(questions) <= 2
    assert questions[0] > 1.5  # of the 3 that it came to


def test_a_question_says_the_rest_for_which_it_is_asked() -> None:
    """Also where more calls are made than were expected, of which nothing is left."""
    asked: list[BudgetQuestion] = []

    async def no(rest_usd: float) -> bool:
        asked.append(BudgetQuestion.of(budget, rest_usd))
        return False

    async def play() -> None:
        for _ in range(3):
            await budget.wait_until_agreed(Role.TARGET, A)
            async with budget.call(Role.TARGET, A, "b") as (spend, _):
                spend(0.1)
        with pytest.raises(StopRequested):
            await budget.wait_until_agreed(Role.TARGET, A)

    budget = Budget(on_beyond=no)
    budget.agree(0.35, 0.3)
    budget.remaining.expect("b", expected(Role.TARGET, A, ExpectedCalls(3.0, 0.1)))
    asyncio.run(play())
    [question] = asked
    assert question.spent_usd + question.rest_usd > question.agreed_usd
    approve(question.words)


async def test_nobody_waits_for_the_answer_to_a_question_that_was_answered(place: Place) -> None:
    with open_store(place.root / "crosswind.db") as store:
        config = load_config(place.config)
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store, opener=priced)
        pipeline.attended = lambda: True
        for agreed in (0.1, 0.2):
            pipeline.budget.agree(agreed, agreed)
            work = expected(Role.TARGET, A, ExpectedCalls(100.0, 1.0))
            pipeline.budget.remaining.expect("giving-in", work)
            call = asyncio.create_task(pipeline.budget.wait_until_agreed(Role.TARGET, A))
            while pipeline.question is None:
                assert not call.done()
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # a person answers when somebody waits for it
            pipeline.resume()
            await call
        await pipeline.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
