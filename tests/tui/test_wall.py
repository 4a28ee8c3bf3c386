"""The wall: several conversations at once, each in a pane of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.benchmark import Speaker
from engine.facts import NoteKind, Speech
from engine.link import EngineState
from engine.store.tables import NoteRow, Quote
from tests.approval import approve, cells_with
from tests.tui.theatre import BENCHMARK, METRIC, TARGETS, Pilot, Theatre, Voice, on_screen
from tui.screens.conversation import ConversationScreen
from tui.screens.wall import Pane, WallScreen, panes_for
from tui.state.follower import AWAITED, DWELL


@pytest.mark.parametrize(
    ("size", "panes"),
    [((80, 24), (1, 2)), ((120, 24), (2, 1)), ((120, 40), (2, 2)), ((200, 60), (3, 3))],
)
def test_there_are_as_many_panes_as_have_room(
    size: tuple[int, int], panes: tuple[int, int]
) -> None:
    assert panes_for(*size) == panes


async def test_each_conversation_has_a_pane_and_a_new_one_takes_the_place_of_one_that_ended(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare(3)
    takes = [await theatre.begin(1, target) for target in TARGETS]
    for take, text in zip(takes, ("It is late.", "It is early."), strict=True):
        await theatre.said(take, 1, Speaker.USER, "What time is it?")
        theatre.speak(take, 1, Speaker.TARGET, text)
    await theatre.open(pilot, "w")
    assert isinstance(pilot.app.screen, WallScreen)
    shown = on_screen(pilot)
    assert "2 speaking" in shown
    assert shown.count("It is late.") == shown.count("It is early.") == 1
    assert shown.count("nothing is being") == 1
    assert "freeze" in shown.splitlines()[-1]

    theatre.speak(takes[0], 1, Speaker.TARGET, " Is it not?")
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "It is late."))

    for take in takes:
        await theatre.finish(take)
        await theatre.end(take)
    await theatre.tick(pilot)
    assert on_screen(pilot).count("ended") >= 2
    for number, target in enumerate(TARGETS):
        theatre.speak(await theatre.begin(2 + number, target), 1, Speaker.USER, "Again.")
    await theatre.tick(pilot, DWELL)
    assert on_screen(pilot).count("verdict awaited") == 2
    await theatre.judge(takes[0], passed=True, quotes=(Quote("It is late.", 1),))
    await theatre.judge(takes[1], passed=False)
    await theatre.tick(pilot)
    shown = on_screen(pilot)
    assert shown.count("ended  ✓ pass") == shown.count("ended  ✗ fail") == 1
    assert f"✗ fail  + {METRIC.name}" in shown
    approve(cells_with(shown, "quote     “It is", "because   It keeps"))
    await theatre.tick(pilot, DWELL)
    await theatre.tick(pilot)
    shown = on_screen(pilot)
    assert shown.count("Again.") == 2
    assert "m01_s002_v01__steadfast" in shown
    assert "m01_s003_v01__pushover" in shown


@pytest.mark.terminal(80, 24)
async def test_it_is_held_still_and_leads_to_the_conversation_and_back(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "It is late.")
    await theatre.open(pilot, "w")
    await pilot.press("p")
    theatre.speak(take, 1, Speaker.USER, " Is it not?")
    await theatre.finish(take)
    await theatre.tick(pilot)
    assert "frozen  +1 message" in on_screen(pilot)
    assert "Is it not?" not in on_screen(pilot)
    await theatre.press(pilot, "p", "enter")
    assert isinstance(pilot.app.screen, ConversationScreen)
    await theatre.press(pilot, "q")
    assert "Wall" in on_screen(pilot)


async def test_a_wall_opened_while_paused_shows_the_conversations_that_are_held(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    takes = [await theatre.begin(1, target) for target in TARGETS]
    for take in takes:
        await theatre.said(take, 1, Speaker.USER, f"Is it late, {take.key.target_id}?")
    await theatre.play(2, TARGETS[0])
    theatre.link.state = EngineState.PAUSED
    await theatre.open(pilot, "w")
    await theatre.tick(pilot)
    shown = on_screen(pilot)
    assert all(f"Is it late, {target}?" in shown for target in TARGETS)
    assert shown.count("─ paused") == len(TARGETS)
    assert "m01_s002" not in shown

    theatre.link.state = EngineState.RUNNING
    theatre.speak(takes[0], 1, Speaker.TARGET, "It is.")
    await theatre.tick(pilot)
    assert "paused" not in on_screen(pilot)
    assert "It is." in on_screen(pilot)


async def test_a_wall_on_which_nothing_is_said_says_why_and_has_nothing_to_open_or_freeze(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    await theatre.open(pilot, "w")
    shown = on_screen(pilot)
    approve(cells_with(shown, "No conversation is", "every conversation that"))
    assert "speaking" not in shown
    assert sum(pane.display for pane in pilot.app.screen.query(Pane)) == 1
    footer = shown.splitlines()[-1]
    assert "freeze" not in footer
    assert "open" not in footer

    theatre.speak(await theatre.begin(1), 1, Speaker.USER, "What time is it?")
    await theatre.tick(pilot)
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "What time is"))
    assert sum(pane.display for pane in pilot.app.screen.query(Pane)) == 4


def test_a_conversation_of_another_benchmark_says_of_which_it_is(theatre: Theatre) -> None:
    [info] = theatre.watch.benchmarks
    theatre.watch.benchmarks = [info, replace(info, name="another")]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        take = await theatre.begin()
        theatre.speak(take, 1, Speaker.USER, "What time is it?")
        await theatre.open(pilot, "w")
        assert f"of {BENCHMARK}" not in on_screen(pilot)
        await theatre.write(NoteRow(kind=NoteKind.RUN_STARTED, benchmark="another", text=""))
        await theatre.tick(pilot)
        assert f" {take.key}  of {BENCHMARK}  turn 1" in on_screen(pilot)

        await theatre.finish(take)
        await theatre.end(take)
        await theatre.tick(pilot, AWAITED)
        speech = Speech("another", take.key, 0, 1, Speaker.USER, None, theatre.seconds)
        theatre.link.voices[take.key] = Voice(speech, "Is it early?")
        await theatre.tick(pilot, AWAITED)
        await theatre.tick(pilot, AWAITED)
        shown = on_screen(pilot)
        assert "Is it early?" in shown
        assert "What time is" not in shown

    theatre.perform(script, (80, 24))
