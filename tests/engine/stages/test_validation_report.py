"""What two sides of a validation run say about each other."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import hypot, sqrt

import pytest

from engine.analysis.number_words import signed_points
from engine.analysis.sections import Sentence
from engine.analysis.validation import SideOutcome, ValidationSide, validation_report
from engine.analysis.validation_figures import (
    ALL_TARGETS,
    OrderChange,
    ReorderedPair,
    ValidationReport,
)
from engine.analysis.validation_words import NOT_STATED, floor_words, validation_sections
from engine.benchmark import ConversationKey, Role, Track
from engine.branches import Branch
from engine.statistics.clusters import Cluster
from engine.statistics.rates import benchmark_rate
from tests.approval import approve

Passing = Mapping[str, Sequence[int]]
"""target -> of each base scenario, how many of its 4 rows pass"""

JUDGES = Branch("own-view", Role.EVALUATOR, "other")
WRITERS = Branch("own-view", Role.GENERATOR, "other")


def side(passing: Passing, model: str = "m", track: Track = Track.POSITIVE) -> ValidationSide:
    return ValidationSide(
        model,
        [
            SideOutcome(
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


def report(
    before: Passing, after: Passing, swap: Branch = JUDGES, *, bound: float | None = 0.1
) -> ValidationReport:
    return validation_report(swap, side(before, "old"), side(after, "new"), bound=bound)


HIGH, MIDDLE, LOW = [4, 3] * 5, [2, 3] * 5, [0, 1] * 5
MANY = 48
APART = {"a": [4, 3] * MANY, "b": [1, 0] * MANY}
NEAR = {"a": [2] * (MANY * 4 - 1) + [3], "b": [2] * (MANY * 4)}


def unscored() -> ValidationReport:
    rows = [
        SideOutcome(one.key, one.metric_id, one.track, None) for one in side({"a": HIGH}).results
    ]
    return validation_report(
        JUDGES, ValidationSide("old", rows), ValidationSide("new", rows), bound=0.1
    )


CASES: Mapping[str, Callable[[], ValidationReport]] = {
    "an order that stays": lambda: report({"a": HIGH, "b": LOW}, {"a": HIGH, "b": LOW}),
    "an order that holds within its bound": lambda: report(APART, APART),
    "the same, with no bound stated": lambda: report(APART, APART, bound=None),
    "an order that turns by little": lambda: report(NEAR, {"a": NEAR["b"], "b": NEAR["a"]}),
    "two that turn": lambda: report({"a": HIGH, "b": LOW}, {"a": LOW, "b": HIGH}),
    "two that come level, and two that part": lambda: report(
        {"a": HIGH, "b": LOW, "c": LOW}, {"a": HIGH, "b": HIGH, "c": LOW}
    ),
    "all alike before": lambda: report({"a": HIGH, "b": HIGH}, {"a": HIGH, "b": LOW}),
    "one target": lambda: report({"a": HIGH}, {"a": LOW}),
    "rows that one side lacks": lambda: report(
        {"a": HIGH, "b": LOW, "c": LOW}, {"a": HIGH[:4], "b": LOW}
    ),
    "a shift that is sure, and one that is not": lambda: report(
        {"a": [4, 3] * MANY, "b": [3, 2] * MANY}, {"a": [2, 1] * MANY, "b": [3, 2] * MANY}
    ),
    "other scenarios": lambda: report({"a": HIGH, "b": LOW}, {"a": LOW, "b": HIGH}, WRITERS),
    "few scenarios, and a script": lambda: validation_report(
        JUDGES,
        side({"a": [4, 3], "b": [1, 0]}),
        side({"a": [4, 2], "b": [1, 0]}),
        scripted=["offline:x", "offline:x"],
    ),
    "a single scenario": lambda: report({"a": [4], "b": [0]}, {"a": [0], "b": [4]}),
    "nothing scored": unscored,
    "no replay": lambda: validation_report(
        JUDGES,
        side({"a": HIGH, "b": LOW}),
        side({"a": LOW, "b": LOW}),
        replay_costs="80 calls, about $1.20",
    ),
    "several judges": lambda: validation_report(
        Branch("own-view", Role.EVALUATOR, None),
        side({"a": [4, 3] * MANY, "b": [3, 2] * MANY}, "x and y"),
        side({"a": [2, 1] * MANY, "b": [1, 0] * MANY}, "x and y"),
    ),
}


def test_reports_read_as_approved() -> None:
    told = (f"# {name}\n" + "\n".join(make().says) for name, make in CASES.items())
    approve("\n\n".join(told))


def test_where_all_rests_on_one_scenario_or_on_none_nothing_is_marked() -> None:
    nothing = unscored()
    assert (list(nothing.tracks), nothing.family, nothing.agreement) == ([], 0, None)
    one = report({"a": [4], "b": [0]}, {"a": [0], "b": [4]})
    [track] = one.tracks
    assert one.family == 0
    assert not any(shift.sure for shift in (track.together, *track.shifts))


def test_an_order_that_stays_is_said_to_stay() -> None:
    found = report({"a": HIGH, "b": MIDDLE, "c": LOW}, {"a": HIGH, "b": MIDDLE, "c": LOW})
    [track] = found.tracks
    assert track.tau_b is not None
    assert track.tau_b.value == 1
    assert (list(track.changed), track.pairs, track.base_scenarios) == ([], 3, 10)
    assert [shift.target for shift in track.shifts] == ["a", "b", "c"]
    assert found.flips is not None
    assert (found.flips.left_only, found.flips.right_only) == (0, 0)
    assert (track.tau_b.scenarios, track.rho and track.rho.scenarios) == (None, None)
    assert not any("too few" in sentence for sentence in found.says)


def test_two_targets_that_change_places_turn() -> None:
    found = report({"a": HIGH, "b": LOW}, {"a": LOW, "b": HIGH})
    [track] = found.tracks
    assert track.tau_b is not None
    assert track.tau_b.value == -1
    assert list(track.changed) == [ReorderedPair("a", "b", OrderChange.TURNS)]
    first, second = track.shifts
    assert first.target == "a"
    assert (first.shift, second.shift) == pytest.approx((-0.75, 0.75))
    assert first.rows == 40
    assert found.flips is not None
    assert (found.flips.both, found.flips.left_only, found.flips.right_only) == (10, 30, 30)


def test_a_shift_of_paired_rows_has_an_interval_over_base_scenarios() -> None:
    found = report({"a": [4] * 10, "b": LOW}, {"a": [4, 3] * 5, "b": LOW})
    a = found.tracks[0].shifts[0]
    assert a.shift == pytest.approx(-0.125)
    assert a.interval is not None
    # ten differences of 0 and -1/4 in turn, of 4 pairs each: error 0.0416667, 9 degrees; 5 of 40
    # pairs differ by 1 and none is like its neighbours: 6 degrees of that, over a design effect of
    # 1.3; one of two targets has a quarter of the 5%, so that t(13) = 2.896148
    expected, prior = (5 - 0.4 * 40 * 0.125**2 + 0.33) / 40.33 / 40, 6 / 1.3
    half = 2.896148 * sqrt((9 * 0.0416667**2 + prior * expected) / (9 + prior))
    assert a.interval.low == pytest.approx(-0.125 - half, abs=1e-6)
    assert a.interval.high == pytest.approx(-0.125 + half, abs=1e-6)


def test_a_target_that_does_not_move_is_not_certain_to_stay() -> None:
    found = report({"a": [4] * 10, "b": LOW}, {"a": [4, 3] * 5, "b": LOW})
    b = found.tracks[0].shifts[1]
    assert b.shift == 0
    assert b.interval is not None
    # no likeness can be seen, so that each base scenario counts as one pair, half of which differs
    assert b.interval.high == -b.interval.low == pytest.approx(2.896148 * sqrt(0.5) / 10)


def test_rows_that_one_side_lacks_are_not_compared() -> None:
    before, after = side({"a": HIGH, "b": LOW, "c": LOW}), side({"a": HIGH[:4], "b": LOW})
    found = validation_report(JUDGES, before, after)
    [track] = found.tracks
    assert [(shift.target, shift.rows) for shift in track.shifts] == [("a", 16), ("b", 40)]
    assert found.conversations == 56
    assert list(track.left_out) == ["c"]


def test_an_unscored_row_is_no_agreement_and_is_counted() -> None:
    before = side({"a": HIGH, "b": LOW})
    rows = list(before.results)
    rows[0] = SideOutcome(rows[0].key, rows[0].metric_id, rows[0].track, None)
    found = validation_report(JUDGES, before, ValidationSide("new", rows))
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
    level = 0.05 / 2 / 2  # half of it is for single targets, of which there are two
    high, low = now.interval_at(level).high, then.interval_at(level).low
    assert high > now.interval.high
    above = hypot(high - now.rate, then.rate - low)
    assert shift.interval.high == pytest.approx(-0.75 + above)


def test_a_target_that_always_passes_on_both_sides_may_still_have_moved() -> None:
    found = report({"a": [4] * 3, "b": LOW}, {"a": [4] * 3, "b": HIGH}, WRITERS)
    shift = found.tracks[0].shifts[0]
    assert (shift.target, shift.shift) == ("a", 0)
    assert shift.interval is not None
    assert shift.interval.low < -0.1 < 0.1 < shift.interval.high


# What is marked, and what is said of it


def test_a_sure_shift_is_said_in_points_and_one_that_is_not_is_said_to_be_open() -> None:
    before = {"a": [4, 3] * MANY, "b": [3, 2] * MANY}
    found = report(before, {"a": [2, 1] * MANY, "b": [3, 2] * MANY})
    [track] = found.tracks
    together = track.together
    assert (together.target, together.rows, together.base_scenarios) == (ALL_TARGETS, 768, 96)
    assert together.shift == pytest.approx(-0.25)
    assert together.interval is not None
    low, high = (round(abs(end) * 100) for end in (together.interval.high, together.interval.low))
    lowers = f"new as evaluator lowers positive passes by 25 points [{low} to {high}]."
    assert lowers in found.says
    assert [shift.sure for shift in track.shifts] == [True, False]


def test_all_shifts_of_a_run_are_one_family() -> None:
    before, after = side({"a": HIGH, "b": LOW}), side({"a": HIGH, "b": LOW})
    other = [
        side({"a": MIDDLE, "b": LOW}, track=Track.NEGATIVE).results,
        side({"a": LOW, "b": LOW}, track=Track.NEGATIVE).results,
    ]
    one = validation_report(JUDGES, before, after)
    both = validation_report(
        JUDGES,
        ValidationSide("m", [*before.results, *other[0]]),
        ValidationSide("m", [*after.results, *other[1]]),
    )
    assert (one.family, both.family) == (3, 6)
    narrow, wide = one.tracks[0].shifts[0].interval, both.tracks[0].shifts[0].interval
    assert narrow is not None
    assert wide is not None
    assert wide.width > narrow.width
    for track in both.tracks:
        for shift in (track.together, *track.shifts):
            assert shift.p is not None
            assert shift.sure is (shift.p < 0.05)


def test_an_order_holds_only_within_a_bound_that_was_stated_and_is_shown() -> None:
    same = {"a": [4, 3] * MANY, "b": [1, 0] * MANY}
    found = report(same, same)
    assert found.tracks[0].order_holds
    unstated = report(same, same, bound=None)
    assert not unstated.tracks[0].order_holds
    assert NOT_STATED in unstated.says[0]
    few = {"a": HIGH * 2, "b": LOW * 2}
    open_ = report(few, few)
    [track] = open_.tracks
    assert track.equivalence is not None
    assert track.equivalence.outside is not None
    assert (track.equivalence.outside.left, track.order_holds) == ("a", False)


def test_a_bound_is_held_to_by_runs_that_share_no_scenario_as_well() -> None:
    same = {"a": [2] * (MANY * 2), "b": [2] * (MANY * 2)}
    rates = {"a": [4, 2] * MANY, "b": [0, 2] * MANY}
    assert report(rates, rates, WRITERS, bound=0.3).tracks[0].order_holds
    assert not report(rates, rates, WRITERS, bound=0.05).tracks[0].order_holds
    assert report(same, same, WRITERS).tracks[0].tau_b is None


def test_a_swap_is_told_beside_what_a_replay_gives() -> None:
    before, after = side({"a": HIGH, "b": LOW}, "old"), side({"a": LOW, "b": LOW}, "new")
    once_more = side({"a": HIGH, "b": MIDDLE}, "old")
    replay = validation_report(
        Branch("own-view", Role.EVALUATOR, None), before, once_more, bound=0.1
    )
    found = validation_report(JUDGES, before, after, replay=replay, replay_costs="unused")
    assert found.floor is not None
    assert found.floor.agreement == replay.agreement
    [beside] = floor_words(found)
    approve(beside)
    [order] = floor_words(found, Track.POSITIVE)
    assert "Kendall's tau-b 1.00" in order
    alone = re.compile(r"A replay alone moves them by (−?\d+) points \[−?\d+ to −?\d+\]\.")
    [moved] = {match for one in found.says for match in alone.findall(one)}
    [track] = replay.tracks
    assert moved == signed_points(track.together.shift).lstrip("+")
    assert not any("--replay" in one for one in found.says)
    assert not list(floor_words(replay))


def test_a_hundred_targets_are_compared() -> None:
    passing = {f"t{number:03d}": [4 if number % 2 else 3, 2, 0] for number in range(100)}
    found = report(passing, passing)
    assert found.tracks[0].pairs == 4950
    assert found.family == 101
    assert not any(shift.sure for shift in found.tracks[0].shifts)
    [section, *_] = validation_sections(found)
    texts = [block.text for block in section.blocks if isinstance(block, Sentence)]
    assert any(text.startswith("For other targets like these: tau-b") for text in texts)
