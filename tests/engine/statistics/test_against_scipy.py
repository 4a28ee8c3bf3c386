"""Our formulas give what scipy, statsmodels and krippendorff give, on random tables."""

from __future__ import annotations

from math import sqrt
from random import Random

import krippendorff
import numpy as np
import pytest

from engine.statistics.agreement import agreement
from engine.statistics.clusters import Cluster, clustered_error
from engine.statistics.demographics import DemographicFit, VariantScore
from engine.statistics.distributions import (
    clopper_pearson,
    incomplete_beta,
    student_cdf,
    student_quantile,
    wilson,
)
from engine.statistics.paired import drawn_error
from engine.statistics.ranks import kendall_tau_b, midranks, spearman_rho
from tests.late import inter_rater, linear_model, proportion, special, stats

SEEDS = range(3)


@pytest.mark.exhaustive
def test_clopper_and_pearsons_is_that_of_statsmodels() -> None:
    for n in (1, 7, 20):
        for passed in range(n + 1):
            found = clopper_pearson(passed / n, n)
            expected = proportion.proportion_confint(passed, n, method="beta")
            low, high = (passed > 0) * expected[0], 1.0 if passed == n else expected[1]
            assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_wilson_is_that_of_statsmodels() -> None:
    for n in (1, 2, 7, 40, 1000):
        for passed in {0, 1, n // 3, n - 1, n}:
            found = wilson(passed / n, n)
            expected = proportion.proportion_confint(passed, n, method="wilson")
            assert (found.low, found.high) == pytest.approx(expected, abs=1e-12)


def test_students_t_is_that_of_scipy() -> None:
    for freedom in (1, 1.5, 2, 5, 30, 1000):
        for value in (-40, -3.2, -0.01, 0, 0.7, 2.1, 12):
            assert student_cdf(value, freedom) == pytest.approx(
                stats.t.cdf(value, freedom), abs=1e-12
            )
        for probability in (0.001, 0.2, 0.5, 0.8, 0.975, 0.9999):
            expected = stats.t.ppf(probability, freedom)
            assert student_quantile(probability, freedom) == pytest.approx(
                expected, rel=1e-9, abs=1e-9
            )


def test_beta_is_that_of_scipy() -> None:
    chance = Random(1)
    for _ in range(200):
        a, b, x = chance.uniform(0.1, 60), chance.uniform(0.1, 60), chance.random()
        assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-12)


def uncrossed(seed: int) -> list[VariantScore]:
    """Scenarios of a child, an adult and at times an old one, each of a gender that was drawn."""
    chance, people = Random(seed), Random(-seed)
    return [
        VariantScore(
            "m", f"s{base}", (target, base), dict(zip(("age", "gender"), who, strict=True)), value
        )
        for base in range(15)
        for who in [
            (age, people.choice("fm")) for age in ("adult", "child", "old")[: 2 + (base % 3 == 0)]
        ]
        for target in ("a", "b")
        for value in [chance.choice((0.0, 0.5, 1.0))]
    ]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("axis", "left", "right"),
    [("age", "adult", "child"), ("age", "child", "old"), ("gender", "f", "m")],
)
def test_gaps_are_those_of_a_regression_with_an_effect_of_each_scenario(
    seed: int, axis: str, left: str, right: str
) -> None:
    rows = uncrossed(seed)
    levels = sorted({(axis, one.demographic[axis]) for one in rows for axis in one.demographic})
    within = sorted({row.within for row in rows}, key=repr)
    design = [
        [float(row.demographic[axis] == value) for axis, value in levels if value not in "adult f"]
        + [float(row.within == group) for group in within]
        for row in rows
    ]
    bases = sorted({row.base for row in rows})
    fit = linear_model.OLS(np.array([row.value for row in rows]), np.array(design)).fit(
        cov_type="cluster",
        cov_kwds={
            "groups": np.array([bases.index(row.base) for row in rows]),
            "use_correction": False,
        },
    )
    kept = [value for _, value in levels if value not in "adult f"]
    weights = [float(left == value) - float(right == value) for value in kept]
    expected = fit.t_test(np.array([*weights, *[0.0] * len(within)]))
    found = DemographicFit(rows).contrast(axis, left, right)
    assert found is not None
    assert found.estimate == pytest.approx(expected.effect[0], abs=1e-9)
    worth = list(found.strata["m"].values())
    scores = [one.total - found.estimate * one.size for one in worth]
    error = sqrt(sum(score**2 for score in scores)) / sum(one.size for one in worth)
    assert error == pytest.approx(expected.sd[0, 0], rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_error_of_a_difference_is_that_of_leaving_out_each_base_scenario(seed: int) -> None:
    chance = Random(seed)
    rows = [[chance.gauss(0.1, 1) for _ in range(chance.randint(1, 9))] for _ in range(7)]

    def mean(kept: list[list[float]]) -> float:
        values = [value for row in kept for value in row]
        return float(linear_model.OLS(values, np.ones(len(values))).fit().params[0])

    left_out = [mean(rows[:number] + rows[number + 1 :]) for number in range(7)]
    found = drawn_error([[Cluster.of(row) for row in rows]], mean(rows), sum(map(len, rows)))
    assert found is not None
    middle = mean(rows)
    assert found.error**2 == pytest.approx(6 / 7 * sum((one - middle) ** 2 for one in left_out))
    sizes = np.array([len(row) for row in rows])
    assert found.freedom == pytest.approx(sizes.sum() ** 2 / (sizes**2).sum() - 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_clustered_error_is_that_of_a_regression_on_a_constant(seed: int) -> None:
    chance = Random(seed)
    rows = [[chance.random() < 0.6 for _ in range(chance.randint(1, 6))] for _ in range(9)]
    values = [float(value) for row in rows for value in row]
    groups = [number for number, row in enumerate(rows) for _ in row]
    fit = linear_model.OLS(values, np.ones(len(values))).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(groups), "use_correction": False}
    )
    found = clustered_error([Cluster.of(row) for row in rows])
    assert found is not None
    assert found.error == pytest.approx(fit.bse[0] * (9 / 8) ** 0.5)


@pytest.mark.parametrize("seed", SEEDS)
def test_agreement_is_that_of_the_packages(seed: int) -> None:
    chance = Random(seed)
    raters = chance.randint(2, 5)
    full = [[chance.random() < 0.3 + 0.5 * (n % 2) for _ in range(raters)] for n in range(25)]
    found = agreement(full)
    assert found is not None
    assert found.kappa is not None
    table, _ = inter_rater.aggregate_raters(np.array(full, dtype=int))
    assert found.kappa.value == pytest.approx(inter_rater.fleiss_kappa(table))

    holed = [[answer if chance.random() < 0.7 else None for answer in row] for row in full]
    with_holes = agreement(holed)
    assert with_holes is not None
    assert with_holes.alpha is not None
    by_rater = [
        [np.nan if answer is None else float(answer) for answer in rater]
        for rater in zip(*holed, strict=True)
    ]
    assert with_holes.alpha.value == pytest.approx(
        krippendorff.alpha(np.array(by_rater), level_of_measurement="nominal")
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_rank_correlations_are_those_of_scipy(seed: int) -> None:
    chance = Random(seed)
    left = [chance.randint(0, 6) / 6 for _ in range(14)]
    right = [chance.randint(0, 6) / 6 for _ in range(14)]
    assert midranks(left) == list(stats.rankdata(left))
    assert kendall_tau_b(left, right) == pytest.approx(stats.kendalltau(left, right).statistic)
    assert spearman_rho(left, right) == pytest.approx(stats.spearmanr(left, right).statistic)
