"""Figures that anybody can look up or work out by hand."""

from __future__ import annotations

import pytest

from engine.statistics import (
    agreement,
    effective_size,
    headline,
    intraclass_correlation,
    wilson,
)

PAIRS = [[True, True], [False, True], [False, False], [True, True], [True, False], [True, True]]
ALIKE = [[True, True], [False, False], [True, True], [False, False]]


@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        (0, 6, 0, 0.390334),
        (5, 6, 0.436497, 0.969947),
        (6, 6, 0.609666, 1),
        (81, 100, 0.722212, 0.874852),
        (0, 30, 0, 0.113513),
    ],
)
def test_wilson_gives_the_published_limits(passed: int, n: int, low: float, high: float) -> None:
    interval = wilson(passed / n, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-6)


def test_no_observation_leaves_everything_open() -> None:
    assert (wilson(0.0, 0).low, wilson(0.0, 0).high) == (0.0, 1.0)


def test_pairs_that_are_half_alike_count_for_less_than_they_are() -> None:
    correlation = intraclass_correlation([PAIRS])
    effective = effective_size([2] * 6, correlation)
    interval = wilson(8 / 12, effective)
    assert correlation == pytest.approx(1 / 3)
    assert effective == pytest.approx(9)
    assert (interval.low, interval.high) == pytest.approx((0.354202, 0.879417), abs=1e-6)


def test_rows_that_only_repeat_their_scenario_count_once() -> None:
    assert intraclass_correlation([ALIKE]) == 1
    assert effective_size([2] * 4, 1.0) == 4


def test_a_difference_between_cells_is_not_likeness_within_them() -> None:
    easy = [[True, True], [True, False], [True, True], [False, True]]
    hard = [[not one for one in cluster] for cluster in easy]
    assert intraclass_correlation([easy, hard]) == intraclass_correlation([easy]) == 0
    assert intraclass_correlation([[*easy, *hard]]) > 0


def test_one_row_a_scenario_has_no_likeness_to_estimate() -> None:
    assert intraclass_correlation([[[True], [False], [True]]]) == 0


@pytest.mark.parametrize(
    ("votes", "counts"),
    [
        ([], None),
        ([None], None),
        ([True], True),
        ([True, False], None),
        ([True, False, False], False),
    ],
)
def test_the_majority_counts_and_a_tie_does_not(
    votes: list[bool | None], counts: bool | None
) -> None:
    assert headline(votes) is counts


def test_agreement_is_over_what_was_answered_at_least_twice() -> None:
    ratings = ["111", "110", "000", "100", "111", "000", "111", "010", "111", "110"]
    found = agreement([[char == "1" for char in row] for row in [*ratings, "1"]])
    assert found is not None
    assert found.items == 10
    assert found.percent == pytest.approx(0.733333, abs=1e-6)
    assert found.unanimous == 0.6
    assert agreement([[True], [None, False]]) is None
