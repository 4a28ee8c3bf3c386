"""A pilot from the app: a key, its price, and what it says when it is over."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest

from engine.cli.session import open_session
from engine.pipeline.order import Order
from engine.watch import Watch
from tests.approval import approve, lines_with
from tests.engine.small_workspace import Place
from tests.tui.idle import hurried
from tests.tui.theatre import Pilot, ScriptedLink, on_screen
from tests.waiting import PATIENCE_S
from tui.app import CrosswindApp
from tui.orders import Orders
from tui.screens.dialogs import TextCard
from tui.services.engine_control import Backend


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
def test_a_key_plays_it_and_its_page_opens_when_it_is_over(
    place: Place, size: tuple[int, int]
) -> None:
    session = open_session(place.root)
    session.handle.make_store()
    asked: list[Order | None] = []

    def start(order: Order | None) -> int:
        asked.append(order)
        return 1

    async def script(pilot: Pilot, app: CrosswindApp, link: ScriptedLink) -> None:
        await pilot.press("1", "V")
        async with asyncio.timeout(PATIENCE_S):
            while not link.requests:
                await pilot.pause()
            [request] = link.requests
            assert request.order is not None
            assert (request.order.benchmarks, request.order.pilot) == (("giving-in",), 2)
            # asked for once more, its page comes all the same
            waited_for = app.engine._piloting
            for number, refused in enumerate((None, "it pauses"), 2):
                link.refuses = refused
                await pilot.press("V")
                while len(link.requests) < number:
                    await pilot.pause()
                await app.workers.wait_for_complete()
                assert app.engine._piloting is waited_for
            await asyncio.to_thread(place.run, pilot=2)
            while not isinstance(app.screen, TextCard):
                app.tick()
                await pilot.pause()
        shown = on_screen(pilot)
        approve(
            lines_with(shown, "giving-in: 8 conversations played", "Esc closes", "m01 positive")
        )
        await pilot.press("q")
        # what is played is not played again: it is read at once, also by its name
        await pilot.press("colon", *"pilot", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert isinstance(app.screen, TextCard)
        assert len(link.requests) == 3

    async def perform() -> None:
        link = ScriptedLink()
        with closing(Watch.open(session.store_path, session.watched(), link)) as watch:
            orders = Orders(session, session.store_path)
            app = CrosswindApp(watch, backend=Backend(start, orders.cost, pilot=orders.pilot))
            async with app.run_test(size=size) as pilot:
                await script(pilot, app, link)

    hurried(perform())
