"""Which conversation is shown, and what a target that stands still is said to wait for."""

from __future__ import annotations

from engine.benchmark import ConversationKey, Speaker
from engine.facts import Speech
from engine.link import Board, EngineState
from tui.state.live import GLANCE, ROUND, Mode, Spotlight, shown_by
from tui.state.stalls import PATIENCE, Stillness, awaited_of, holdups


def speech(name: str, turn: int = 1, speaker: Speaker = Speaker.TARGET, began: float = 1) -> Speech:
    return Speech("b", ConversationKey(name, "gpt"), 0, turn, speaker, None, began)


def test_going_round_leaves_at_the_end_of_a_turn_or_when_the_time_is_over() -> None:
    light = Spotlight()
    light.mode = Mode.ROUND
    first, second, third = (speech(name) for name in ("s1", "s2", "s3"))
    everybody = [first, second, third]
    light.look([first], [], 0.0)

    assert light.look(everybody, [], ROUND - 0.1) == shown_by(first)
    assert light.look(everybody, [], ROUND) == shown_by(second)
    on = [first, speech("s2", turn=2), third]
    assert light.look(on, [], ROUND + GLANCE - 0.1) == shown_by(second)
    assert light.look(on, [], ROUND + GLANCE) == shown_by(third)
    assert light.look(on, [], 2 * ROUND + GLANCE) == shown_by(first)


def test_what_has_ended_can_be_read_before_it_goes_on_round() -> None:
    light = Spotlight()
    light.mode = Mode.ROUND
    first, second = speech("s1"), speech("s2", began=2)
    light.look([first], [], 0.0)

    assert light.look([second], [shown_by(first)], ROUND) == shown_by(first)
    assert light.look([second], [shown_by(first)], ROUND + 2) == shown_by(second)


def test_the_modes_follow_each_other() -> None:
    assert Mode.FOLLOW.next is Mode.PINNED
    assert Mode.PINNED.next is Mode.ROUND
    assert Mode.ROUND.next is Mode.FOLLOW


def board(*speaking: Speech, said: int = 0, problem: str | None = None) -> Board:
    return Board(EngineState.RUNNING, speaking, problem, said={"gpt": said} if speaking else {})


def test_a_target_stands_still_from_its_last_word_on() -> None:
    stillness = Stillness()
    stillness.look(board(speech("s1")), 100.0)
    assert stillness.of("gpt", 100.0 + PATIENCE - 0.1) is None
    assert stillness.of("gpt", 100.0 + PATIENCE) == PATIENCE
    assert stillness.of("another", 200.0) is None

    stillness.look(board(speech("s1"), said=7), 110.0)
    assert stillness.of("gpt", 112.0) is None
    stillness.look(board(speech("s1"), said=7), 118.0)
    assert stillness.of("gpt", 118.0) == 8
    assert stillness.of_all(118.0) == 8


def test_what_is_waited_for_depends_on_who_is_to_speak() -> None:
    of_user = speech("s1", speaker=Speaker.USER)
    assert awaited_of("gpt", board(speech("s1")), judging=0) == "no token yet"
    assert awaited_of("gpt", board(of_user), judging=0) == "user model silent"
    assert awaited_of("gpt", board(speech("s1"), said=3), judging=0) == "silent"
    assert awaited_of("gpt", board(), judging=2) == "no verdict yet"


def test_a_line_that_holds_the_run_up_is_cut_to_the_screen() -> None:
    [line] = holdups(board(problem="the disk is full " * 20), 40)
    assert sum(len(piece.text) for piece in line) == 40
    assert line[-1].text.endswith("…")
