"""How long a target still takes, and how sure that is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from engine.progress import FEWEST_TO_JUDGE, RATE_WINDOW, TargetProgress

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def playing(done: int, left: int, every: float) -> TargetProgress:
    """So many were played, one every so many seconds, the last one now."""
    target = TargetProgress()
    target.simulate.queued = left
    for number in reversed(range(done)):
        target.settled.add(NOW - timedelta(seconds=number * every), 1)
    return target


def test_the_more_were_played_lately_the_narrower_it_is() -> None:
    few, many = playing(6, 40, 2.0), playing(25, 40, 1.0)
    spans = []
    for target in (few, many):
        seconds, about = target.seconds_left(NOW), target.seconds_left_about(NOW)
        assert seconds is not None
        assert about is not None
        low, high = about
        assert low < seconds < high
        spans.append((high - low) / seconds)
    assert spans[1] < spans[0]


@pytest.mark.parametrize(
    "target",
    [playing(FEWEST_TO_JUDGE, 40, 1.0), playing(20, 0, 1.0), TargetProgress()],
    ids=["too few", "nothing left", "nothing yet"],
)
def test_what_cannot_be_told_is_not_said(target: TargetProgress) -> None:
    assert target.seconds_left_about(NOW) is None


def test_what_lies_too_far_back_says_nothing_about_the_pace() -> None:
    target = playing(20, 40, 1.0)
    assert target.seconds_left_about(NOW) is not None
    assert target.seconds_left_about(NOW + 2 * RATE_WINDOW) is None


def test_a_first_one_says_nothing_about_the_pace_as_nobody_knows_how_long_it_took() -> None:
    assert playing(1, 40, 1.0).seconds_left(NOW) is None
    assert playing(2, 40, 10.0).seconds_left(NOW) == 400.0


def test_what_has_all_begun_ends_together_so_the_pace_of_endings_says_nothing() -> None:
    target = playing(20, 40, 1.0)
    target.simulate.queued, target.simulate.running = 0, 40
    assert target.seconds_left(NOW) is None
    assert target.seconds_left_about(NOW) is None
