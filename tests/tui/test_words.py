"""Plain functions from values to words, and the small deciders behind the screens."""

from __future__ import annotations

import pytest

from engine.benchmark import ConversationKey, Speaker, Track
from engine.display import percent
from engine.facts import Speech
from engine.progress import TrackScore
from engine.statistics.distributions import Interval
from engine.statistics.rates import Rate
from tests.approval import approve
from tui.format import amount, bar, conversation_id, duration, interval_rate, money, rate, verdict
from tui.services.ticker import UNSEEN_AFTER, PollTimer, hertz
from tui.state.board import sparkline
from tui.state.follower import SILENCE, Follower, FollowMode
from tui.state.related import TakeRef
from tui.text.ink import Ink, Piece, length, pad, shorten, spread_line


def speech(name: str, began: float, take: int = 0) -> Speech:
    key = ConversationKey(name, "target")
    return Speech("b", key, take, 1, Speaker.USER, None, began)


def test_durations_and_amounts_are_short() -> None:
    assert [duration(each) for each in (7.9, 760, 11_100)] == ["0:07", "12:40", "3:05:00"]
    assert [amount(each) for each in (7.2, 999, 1_240, 31_000, 2_400_000)] == [
        "7",
        "999",
        "1.2k",
        "31k",
        "2.4M",
    ]


def test_an_unknown_price_is_not_zero_and_a_script_is_free() -> None:
    assert money(None, scripted=False) == "—"
    assert money(0.0, scripted=True) == "free"
    assert money(1.5, scripted=True) == "$1.50"
    assert money(0.004, scripted=False) == "<$0.01"


def test_a_rate_says_of_how_many_and_is_100_only_for_all() -> None:
    assert rate(TrackScore(26, 32), Track.POSITIVE) == "+ 81% of 32"
    assert rate(TrackScore(), Track.NEGATIVE) == "− —"
    assert [percent(each) for each in (1.0, 0.999, 0.001, 0.0)] == ["100%", "99%", "1%", "0%"]


def test_a_rate_with_its_interval_is_written_as_in_the_results() -> None:
    known = Rate(0.906, Interval(0.67, 0.98), 29, 32, 8, 8.0, 7.0)
    assert interval_rate(known, Track.POSITIVE) == "+ 91% [67–98] 29/32"


def test_verdicts_are_a_sign_and_a_word() -> None:
    assert [verdict(each) for each in (True, False, None)] == ["✓ pass", "✗ fail", "· unscored"]


def test_a_bar_fills_in_eighths() -> None:
    assert bar(3 / 16, 8) == ("█▌", " " * 6)
    assert bar(0, 4) == ("", "    ")
    assert bar(9 / 8, 4) == ("████", "")


def test_lines_are_measured_in_cells() -> None:
    assert pad("但是", 6) == "但是  "
    assert shorten("但是我", 4) == "但 …"
    assert length([Piece("但"), Piece("a")]) == 3


def test_the_right_end_of_a_line_gives_way_only_when_the_left_says_too_little() -> None:
    left, right = [Piece("a long left end", Ink.TEXT)], [Piece("right")]

    approve("".join(p.text for p in spread_line(left, right, 22)))
    approve("".join(p.text for p in spread_line(left, right, 18)))
    assert "".join(p.text for p in spread_line(left, right, 12)) == "a long left…"


def test_a_pinned_conversation_stays_and_a_step_takes_another() -> None:
    light = Follower()
    first, second = speech("m01_s001", 1.0), speech("m01_s002", 2.0)
    light.look([first], [], 0.0)
    light.mode = FollowMode.PINNED

    assert light.look([second], [TakeRef.of(first)], 100.0) == TakeRef.of(first)
    assert light.step([first, second], 1, 100.0) == TakeRef.of(second)
    assert light.step([first, second], 1, 100.0) == TakeRef.of(first)
    assert light.step([], 1, 100.0) == TakeRef.of(first)


def test_a_conversation_that_says_nothing_is_left_for_one_that_speaks() -> None:
    light = Follower()
    light.look([speech("m01_s001", 1.0)], [], 0.0)
    other = speech("m01_s002", 2.0)

    assert light.look([other], [], SILENCE - 1) == TakeRef(
        "b", ConversationKey("m01_s001", "target"), 0
    )
    assert light.look([other], [], SILENCE) == TakeRef.of(other)


def test_nobody_looking_means_one_look_a_second() -> None:
    pace = PollTimer(blurred_at=0.0)

    assert all(pace.due(second / 12) for second in range(24))
    later = UNSEEN_AFTER + 1
    assert [pace.due(later + step / 4) for step in range(8)] == [True, False, False, False] * 2
    pace.blurred_at = None
    assert pace.due(later + 2.1)


def test_a_line_over_ssh_is_drawn_less_often() -> None:
    assert hertz({}) == 12
    assert hertz({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}) == 5
    assert hertz({}, slow=True) == 2


@pytest.mark.parametrize(
    ("speeds", "shown"), [([], ""), ([0, 0], ""), ([1, 2, 4], "▃▅█"), ([0, 100], "▁█"), ([5], "█")]
)
def test_a_trend_is_measured_by_its_highest(speeds: list[float], shown: str) -> None:
    assert sparkline(speeds) == shown


def test_ids_in_little_room_keep_what_differs() -> None:
    targets = ["steadfast", "pushover"]
    keys = [
        ConversationKey(f"m01_s00{scenario}_v0{variant}", target, sample)
        for scenario in (1, 2)
        for variant in (1, 2)
        for target in targets
        for sample in (0, 1)
    ]
    for width in (15, 20, 24, 40):
        shown = [conversation_id(key, targets, width) for key in keys]
        assert len(set(shown)) == len(keys)
        assert max(map(len, shown)) <= width
    assert conversation_id(keys[1], targets, 15) == "m1s1v1 st…st s1"
