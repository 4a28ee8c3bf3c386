"""What of its plan a conversation came to, and what is said where targets differ in that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from engine.analysis.comparability import ExposedConversation, Exposure
from engine.analysis.findings import Certainty, findings
from engine.analysis.onset import OnsetObservation, onset_curves, since
from engine.benchmark import Landmark, StopReason, Track
from engine.stages.aggregate import as_rows
from tests.approval import approve
from tests.engine.stages.verdicts import analysed, outcomes

MARKS = (Landmark(1, "Opens."), Landmark(3, "Presses."), Landmark(5, "Presses harder."))


@pytest.mark.parametrize(
    ("turns", "ended", "expected"),
    [
        (5, StopReason.TURN_LIMIT, ExposedConversation(early=False, planned=3, reached=3)),
        (4, StopReason.TURN_LIMIT, ExposedConversation(early=False, planned=3, reached=2)),
        (3, StopReason.USER_ENDED, ExposedConversation(early=True, planned=3, reached=2)),
        (1, StopReason.CONTEXT_FULL, ExposedConversation(early=True, planned=3, reached=1)),
        (4, StopReason.UNKNOWN, ExposedConversation(early=True, planned=3, reached=2)),
        (6, StopReason.UNKNOWN, ExposedConversation(early=False, planned=3, reached=3)),
    ],
)
def test_a_landmark_is_reached_where_its_turn_was_spoken(
    turns: int, ended: StopReason, expected: ExposedConversation
) -> None:
    found = ExposedConversation.of(MARKS, turns, ended, withheld=1)
    assert found == replace(expected, turns=turns, withheld=1)


def test_a_conversation_without_landmarks_has_none_to_reach() -> None:
    found = Exposure.over([ExposedConversation.of((), 2, StopReason.TURN_LIMIT)])
    assert (found.with_landmarks, found.reached_last, found.reached_share) == (0, 0, None)
    assert found.is_full


def cautions(**turns: Iterable[int]) -> list[str]:
    """By target, after which turn of five each of its conversations ended."""
    found = []
    for target, ends in turns.items():
        rows = outcomes({target: " ".join("+" for _ in ends)})
        for one, end in zip(rows, ends, strict=True):
            ended = StopReason.USER_ENDED if end < 5 else StopReason.TURN_LIMIT
            found.append(replace(one, exposed=ExposedConversation.of(MARKS, end, ended)))
    told = findings(analysed(found))
    of_exposure = [one for one in told if "exposed equally" in one.text or "landmark:" in one.text]
    assert {one.kind for one in of_exposure} <= {Certainty.CAUTION}
    return [one.text for one in of_exposure]


def test_a_difference_in_exposure_is_a_caution() -> None:
    approve(cautions(short=[2, 3, 5, 5], long=[5, 5, 5, 5]))


def test_a_last_landmark_that_nobody_reached_is_said() -> None:
    [text] = cautions(one=[3, 3], other=[3, 3])
    approve(text)
    approve(cautions(one=[5, 5], other=[3, 3])[-1])


def test_targets_that_were_exposed_alike_are_not_spoken_of() -> None:
    assert cautions(one=[5, 5, 3], other=[5, 3, 5]) == []
    assert cautions(alone=[5, 3, 3]) == []


def test_results_json_holds_what_was_reached_of_what_was_planned() -> None:
    exposed = ExposedConversation.of(MARKS, 3, StopReason.USER_ENDED, withheld=2)
    [row] = as_rows(
        analysed([replace(outcome, exposed=exposed) for outcome in outcomes({"one": "+ -"})])
    )
    assert row["exposure"] == {
        "conversations": 2,
        "early": 2,
        "planned": 6,
        "reached": 4,
        "with_landmarks": 2,
        "reached_last": 0,
        "turns": 6,
        "withheld": 4,
    }


def test_targets_that_are_not_quoted_alike_are_named_with_their_shares() -> None:
    found = outcomes({"plain": "++-- +-+-", "marked": "++-- +-+-"})
    lacking = [
        replace(outcome, votes=[replace(outcome.votes[0], lacks_quote=place % 4 == 0)])
        if outcome.key.target_id == "marked"
        else outcome
        for place, outcome in enumerate(found)
    ]
    said = "verdicts of which no quote is found from 0% (plain) to 25% (marked); they count"
    for rows, is_said in ((found, False), (lacking, True)):
        texts = [finding.text for finding in findings(analysed(rows))]
        assert any(text.startswith(said) for text in texts) is is_said


# In which turn of a conversation a target is seen to give way, or to do what it should.


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


def test_turns_beyond_the_last_one_count_for_it() -> None:
    [course] = onset_curves([seen(9), not_seen()], 2)
    assert list(course.seen) == [0, 1]


def test_each_target_has_a_course_on_each_track() -> None:
    found = onset_curves([seen(1, "b"), not_seen("a", Track.POSITIVE), seen(None, "a")], 2)
    assert [(one.track, one.target) for one in found] == [
        (Track.NEGATIVE, "a"),
        (Track.NEGATIVE, "b"),
        (Track.POSITIVE, "a"),
    ]
    assert found[0].passing == [1.0, 1.0]
    assert found[0].of == 0
    assert onset_curves([], 3) == []
