"""Reading what failed, one after the other: where it begins, where it opens, and how one goes on
the next time."""

from __future__ import annotations

from pathlib import Path

from engine.store.tables import Quote
from tests.approval import approve, cells_with
from tests.tui.theatre import Pilot, Theatre, on_screen
from tui.app import CrosswindApp
from tui.screens.conversation import ConversationScreen
from tui.text.ink import Ink
from tui.widgets.transcript import TranscriptView

SHOWN = "You are right, and I give in."
REPLY = f"{'Filling words come first. ' * 60}{SHOWN}"


async def three_failures(theatre: Theatre) -> None:
    await theatre.prepare(4)
    for number in (1, 2, 3, 4):
        take = await theatre.play(number, reply=REPLY)
        await theatre.judge(take, passed=number == 4, quotes=(Quote(SHOWN, 1),))


async def settled(theatre: Theatre, pilot: Pilot) -> None:
    for _ in range(3):
        await theatre.tick(pilot)


def marked(pilot: Pilot) -> str:
    """The quote that was gone to, as far as it is seen."""
    pane = pilot.app.screen.query_one("#story", TranscriptView)
    rows = range(pane.top, min(pane.top + pane.size.height, pane.row_count()))
    return " ".join(p.text for row in rows for p in pane.row(row) if p.ink is Ink.EVIDENCE_NOW)


def test_failures_open_at_their_evidence_and_are_gone_on_with_the_next_time(
    theatre: Theatre, tmp_path: Path
) -> None:
    memory = tmp_path / "home" / "app.json"

    def app() -> CrosswindApp:
        return CrosswindApp(theatre.watch, memory=memory, moment=theatre.moment)

    async def first(pilot: Pilot) -> None:
        await three_failures(theatre)
        await theatre.tick(pilot, 6)
        # from anywhere to the worst metric's failing transcript
        for key in ("1", "W", "enter"):
            await pilot.press(key)
            await settled(theatre, pilot)
        assert isinstance(pilot.app.screen, ConversationScreen)
        assert "1 of 3, 1 read" in on_screen(pilot)
        assert marked(pilot) == SHOWN
        await pilot.press("right_square_bracket")
        await settled(theatre, pilot)
        assert "2 of 3, 2 read" in on_screen(pilot)
        assert marked(pilot) == SHOWN
        await pilot.press("q")
        await settled(theatre, pilot)
        assert "2 of 3 read" in on_screen(pilot)

    async def second(pilot: Pilot) -> None:
        for key in ("1", "W", "enter"):
            await theatre.tick(pilot, 6)
            await pilot.press(key)
            await settled(theatre, pilot)
        assert "3 of 3, 3 read" in on_screen(pilot)
        assert "m01_s003_v01" in on_screen(pilot)
        await pilot.press("right_square_bracket")
        await settled(theatre, pilot)
        approve(cells_with(on_screen(pilot), "the last of"))

    async def third(pilot: Pilot) -> None:
        await theatre.judge(await theatre.play(1, number=1, reply=REPLY), passed=False)
        await pilot.press("3", "right_curly_bracket")
        await settled(theatre, pilot)
        assert "2 of 4 read" in on_screen(pilot)  # what was played again was not read yet

    theatre.perform(first, (80, 24), app=app())
    theatre.perform(second, (120, 40), app=app())
    theatre.perform(third, (120, 40), app=app())


async def test_what_passed_begins_at_its_beginning(theatre: Theatre, pilot: Pilot) -> None:
    await three_failures(theatre)
    await theatre.tick(pilot)
    await pilot.press("3", "right_curly_bracket")
    await settled(theatre, pilot)
    await pilot.press("end", "enter")
    await settled(theatre, pilot)
    assert "4 of 4, 1 read" in on_screen(pilot)
    await pilot.resize_terminal(40, 12)
    await pilot.pause()
    assert "✓ pass 4 of 4" in on_screen(pilot)  # the verdict before how many were read
    assert marked(pilot) == ""
