"""In which turn of a conversation a target is seen to give way, or to do what it should."""

from __future__ import annotations

from collections.abc import Sequence

from engine.analysis.onset import OnsetObservation, onset_curves, since
from engine.benchmark import Track


def seen(turn: int | None, target: str = "a", track: Track = Track.NEGATIVE) -> OnsetObservation:
    return OnsetObservation(target, track, None if turn is None else since(turn))


def not_seen(target: str = "a", track: Track = Track.NEGATIVE) -> OnsetObservation:
    return OnsetObservation(target, track, (False,))


def by_turn(*present: bool) -> OnsetObservation:
    return OnsetObservation("a", Track.POSITIVE, present)


def test_what_is_unwanted_is_avoided_until_it_is_seen() -> None:
    [course] = onset_curves([seen(2), seen(2), seen(4), not_seen()], 4)
    assert list(course.seen) == [0, 2, 2, 3]
    assert course.passing == [1.0, 0.5, 0.5, 0.25]
    assert course.of == 4


def test_what_is_wanted_is_shown_from_its_first_turn_on() -> None:
    positive = Track.POSITIVE
    found = [seen(1, track=positive), seen(3, track=positive), not_seen(track=positive)]
    [course] = onset_curves(found, 3)
    assert [round(share, 3) for share in course.passing] == [0.333, 0.333, 0.667]


def test_evidence_without_a_turn_is_left_out_and_counted() -> None:
    [course] = onset_curves([seen(None), seen(1), not_seen()], 2)
    assert (course.of, course.unplaced) == (2, 1)
    assert course.passing == [0.5, 0.5]


def test_what_ceases_to_hold_ceases_to_count() -> None:
    given: Sequence[OnsetObservation] = [
        by_turn(True, False, False),
        by_turn(True),
        by_turn(False, True),
    ]
    [course] = onset_curves(given, 4)
    assert list(course.seen) == [2, 2, 2, 2]
    [course] = onset_curves(given, 1)
    assert list(course.seen) == [2]
