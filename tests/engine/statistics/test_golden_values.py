"""Figures that anybody can look up or work out by hand."""

from __future__ import annotations

import pytest

from engine.statistics.agreement import agreement
from engine.statistics.clusters import (
    Cluster,
    clustered_error,
    design_effect,
    effective_size,
    intraclass_correlation,
)
from engine.statistics.distributions import Interval, critical, student_quantile, wilson
from engine.statistics.ranks import kendall_tau_b, spearman_rho

PAIRS = [Cluster.of(pair) for pair in [(1, 1), (0, 1), (0, 0), (1, 1), (1, 0), (1, 1)]]
RATINGS = ["111", "110", "000", "100", "111", "000", "111", "010", "111", "110"]
FIRST = [0.81, 0.72, 0.72, 0.64, 0.55, 0.49]
SECOND = [0.78, 0.74, 0.70, 0.61, 0.60, 0.44]


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def read(rows: list[str]) -> list[list[bool | None]]:
    """`-` is an answer that is missing."""
    return [[None if char == "-" else char == "1" for char in row] for row in rows]


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
    assert ends(wilson(passed / n, n)) == pytest.approx((low, high), abs=1e-6)


def test_no_observation_leaves_everything_open() -> None:
    assert wilson(0.0, 0) == Interval(0.0, 1.0)


def test_pairs_that_are_a_third_alike_count_for_less_than_they_are() -> None:
    correlation = intraclass_correlation([PAIRS])
    assert correlation is not None
    assert correlation == pytest.approx(1 / 3)
    assert design_effect([2] * 6, correlation) == pytest.approx(1.333333, abs=1e-6)
    assert effective_size([2] * 6, correlation) == pytest.approx(9)
    assert ends(wilson(8 / 12, 9)) == pytest.approx((0.354202, 0.879417), abs=1e-6)
    assert ends(wilson(8 / 12, 9, critical(5))) == pytest.approx((0.281366, 0.910845), abs=1e-6)


def test_the_clustered_error_has_its_correction_for_few_clusters() -> None:
    found = clustered_error(PAIRS)
    assert found is not None
    assert found.error == pytest.approx(0.166667, abs=1e-6)
    assert found.freedom == 5


def test_the_quantile_of_t_is_that_of_the_tables() -> None:
    assert student_quantile(0.975, 5) == pytest.approx(2.570582, abs=1e-6)


def test_three_raters_of_ten_things_agree_as_published() -> None:
    found = agreement(read(RATINGS))
    assert found is not None
    assert found.things == 10
    assert found.percent.value == pytest.approx(0.733333, abs=1e-6)
    assert found.unanimous.value == pytest.approx(0.6)
    assert found.kappa is not None
    assert found.kappa.value == pytest.approx(0.444444, abs=1e-6)
    assert found.alpha is not None
    assert found.alpha.value == pytest.approx(0.462963, abs=1e-6)
    assert found.ac1 is not None
    assert found.ac1.value == pytest.approx(0.487179, abs=1e-6)


def test_alpha_bears_missing_answers_and_kappa_does_not() -> None:
    holed = [*RATINGS]
    holed[1], holed[3] = "11-", "-00"
    found = agreement(read(holed))
    assert found is not None
    assert found.alpha is not None
    assert found.alpha.value == pytest.approx(0.711230, abs=1e-6)
    assert found.kappa is None


def test_ranks_with_ties_correlate_as_published() -> None:
    assert spearman_rho(FIRST, SECOND) == pytest.approx(0.985611, abs=1e-6)
    assert kendall_tau_b(FIRST, SECOND) == pytest.approx(0.966092, abs=1e-6)


def test_three_answers_that_agree_by_chance_say_more_of_alpha_than_two() -> None:
    """48 things have every pattern as often as two coins, or three, show it."""
    two = [(a, b) for a in (True, False) for b in (True, False)] * 12
    three = [(*pair, c) for pair in two[:24] for c in (True, False)]
    wide, narrow = agreement(two), agreement(three)
    assert wide is not None
    assert narrow is not None
    assert len(two) == len(three) == 48
    before, after = wide.alpha, narrow.alpha
    assert before is not None
    assert after is not None
    assert before.interval is not None
    assert after.interval is not None
    assert after.interval.width < 0.7 * before.interval.width
