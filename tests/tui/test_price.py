"""What the app says of a run's price: before it begins, while it runs, and when it leaves it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import InputError, Problem
from engine.link import Command, EngineState, Request
from engine.pipeline.order import Order, PricedOrder, PriceRange
from tests.approval import approve, lines_with
from tests.tui.idle import Gate
from tests.tui.theatre import BENCHMARK, Pilot, Theatre, on_screen, screen_lines, shell
from tui.app import CrosswindApp
from tui.screens.conversation import ConversationScreen
from tui.screens.rejudge import JudgeAgainScreen
from tui.services.engine_control import Backend
from tui.text.ink import Ink
from tui.widgets.lines import Lines

QUOTE = PriceRange(0.11, 4.35, 1.2, binding=True)
TOTAL = (
    "all together: 51 to 400 calls, about $1.20 (at most $4.35)",
    "  tokens: 110,000 to 1.2 million read, 20,000 to 90,000 written",
    "  an estimate, wide until each model was called 5 times in its role;",
    "  after that, `crosswind run --dry-run` estimates the rest more closely",
)
QUESTION = (
    "this run is likely to cost more than was agreed to: at most $1.35 were agreed to, $1.20 are "
    "spent, and the rest is expected to cost about $0.80. It waits for an answer: "
    "`crosswind resume` lets it cost up to $2.60, `crosswind stop` ends it"
)


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    found = Theatre(tmp_path)
    yield found
    found.close()


def priced(order: Order) -> PricedOrder:
    return PricedOrder(replace(order, quote=QUOTE), TOTAL, TOTAL)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_the_whole_price_is_asked_before_an_engine_begins(
    theatre: Theatre, size: tuple[int, int]
) -> None:
    started: list[Order | None] = []

    def start(order: Order | None) -> int:
        started.append(order)
        return 1

    theatre.link.state = EngineState.STOPPED
    app = CrosswindApp(theatre.watch, moment=theatre.moment, backend=Backend(start, priced))

    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        app.engine.start(Order((BENCHMARK,)))
        while "all together" not in on_screen(pilot):
            await pilot.pause()
        shown = " ".join(line.strip() for line in screen_lines(app))
        assert all(" ".join(line.split()) in " ".join(shown.split()) for line in TOTAL)
        assert f"Do what is missing of {BENCHMARK}: " in shown
        assert "begins at once" in shown
        assert not started
        await theatre.press(pilot, "y")
        assert [order.quote for order in started if order is not None] == [QUOTE]

    theatre.perform(script, size=size, app=app)


def test_what_is_to_follow_a_run_at_work_is_asked_as_well(theatre: Theatre) -> None:
    app = CrosswindApp(theatre.watch, moment=theatre.moment, backend=Backend(cost=priced))

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        app.engine.ask(Request(Command.RUN, order=Order((BENCHMARK,))))
        while "all together" not in on_screen(pilot):
            await pilot.pause()
        assert theatre.link.requests == []
        await theatre.press(pilot, "y")
        [request] = theatre.link.requests
        assert request.order is not None
        assert request.order.quote == QUOTE

    theatre.perform(script, app=app)


NOTE = "127.0.0.1:8000 was not reached: no connection; a run waits for it"


def test_what_should_be_known_before_stands_beside_the_price(theatre: Theatre) -> None:
    def noted(order: Order) -> PricedOrder:
        return replace(priced(order), notes=(NOTE,))

    theatre.link.state = EngineState.STOPPED
    app = CrosswindApp(
        theatre.watch, moment=theatre.moment, backend=Backend(lambda _order: 1, noted)
    )

    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        app.engine.start(Order((BENCHMARK,)))
        while "all together" not in on_screen(pilot):
            await pilot.pause()
        assert f"note: {NOTE}" in " ".join(" ".join(screen_lines_of(pilot)).split())
        question = app.screen.query_one("#question", Lines)
        noted = [line for line in map(question.row, range(question.row_count())) if line]
        warned = [line[0].text for line in noted if line[0].ink is Ink.WARN]
        assert warned[0].startswith("note: ")

    theatre.perform(script, size=(80, 24), app=app)


def test_nobody_has_a_conversation_judged_again_before_its_price_is_known(
    theatre: Theatre,
) -> None:
    may_be_known, asked_for = Gate(), 0

    def slow(order: Order) -> PricedOrder:
        nonlocal asked_for
        asked_for += 1
        may_be_known.wait()
        return replace(priced(order), notes=(NOTE,))

    app = CrosswindApp(theatre.watch, moment=theatre.moment, backend=Backend(cost=slow))

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        take = await theatre.play()
        await theatre.tick(pilot)
        await app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
        await theatre.tick(pilot)
        await pilot.press("r")
        while "working out calls and price" not in on_screen(pilot):
            await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, JudgeAgainScreen)
        may_be_known.set()
        while "about $1.20 (at most $4.35)" not in on_screen(pilot):
            await pilot.pause()
        assert isinstance(app.screen, JudgeAgainScreen)
        assert NOTE in [toast.message for toast in app._notifications]
        await theatre.press(pilot, "enter")
        [request] = theatre.link.requests
        assert request.quote == QUOTE
        assert asked_for == 1

    theatre.perform(script, app=app)


def test_what_would_fail_is_said_and_nothing_is_asked_for(theatre: Theatre) -> None:
    def refused(_order: Order) -> PricedOrder:
        raise InputError(Problem("api.example.org refuses the key EXAMPLE_KEY (401)"))

    app = CrosswindApp(theatre.watch, moment=theatre.moment, backend=Backend(cost=refused))

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        take = await theatre.play()
        await theatre.tick(pilot)
        await app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
        await theatre.tick(pilot)
        await pilot.press("r")
        while "refuses the key EXAMPLE_KEY" not in on_screen(pilot):
            await pilot.pause()
        await theatre.press(pilot, "enter")
        assert isinstance(app.screen, JudgeAgainScreen)
        assert theatre.link.requests == []

    theatre.perform(script, app=app)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_a_question_of_the_engine_comes_up_once_and_is_answered(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    theatre.link.state, theatre.link.question = EngineState.PAUSED, QUESTION
    await theatre.tick(pilot)
    while "crosswind stop" not in on_screen(pilot):
        await pilot.pause()
    shown = " ".join(" ".join(screen_lines_of(pilot)).split())
    assert QUESTION.replace("this run", "This run") in shown
    card = " ".join(on_screen(pilot).split())
    for offer in ("y go on agree to that", "s stop asks how", "l later it waits: P lets it"):
        assert offer in card
    await theatre.press(pilot, "l")
    assert "agree to that" not in on_screen(pilot)
    theatre.link.question = None
    await theatre.tick(pilot)
    theatre.link.question = QUESTION
    await theatre.tick(pilot)
    while "crosswind stop" not in on_screen(pilot):
        await pilot.pause()
    await theatre.press(pilot, "y")
    assert theatre.link.commands == [Command.RESUME]


def screen_lines_of(pilot: Pilot) -> list[str]:
    """What stands in the card, without what it lies over."""
    assert isinstance(pilot.app, CrosswindApp)
    card = pilot.app.screen.query_one("#question").region
    return [line[card.x : card.right] for line in screen_lines(pilot.app)[card.y : card.bottom]]


async def test_what_is_spent_stands_beside_what_was_agreed_to(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    theatre.link.quote, theatre.link.agreed_usd = QUOTE, QUOTE.high_usd
    theatre.link.spent_usd, theatre.link.rest_usd = 1.2, 0.8
    await theatre.tick(pilot)
    line = next(line for line in screen_lines_all(pilot) if "spent" in line)
    approve(lines_with(line, "spent $1.20 of about $2.00,"))
    theatre.link.agreed_usd = None
    await theatre.tick(pilot)
    line = next(line for line in screen_lines_all(pilot) if "spent" in line)
    approve(lines_with(line, "spent $1.20 of about $2.00,"))


def screen_lines_all(pilot: Pilot) -> list[str]:
    assert isinstance(pilot.app, CrosswindApp)
    return screen_lines(pilot.app)
