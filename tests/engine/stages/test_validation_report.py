"""What two sides of a validation run say about each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import hypot, sqrt

import pytest

from engine.analysis.validation import Result, Side, validation_report
from engine.analysis.validation_figures import Pair, Swap, Turn, ValidationReport
from engine.analysis.validation_words import NO_INTERVAL
from engine.benchmark import ConversationKey, Role, Track
from engine.statistics.clusters import Cluster
from engine.statistics.rates import benchmark_rate

Passing = Mapping[str, Sequence[int]]
"""target -> of each base scenario, how many of its 4 rows pass"""

JUDGES = Swap("own-view", Role.EVALUATOR, "other")
WRITERS = Swap("own-view", Role.GENERATOR, "other")


def side(passing: Passing, model: str = "m", track: Track = Track.POSITIVE) -> Side:
    return Side(
        model,
        [
            Result(
                ConversationKey(f"m01_s{base:03d}_v{row + 1:02d}", target),
                "m01",
                track,
                row < passed,
            )
            for target, bases in passing.items()
            for base, passed in enumerate(bases, 1)
            for row in range(4)
        ],
    )


def report(before: Passing, after: Passing, swap: Swap = JUDGES) -> ValidationReport:
    return validation_report(swap, side(before, "old"), side(after, "new"))


HIGH, MIDDLE, LOW = [4, 3] * 5, [2, 3] * 5, [0, 1] * 5


def test_an_order_that_stays_is_said_to_stay() -> None:
    found = report({"a": HIGH, "b": MIDDLE, "c": LOW}, {"a": HIGH, "b": MIDDLE, "c": LOW})
    [track] = found.tracks
    assert track.tau_b is not None
    assert track.tau_b.value == 1
    assert (list(track.changed), track.pairs, track.base_scenarios) == ([], 3, 10)
    assert [one.target for one in track.shifts] == ["a", "b", "c"]
    assert found.flips is not None
    assert (found.flips.left_only, found.flips.right_only) == (0, 0)
    assert "stays as it was when new judges" in found.says[0]
    assert (track.tau_b.scenarios, track.rho and track.rho.scenarios) == (None, None)
    assert NO_INTERVAL in found.says[0]
    assert any("3 targets have 6 possible orders" in sentence for sentence in found.says)
    assert not any("too few" in sentence for sentence in found.says)


def test_two_targets_that_change_places_turn() -> None:
    found = report({"a": HIGH, "b": LOW}, {"a": LOW, "b": HIGH})
    [track] = found.tracks
    assert track.tau_b is not None
    assert track.tau_b.value == -1
    assert list(track.changed) == [Pair("a", "b", Turn.TURNS)]
    first, second = track.shifts
    assert first.target == "a"
    assert (first.shift, second.shift) == pytest.approx((-0.75, 0.75))
    assert first.rows == 40
    assert found.flips is not None
    assert (found.flips.both, found.flips.left_only, found.flips.right_only) == (10, 30, 30)
    assert "1 of 1 pairs of targets change order" in found.says[0]
    assert any("A ranking of two can only stay or turn" in sentence for sentence in found.says)


def test_a_shift_of_paired_rows_has_an_interval_over_base_scenarios() -> None:
    found = report({"a": [4] * 10, "b": LOW}, {"a": [4, 3] * 5, "b": LOW})
    a = found.tracks[0].shifts[0]
    assert a.shift == pytest.approx(-0.125)
    assert a.interval is not None
    # ten differences of 0 and -1/4 in turn, of 4 pairs each: error 0.0416667, 9 degrees; 5 of 40
    # pairs differ by 1 and none is like its neighbours: 6 degrees of that; t(15) = 2.131450
    expected = (5 - 0.4 * 40 * 0.125**2 + 0.33) / 40.33 / 40
    half = 2.131450 * sqrt((9 * 0.0416667**2 + 6 * expected) / 15)
    assert a.interval.low == pytest.approx(-0.125 - half, abs=1e-6)
    assert a.interval.high == pytest.approx(-0.125 + half, abs=1e-6)


def test_a_target_that_does_not_move_is_not_certain_to_stay() -> None:
    found = report({"a": [4] * 10, "b": LOW}, {"a": [4, 3] * 5, "b": LOW})
    b = found.tracks[0].shifts[1]
    assert b.shift == 0
    assert b.interval is not None
    # no likeness can be seen, so that each base scenario counts as one pair, half of which differs
    assert b.interval.high == -b.interval.low == pytest.approx(2.131450 * sqrt(0.5) / 10)


def test_targets_that_come_level_or_part_are_told_from_those_that_turn() -> None:
    found = report({"a": HIGH, "b": LOW, "c": LOW}, {"a": HIGH, "b": HIGH, "c": LOW})
    assert set(found.tracks[0].changed) == {
        Pair("a", "b", Turn.LEVELS),
        Pair("b", "c", Turn.PARTS),
    }
    assert "0 of 3 pairs of targets change order, 2 more are level on one side" in found.says[0]


def test_where_all_are_alike_there_is_no_order_to_keep() -> None:
    found = report({"a": HIGH, "b": HIGH}, {"a": HIGH, "b": LOW})
    assert found.tracks[0].tau_b is None
    assert "there is no order to keep" in found.says[0]


def test_rows_that_one_side_lacks_are_not_compared() -> None:
    before, after = side({"a": HIGH, "b": LOW, "c": LOW}), side({"a": HIGH[:4], "b": LOW})
    found = validation_report(JUDGES, before, after)
    [track] = found.tracks
    assert [(one.target, one.rows) for one in track.shifts] == [("a", 16), ("b", 40)]
    assert found.conversations == 56
    assert list(track.left_out) == ["c"]
    assert "Not compared on positive metrics, for want of verdicts: c." in found.says


def test_an_unscored_row_is_no_agreement_and_is_counted() -> None:
    before = side({"a": HIGH, "b": LOW})
    rows = list(before.results)
    rows[0] = Result(rows[0].key, rows[0].metric_id, rows[0].track, None)
    found = validation_report(JUDGES, before, Side("new", rows))
    assert (found.conversations, found.unscored_before, found.unscored_after) == (79, 0, 1)


def test_other_scenarios_are_compared_by_their_rates_and_never_row_by_row() -> None:
    found = report({"a": HIGH, "b": LOW}, {"a": LOW, "b": HIGH}, WRITERS)
    [track] = found.tracks
    assert (found.conversations, found.agreement, found.flips) == (0, None, None)
    shift = track.shifts[0]
    assert shift.shift == pytest.approx(-0.75)
    assert shift.p is None
    assert shift.interval is not None
    then, now = (
        benchmark_rate([[Cluster.passing(passed, 4) for passed in pictures]], 0.0)
        for pictures in (HIGH, LOW)
    )
    assert then is not None
    assert now is not None
    above = hypot(now.interval.high - now.rate, then.rate - then.interval.low)
    assert shift.interval.high == pytest.approx(-0.75 + above)
    assert any("Only the order of the targets can be compared" in one for one in found.says)


def test_a_target_that_always_passes_on_both_sides_may_still_have_moved() -> None:
    found = report({"a": [4] * 3, "b": LOW}, {"a": [4] * 3, "b": HIGH}, WRITERS)
    shift = found.tracks[0].shifts[0]
    assert (shift.target, shift.shift) == ("a", 0)
    assert shift.interval is not None
    assert shift.interval.low < -0.1 < 0.1 < shift.interval.high


def test_nothing_is_said_of_an_order_without_two_targets() -> None:
    found = report({"a": HIGH}, {"a": LOW})
    assert list(found.tracks) == []
    assert "nothing can be said" in found.says[0]


def test_too_few_scenarios_and_scripted_models_are_said() -> None:
    before, after = side({"a": [4, 3], "b": [1, 0]}), side({"a": [4, 2], "b": [1, 0]})
    found = validation_report(JUDGES, before, after, scripted=["offline:x", "offline:x"])
    assert any("rests on 2 base scenarios: too few for a ranking" in one for one in found.says)
    assert found.says[-1] == "Scripted models took part and are no language models: offline:x."
