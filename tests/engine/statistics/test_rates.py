"""What a rate's interval promises, whatever the verdicts are."""

from __future__ import annotations

from itertools import combinations_with_replacement
from random import Random

import pytest

from engine.jury import headline
from engine.statistics.clusters import (
    Cluster,
    collapsed,
    effective_size,
    intraclass_correlation,
    stratified_error,
)
from engine.statistics.design import Assumed, Plan, detectable, smallest_difference
from engine.statistics.paired import PairedCluster, pair_differences
from engine.statistics.rates import (
    benchmark_rate,
    metric_rate,
    new_metrics_rate,
    no_signal,
)
from tests.engine.statistics.random_tables import raised_by_a_failure


def clusters(*passed: int, size: int = 4) -> list[Cluster]:
    return [Cluster.passing(count, size) for count in passed]


MIXED = clusters(4, 2, 3, 0, 4, 1)


@pytest.mark.parametrize("passed", [0, 4])
def test_all_alike_still_leaves_doubt(passed: int) -> None:
    few, many = clusters(*[passed] * 3), clusters(*[passed] * 12)
    for rate in (
        metric_rate(few, None),
        benchmark_rate([few, few], None),
        new_metrics_rate([few, few], None),
    ):
        assert rate is not None
        assert rate.rate == passed / 4
        assert rate.interval.width > 0.1
        assert rate.interval.holds(rate.rate)
    narrow, wide = metric_rate(many, 0.3), metric_rate(few, 0.3)
    assert narrow is not None
    assert wide is not None
    assert narrow.interval.width < wide.interval.width


def test_one_scenario_says_next_to_nothing() -> None:
    rate = metric_rate(clusters(3), 0.2)
    assert rate is not None
    assert rate.clusters == 1
    assert rate.interval.width > 0.9


def test_nothing_scored_is_no_rate() -> None:
    assert metric_rate([], 0.1) is None
    assert benchmark_rate([[], [Cluster.passing(0, 0)]], 0.1) is None
    assert new_metrics_rate([MIXED, []], 0.1) is None, "one metric says nothing of others"


def test_rows_of_one_scenario_count_for_less() -> None:
    alone, alike = metric_rate(MIXED, 0.0), metric_rate(MIXED, 1.0)
    assert alone is not None
    assert alike is not None
    assert 6 < alike.effective < alone.effective <= 24, "its rows are less alike than all, if few"
    assert (alone.passed, alone.scored, alone.clusters) == (14, 24, 6)


def test_metrics_that_differ_narrow_what_is_said_of_them_and_widen_what_is_said_of_others() -> None:
    strata = [clusters(*[4, 4, 4, 3] * 2), clusters(*[0, 1, 0, 0] * 2), clusters(*[2, 2, 3, 2] * 2)]
    pooled = metric_rate([one for stratum in strata for one in stratum], 0.1)
    these, others = benchmark_rate(strata, 0.1), new_metrics_rate(strata, 0.1)
    assert pooled is not None
    assert these is not None
    assert others is not None
    assert these.interval.width < pooled.interval.width < others.interval.width
    assert (these.clusters, others.clusters) == (24, 3)


def test_likeness_is_pooled_and_knows_what_it_cannot_say() -> None:
    easy, hard = clusters(2, 1, 2, 1, size=2), clusters(0, 1, 0, 1, size=2)
    assert intraclass_correlation([easy, hard]) == intraclass_correlation([easy]) == 0
    assert (intraclass_correlation([[*easy, *hard]]) or 0) > 0
    assert intraclass_correlation([clusters(2, 0, 2, 0, size=2)]) == 1
    assert intraclass_correlation([clusters(1, 0, 1, size=1)]) is None, "one row a scenario"
    assert intraclass_correlation([clusters(2, 2, 2, size=2)]) is None, "nothing differs"
    assert intraclass_correlation([]) is None
    assert effective_size([2] * 4, 1.0) == 4
    assert effective_size([], 0.3) == 0


