"""Rates and differences of several benchmarks put into one."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from random import Random

import pytest

from engine.statistics.distributions import Interval, student_quantile
from engine.statistics.paired import Difference
from engine.statistics.rates import (
    ENOUGH_BENCHMARKS,
    like_these,
    like_these_interval,
    mean_interval,
    mean_of,
)

ONE = Difference(0.2, 0.05, 12, 40, 10)
LONE = Difference(0.9, None, 0, 4, 1)


def spread(count: int, between: float) -> list[Difference]:
    chance = Random(count)
    return [replace(ONE, estimate=chance.gauss(0.2, between)) for _ in range(count)]


def test_the_mean_of_one_is_that_one() -> None:
    assert mean_of([ONE]) == ONE
    interval = mean_interval([0.3], [Interval(0.1, 0.6)])
    assert (interval.low, interval.high) == pytest.approx((0.1, 0.6))


def test_errors_are_squared_and_added_and_freedom_grows_with_what_is_alike() -> None:
    found = mean_of([ONE, ONE, ONE, ONE])
    assert found is not None
    assert found.error == pytest.approx(0.05 / 2)
    assert (found.freedom, found.pairs, found.clusters) == (48, 160, 40)
    uneven = mean_of([ONE, replace(ONE, error=0.5, freedom=3)])
    assert uneven is not None
    assert uneven.freedom == 3


def test_an_interval_of_a_mean_is_as_lopsided_as_those_it_is_made_of() -> None:
    found = mean_interval([1.0, 1.0], [Interval(0.6, 1.0), Interval(0.7, 1.0)])
    assert found.high == 1.0
    assert found.low == pytest.approx(1 - sqrt(0.4**2 + 0.3**2) / 2)


def test_a_benchmark_without_an_error_is_left_out_of_the_mean() -> None:
    assert mean_of([ONE, LONE]) == ONE
    assert mean_of([LONE]) is None
    assert mean_of([]) is None
    assert like_these([*spread(ENOUGH_BENCHMARKS - 1, 0.1), LONE]) is None


def test_of_others_like_them_nothing_is_said_before_there_are_enough() -> None:
    few = spread(ENOUGH_BENCHMARKS - 1, 0.1)
    assert like_these(few) is None
    assert like_these_interval([one.estimate for one in few], 100) is None
    assert like_these(spread(ENOUGH_BENCHMARKS, 0.1)) is not None


def test_benchmarks_are_the_clusters_of_what_is_said_of_others_like_them() -> None:
    drawn = spread(6, 0.3)
    found = like_these(drawn)
    assert found is not None
    assert found.error is not None
    mean = sum(one.estimate for one in drawn) / 6
    assert found.estimate == pytest.approx(mean)
    own = sqrt(sum((one.estimate - mean) ** 2 for one in drawn) / 5 / 6)
    assert found.error == pytest.approx(own)
    interval = found.interval_at(0.01)
    assert interval is not None
    assert interval.high - mean == pytest.approx(student_quantile(0.995, 5) * own)


def test_benchmarks_that_happen_to_agree_are_not_taken_to_be_all_alike() -> None:
    drawn = [ONE] * ENOUGH_BENCHMARKS
    here, beyond = mean_of(drawn), like_these(drawn)
    assert here is not None
    assert beyond is not None
    assert beyond.error == here.error
    assert beyond.freedom == ENOUGH_BENCHMARKS - 1
    rates = like_these_interval([0.5] * ENOUGH_BENCHMARKS, 50)
    assert rates is not None
    assert rates.width > 0.2
    certain = like_these_interval([1.0] * ENOUGH_BENCHMARKS, 500)
    assert certain is not None
    assert certain.low < 0.6
