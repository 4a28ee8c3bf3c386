"""Which conversation is shown, and what a target that stands still is said to wait for."""

from __future__ import annotations

from dataclasses import replace

from engine.benchmark import ConversationKey, Speaker, Stage
from engine.facts import Speech, Writing
from engine.link import Board, EngineState
from tui.state.follower import AWAITED, DWELL, GLANCE, ROUND, Follower, FollowMode
from tui.state.related import TakeRef
from tui.state.run_status import PATIENCE, StallDetector, awaited_of, blocker_lines


def speech(name: str, turn: int = 1, speaker: Speaker = Speaker.TARGET, began: float = 1) -> Speech:
    return Speech("b", ConversationKey(name, "gpt"), 0, turn, speaker, None, began)


def test_going_round_leaves_at_the_end_of_a_turn_or_when_the_time_is_over() -> None:
    follower = Follower()
    follower.mode = FollowMode.ROUND
    first, second, third = (speech(name) for name in ("s1", "s2", "s3"))
    everybody = [first, second, third]
    follower.look([first], [], 0.0)

    assert follower.look(everybody, [], ROUND - 0.1) == TakeRef.of(first)
    assert follower.look(everybody, [], ROUND) == TakeRef.of(second)
    on = [first, speech("s2", turn=2), third]
    assert follower.look(on, [], ROUND + GLANCE - 0.1) == TakeRef.of(second)
    assert follower.look(on, [], ROUND + GLANCE) == TakeRef.of(third)
    assert follower.look(on, [], 2 * ROUND + GLANCE) == TakeRef.of(first)


def test_what_has_ended_can_be_read_before_it_goes_on_round() -> None:
    follower = Follower()
    follower.mode = FollowMode.ROUND
    first, second = speech("s1"), speech("s2", began=2)
    follower.look([first], [], 0.0)

    assert follower.look([second], [TakeRef.of(first)], ROUND) == TakeRef.of(first)
    assert follower.look([second], [TakeRef.of(first)], ROUND + DWELL) == TakeRef.of(second)


def test_what_has_ended_stays_until_its_verdict_was_seen_as_long() -> None:
    follower = Follower()
    first, second = speech("s1"), speech("s2", began=2)
    ended = [TakeRef.of(first)]
    follower.look([first], [], 0.0)

    follower.look([second], ended, 1.0, awaited=True)
    assert follower.look([second], ended, 1.0 + DWELL, awaited=True) == TakeRef.of(first)
    assert follower.look([second], ended, 2.0 + DWELL) == TakeRef.of(first)
    assert follower.look([second], ended, 1.9 + 2 * DWELL) == TakeRef.of(first)
    assert follower.look([second], ended, 2.0 + 2 * DWELL) == TakeRef.of(second)


def test_a_verdict_is_not_awaited_for_ever() -> None:
    follower = Follower()
    first, second = speech("s1"), speech("s2", began=2)
    ended = [TakeRef.of(first)]
    follower.look([first], [], 0.0)

    follower.look([second], ended, 1.0, awaited=True)
    assert follower.look([second], ended, 0.9 + AWAITED, awaited=True) == TakeRef.of(first)
    assert follower.look([second], ended, 1.0 + AWAITED, awaited=True) == TakeRef.of(second)
    # and the next one that ends is held as long as if it were the first
    assert follower.look([first], [TakeRef.of(second)], 20.0) == TakeRef.of(second)
    assert follower.look([first], [TakeRef.of(second)], 20.0 + DWELL) == TakeRef.of(first)


def test_the_modes_follow_each_other() -> None:
    assert FollowMode.FOLLOW.next is FollowMode.PINNED
    assert FollowMode.PINNED.next is FollowMode.ROUND
    assert FollowMode.ROUND.next is FollowMode.FOLLOW


def board(*speaking: Speech, said: int = 0, problem: str | None = None) -> Board:
    return Board(EngineState.RUNNING, speaking, problem, said={"gpt": said} if speaking else {})


def test_a_target_stands_still_from_its_last_word_on() -> None:
    stalls = StallDetector()
    stalls.look(board(speech("s1")), 100.0)
    assert stalls.of("gpt", 100.0 + PATIENCE - 0.1) is None
    assert stalls.of("gpt", 100.0 + PATIENCE) == PATIENCE
    assert stalls.of("another", 200.0) is None

    stalls.look(board(speech("s1"), said=7), 110.0)
    assert stalls.of("gpt", 112.0) is None
    stalls.look(board(speech("s1"), said=7), 118.0)
    assert stalls.of("gpt", 118.0) == 8
    assert stalls.of_all(118.0) == 8
    judged = Writing("b", Stage.EVALUATE, "s1", "reasoning: It")
    stalls.look(replace(board(), writing=(judged,)), 118.0)
    assert stalls.of_all(118.0) is None


def test_what_is_waited_for_depends_on_who_is_to_speak() -> None:
    of_user = speech("s1", speaker=Speaker.USER)
    assert awaited_of("gpt", board(speech("s1")), judging=0) == "no token yet"
    assert awaited_of("gpt", board(of_user), judging=0) == "user model silent"
    assert awaited_of("gpt", board(speech("s1"), said=3), judging=0) == "silent"
    assert awaited_of("gpt", board(), judging=2) == "judging"


def test_what_holds_the_run_up_is_wrapped_and_cut_to_the_lines_that_it_may_have() -> None:
    lines = blocker_lines(board(problem="the disk is full " * 20), 40, most=3)
    told = ["".join(piece.text for piece in line) for line in lines]
    assert told[0].startswith(" ! held  the disk")
    assert told[1].startswith("         ")
    assert all(len(line) <= 40 for line in told)
    assert (len(told), told[-1][-1]) == (3, "…")
    advice = "waiting for workers; start some with `dask worker`"
    told = [
        "".join(p.text for p in line) for line in blocker_lines(board(problem=advice), 60, most=2)
    ]
    assert " ".join(line[9:].strip() for line in told).startswith(advice)