def test_a_stratum_of_one_cluster_is_put_to_another() -> None:
    one, two = clusters(1), clusters(2)
    assert collapsed([one, MIXED, []]) == [[*MIXED, *one]]
    assert collapsed([one, MIXED, two]) == [MIXED, [*one, *two]]
    assert collapsed([one]) == [one]
    assert stratified_error([one]) is None
    found = stratified_error([one, two])
    assert found is not None
    assert found.error == pytest.approx((2 * 2 * 0.5**2) ** 0.5 / 8)


def test_a_metric_that_all_pass_or_none_tells_nothing_apart() -> None:
    found = no_signal(
        {"m1": [(4, 4), (2, 2)], "m2": [(0, 3), (0, 0)], "m3": [(4, 4), (3, 4)], "m4": []}
    )
    assert found == {"m1": True, "m2": False}


def test_a_larger_plan_finds_smaller_differences() -> None:
    plan = Plan.even((10,) * 4, variants=4, samples=2)
    found = smallest_difference(plan)
    assert plan.rows == 320
    assert found is not None
    assert 0.05 < found < 0.3
    among_many = smallest_difference(plan, level=0.05 / 91)
    assert among_many is not None
    assert among_many > 1.3 * found
    larger = smallest_difference(Plan.even((40,) * 4, 4, 2))
    assert larger is not None
    assert larger == pytest.approx(found / 2, rel=0.05)
    more_samples = smallest_difference(Plan.even((10,) * 4, 4, 4), Assumed(correlation=1.0))
    assert more_samples == smallest_difference(plan, Assumed(correlation=1.0)), "only repeats"
    assert smallest_difference(Plan.even((1,), 4, 2)) is None
    assert smallest_difference(Plan.even((2,), 1, 1)) is None, (
        "more than everything would be needed"
    )
    assert detectable(0.05, 0, 0.05) is None


@pytest.mark.parametrize("bases", [(2, 1), (3, 3), (1, 1, 1), (2, 1, 1), (4, 0, 1), (1,), (0,), ()])
def test_a_plan_has_the_degrees_of_freedom_that_its_results_will_have(
    bases: tuple[int, ...],
) -> None:
    strata = [[PairedCluster(1, 0.0, 0.0, 1.0)] * number for number in bases]
    [found] = pair_differences([strata])
    assert Plan.even(bases, 1, 1).freedom == (0 if found is None else found.freedom)


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


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("correlation", [None, 0.1, "its own"])
def test_a_failure_more_never_raises_the_lower_end(
    size: int, correlation: float | str | None
) -> None:
    for count in (2, 3, 4):
        low: dict[tuple[int, ...], float] = {}
        for table in combinations_with_replacement(range(size + 1), count):
            found = clusters(*table, size=size)
            alike = intraclass_correlation([found]) if correlation == "its own" else correlation
            assert not isinstance(alike, str)
            rate = metric_rate(found, alike)
            assert rate is not None
            low[table] = rate.interval.low
        for table, end in low.items():
            for place in (number for number, passed in enumerate(table) if passed):
                fewer = sorted((*table[:place], table[place] - 1, *table[place + 1 :]))
                assert low[tuple(fewer)] <= end + 1e-12, (table, fewer)


@pytest.mark.exhaustive
def test_a_failure_more_never_raises_the_lower_end_of_larger_tables() -> None:
    assert not raised_by_a_failure(120)


def test_a_metric_is_worth_no_more_rows_than_it_has() -> None:
    for passed in ((2, 2, 2, 2), (3, 3), (1, 1, 1), (2, 2)):
        found = clusters(*passed)
        for correlation in (None, 0.0, 0.4):
            rate = metric_rate(found, correlation)
            assert rate is not None
            assert rate.effective <= rate.scored
    drawn = Random(5)
    for _ in range(200):
        found = [Cluster.passing(drawn.randint(0, size), size) for size in (1, 2, 1, 4, 3)]
        rate = metric_rate(found, drawn.random())
        assert rate is not None
        assert rate.effective <= rate.scored + 1e-9
