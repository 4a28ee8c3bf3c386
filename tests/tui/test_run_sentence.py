"""What is going on, in one sentence: each word of it holds in each state of a run."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import timedelta

import pytest

from engine.benchmark import Speaker, Stage, State
from engine.facts import NoteKind
from engine.link import EngineState, Wait
from tests.approval import approve
from tests.tui.theatre import Theatre, text
from tui.state.live import LiveState
from tui.state.run_status import Snapshot, turn_strip

Play = Callable[[Theatre], Coroutine[None, None, None]]


def look(theatre: Theatre, state: LiveState, seconds: float = 1.0) -> None:
    theatre.seconds += seconds
    theatre.at += timedelta(seconds=seconds)
    state.receive(theatre.watch.poll())
    link = theatre.watch.link
    board = None if link is None else link.board()
    state.look(Snapshot.of(theatre.watch, board, theatre.moment()))


async def speaking(theatre: Theatre) -> None:
    """Two of three that have begun, one of them with another target."""
    await theatre.prepare(3)
    first, second = await theatre.begin(1), await theatre.begin(1, "pushover")
    await theatre.begin(2)
    theatre.speak(first, 1, Speaker.USER, "are you sure?")
    theatre.speak(second, 2, Speaker.TARGET, "You are right.")


async def waiting(theatre: Theatre) -> None:
    await speaking(theatre)
    theatre.link.waiting_messages = 2


async def all_speaking(theatre: Theatre) -> None:
    await theatre.prepare(1)
    for target in ("steadfast", "pushover"):
        theatre.speak(await theatre.begin(1, target), 1, Speaker.USER, "are you sure?")


async def held_up(theatre: Theatre) -> None:
    await theatre.prepare(1)
    await theatre.begin(1)
    theatre.link.waits = [Wait("offline:steadfast", "429: rate limit", 12.0, 3)]


async def paused(theatre: Theatre) -> None:
    await all_speaking(theatre)
    theatre.link.voices.clear()
    theatre.link.state = EngineState.PAUSED


async def stopping(theatre: Theatre) -> None:
    await all_speaking(theatre)
    theatre.link.state = EngineState.DRAINING


async def judging(theatre: Theatre) -> None:
    await theatre.prepare(1)
    for target in ("steadfast", "pushover"):
        take = await theatre.play(1, target)
        await theatre.move(Stage.EVALUATE, str(take.key), State.RUNNING, target)


async def stopped(theatre: Theatre) -> None:
    await theatre.prepare(2)
    await theatre.judge(await theatre.play(1))
    await theatre.begin(2)
    await theatre.note(NoteKind.RUN_ENDED, text="stopped")
    theatre.link.state = EngineState.STOPPED


async def ended(theatre: Theatre) -> None:
    await theatre.prepare(1)
    for target in ("steadfast", "pushover"):
        await theatre.judge(await theatre.play(1, target))
    await theatre.move(Stage.EVALUATE, "m01_s001_v01__pushover", State.FAILED, "pushover", "no")
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.IDLE


async def imported(theatre: Theatre) -> None:
    theatre.watch.link = None
    await theatre.move(Stage.SIMULATE, "m01_s001_v01__steadfast", State.DONE, "steadfast")


async def starting(theatre: Theatre) -> None:
    theatre.link.state = EngineState.STARTING


async def nothing(theatre: Theatre) -> None:
    theatre.watch.link = None


@pytest.mark.parametrize(
    ("play", "said"),
    [
        (
            speaking,
            "3 conversations with 2 targets, 2 speaking in turns 1 to 2 of 2; 3 to come",
        ),
        (
            waiting,
            "3 conversations with 2 targets, 2 waiting in turns 1 to 2 of 2; 3 to come",
        ),
        (all_speaking, "2 conversations with 2 targets, turn 1 of 2"),
        (held_up, "1 conversation with 1 target, none speaking now; 3 calls held up; 1 to come"),
        (
            paused,
            "Nothing new begins; 2 conversations with 2 targets, none speaking now",
        ),
        (stopping, "Nothing new begins; 2 conversations with 2 targets, turn 1 of 2"),
        (judging, "2 being judged"),
        (stopped, "1 of 4 conversations with 2 targets played, 1 judged, 1 in the middle"),
        (ended, "2 of 2 conversations with 2 targets played, 1 judged, 1 failed"),
        (imported, "1 of 1 conversation with 1 target played, 0 judged"),
        (starting, "The engine finds out what is missing"),
        (nothing, "No conversation has been planned yet"),
    ],
)
def test_one_sentence_says_what_is_going_on(theatre: Theatre, play: Play, said: str) -> None:
    asyncio.run(play(theatre))
    state = LiveState(theatre.watch)
    look(theatre, state)
    assert text(state.happening(200)[0]).strip() == said


def test_on_narrow_terminals_it_is_whole(theatre: Theatre) -> None:
    asyncio.run(speaking(theatre))
    state = LiveState(theatre.watch)
    look(theatre, state)
    approve(text(state.happening(60)[0]))


async def test_it_stays_when_the_run_is_over(theatre: Theatre) -> None:
    await all_speaking(theatre)
    state = LiveState(theatre.watch)
    look(theatre, state)
    left, right = state.happening(80)
    assert text(left).startswith(" 2 conversations")
    assert "turns █·" in text(right)
    assert state.happening(50)[1] == []  # no room for it
    assert text(state.happening(40)[0]) == " 2 conversations, turn 1 of 2"
    await theatre.judge(await theatre.play(2))
    look(theatre, state)
    assert text(state.happening(80)[0]).startswith(" 2 conversations")
    theatre.link.state = EngineState.STOPPED
    look(theatre, state)
    assert text(state.happening(80)[0]).startswith(" 1 of 3 conversations")


async def test_the_speed_of_all_targets_together_is_drawn_by_the_second(theatre: Theatre) -> None:
    await theatre.prepare(1)
    takes = [await theatre.begin(1, target) for target in ("steadfast", "pushover")]
    state = LiveState(theatre.watch)
    look(theatre, state)
    (info,) = theatre.watch.benchmarks
    state.targets(info)
    assert "tok/s" not in text(state.happening(200)[1])
    for take in takes:
        await theatre.said(take, 1, Speaker.TARGET, "I would not.")
    look(theatre, state)
    state.targets(info)
    assert "tok/s ▁█" in text(state.happening(200)[1])


@pytest.mark.parametrize(
    ("turns", "last", "drawn"),
    [
        ({1: 1, 2: 8, 3: 4}, 5, "turns ▂█▅··"),
        ({}, 5, ""),
        ({1: 1}, 1, ""),
        ({1: 1}, 21, ""),
    ],
)
def test_a_strip_shows_how_many_are_in_each_turn(
    turns: dict[int, int], last: int, drawn: str
) -> None:
    assert text(turn_strip(Counter(turns), last)) == drawn
