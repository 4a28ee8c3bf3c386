"""Targets, demographic groups, raters and orders compared."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from engine.statistics.agreement import agreement, flip_matrix
from engine.statistics.clusters import Cluster, resampled_sums
from engine.statistics.demographics import DemographicFit, Variant, VariantScore, demographic_gaps
from engine.statistics.distributions import Interval
from engine.statistics.paired import Answers, differences, mean_difference
from engine.statistics.ranks import (
    kendall_tau_b,
    rank_agreement,
    rho_over_targets,
    spearman_rho,
    tau_over_targets,
)

Panel = dict[str, dict[str, dict[str, Cluster]]]


def answers(rate: float, chance: Random, scenarios: int = 12) -> Answers:
    return {
        f"m{metric}": {
            f"s{scenario}": {f"v{variant}": float(chance.random() < rate) for variant in range(4)}
            for scenario in range(scenarios)
        }
        for metric in range(3)
    }


def panel(rates: dict[str, float], chance: Random, scenarios: int = 10) -> Panel:
    return {
        target: {
            f"m{metric}": {
                f"s{scenario}": Cluster.passing(sum(chance.random() < rate for _ in range(4)), 4)
                for scenario in range(scenarios)
            }
            for metric in range(3)
        }
        for target, rate in rates.items()
    }


def test_a_large_difference_has_a_small_p_value_and_none_has_not() -> None:
    chance = Random(3)
    high, low, same = (answers(rate, chance) for rate in (0.9, 0.5, 0.5))
    apart, alike = mean_difference(differences(high, low)), mean_difference(differences(low, same))
    assert apart is not None
    assert alike is not None
    assert apart.p is not None
    assert apart.p < 0.001
    assert alike.p is not None
    assert alike.p > 0.05
    for one in (apart, alike):
        assert one.interval is not None
        assert one.interval.holds(one.estimate)


def test_targets_are_compared_only_where_both_were_scored() -> None:
    left: Answers = {
        "m1": {"s1": {"v1": 1.0, "v2": 0.0}, "s2": {"v1": 1.0}},
        "m2": {"s9": {"v1": 1}},
    }
    right: Answers = {"m1": {"s1": {"v1": 0.0}, "s2": {"v1": 0.5, "v2": 1.0}}}
    found = mean_difference(differences(left, right))
    assert found is not None
    assert (found.pairs, found.clusters, found.estimate) == (2, 2, 0.75)
    assert mean_difference(differences(left, {"m7": {"s1": {"v1": 1.0}}})) is None


def test_no_difference_at_all_is_still_uncertain() -> None:
    found = mean_difference([[Cluster.of([0.0, 0.0]) for _ in range(6)]])
    assert found is not None
    assert found.estimate == 0
    assert found.interval is not None
    assert found.interval.low < -0.05 < 0.05 < found.interval.high
    assert found.p == 1


def test_one_scenario_gives_a_difference_but_no_interval() -> None:
    found = mean_difference([[Cluster.of([1.0, 0.0])]])
    assert found is not None
    assert (found.estimate, found.interval, found.p, found.clusters) == (0.5, None, None, 1)
    assert mean_difference([[]]) is None


def test_small_strata_that_happen_to_be_of_one_mind_are_not_certain() -> None:
    alike = [[-1.0, -1.0], [-1.0, -1.0], [1.0, 1.0], *[[0.0, 0.0]] * 8]
    found = mean_difference([[Cluster.of([value]) for value in values] for values in alike])
    assert found is not None
    assert found.estimate == -2 / 22
    assert found.freedom < 17
    assert found.interval is not None
    assert found.interval.low < -0.2 < 0.03 < found.interval.high


def variants(chance: Random, by_age: dict[str, float]) -> list[Variant]:
    return [
        Variant(
            f"m{metric}",
            f"m{metric}_s{scenario}",
            {"age": age, "place": place},
            sum(chance.random() < by_age[age] for _ in range(2)),
            2,
        )
        for metric, scenario, age, place in product(range(2), range(15), by_age, ("x", "y"))
    ]


def test_a_demographic_gap_is_found_on_its_axis_alone() -> None:
    chance = Random(5)
    found = demographic_gaps(
        {name: variants(chance, {"old": 0.4, "young": 0.9}) for name in ("a", "b")}
    )
    assert [(gap.target, gap.axis, gap.left, gap.right) for gap in found] == [
        (target, *rest)
        for target in (None, "a", "b")
        for rest in (("age", "old", "young"), ("place", "x", "y"))
    ]
    for gap in found:
        assert gap.difference.p is not None
        assert (gap.difference.p < 0.01) is (gap.axis == "age")
        assert gap.difference.clusters == 30
        assert gap.difference.pairs == 60 * (2 if gap.target is None else 1)
    assert found[0].difference.estimate == pytest.approx(-0.5, abs=0.12)


def test_a_value_is_compared_only_within_its_base_scenario() -> None:
    one = Variant("m1", "s1", {"age": "old"}, 2, 2)
    other = Variant("m1", "s2", {"age": "young"}, 0, 2)
    unscored = Variant("m1", "s1", {"age": "young"}, 0, 0)
    assert demographic_gaps({"a": [one, other, unscored]}) == []


def drawn(chance: Random, gap: float) -> list[Variant]:
    """Of each scenario a child and an adult, with one gender each as it was drawn."""
    return [
        Variant("m1", f"s{scenario}", {"age": age, "gender": gender}, chance.random() < rate, 1)
        for scenario in range(60)
        for age, rate in (("adult", 0.5 - gap / 2), ("child", 0.5 + gap / 2))
        for gender in [Random(f"{scenario} {age}").choice("fm")]
    ]


def test_people_that_are_not_crossed_are_told_apart_by_all_their_rows() -> None:
    age, gender = demographic_gaps({"a": drawn(Random(4), 0.8)})
    assert (age.axis, age.left, age.right, gender.axis) == ("age", "adult", "child", "gender")
    assert (age.difference.clusters, age.rows) == (60, 120)
    assert age.difference.interval is not None
    assert age.difference.interval.holds(-0.8)
    assert age.difference.interval.high < -0.4
    assert gender.difference.interval is not None
    assert gender.difference.interval.holds(0)
    assert gender.difference.pairs < 30 < age.difference.pairs, "half are of one gender"


def test_crossed_people_are_fitted_as_they_are_paired() -> None:
    crossed = variants(Random(6), {"old": 0.4, "young": 0.7})
    by_pairs, _ = demographic_gaps({"a": crossed})
    rows = [
        VariantScore(one.metric, one.base, one.base, one.demographic, one.rate, one.scored)
        for one in crossed
    ]
    fitted = DemographicFit(rows).difference("age", "old", "young")
    assert fitted is not None
    assert fitted[1] == by_pairs.rows == sum(one.scored for one in crossed)
    assert fitted[0].estimate == pytest.approx(by_pairs.difference.estimate)
    assert (fitted[0].pairs, fitted[0].clusters) == (60, 30)
    assert fitted[0].error == pytest.approx(by_pairs.difference.error, rel=0.1)


def test_an_axis_that_never_differs_within_a_scenario_has_no_gap() -> None:
    rows = [
        Variant("m1", f"s{number}", {"age": age, "gender": "fm"[number % 2]}, number % 3 == 0, 1)
        for number in range(12)
        for age in ("adult", "child")
    ]
    rows.append(Variant("m1", "s0", {"age": "old", "gender": "f"}, 1, 1))
    rows.append(Variant("m1", "s1", {"age": "adult", "gender": "m"}, 1, 1))
    assert {gap.axis for gap in demographic_gaps({"a": rows})} == {"age"}


def test_one_target_needs_no_pool() -> None:
    found = demographic_gaps({"a": variants(Random(1), {"old": 0.5, "young": 0.5})})
    assert {gap.target for gap in found} == {"a"}


def test_resamples_are_repeatable_and_centred() -> None:
    strata = [[(number, 10) for number in range(10)], [(9, 10), (1, 10)]]
    drawn = list(resampled_sums(strata, resamples=2000, seed=4))
    assert drawn == list(resampled_sums(strata, resamples=2000, seed=4))
    rates = [passed / scored for passed, scored in drawn]
    mean = sum(rates) / len(rates)
    assert mean == pytest.approx(55 / 120, abs=0.01)
    spread = (sum((rate - mean) ** 2 for rate in rates) / len(rates)) ** 0.5
    first = 10 / 9 * sum((number - 4.5) ** 2 for number in range(10))
    second = 2 * 2 * 4**2
    assert spread == pytest.approx((first + second) ** 0.5 / 120, rel=0.05)


def test_a_draw_in_which_all_are_level_takes_no_doubt_away() -> None:
    always, never = Cluster.passing(4, 4), Cluster.passing(0, 4)
    once = {
        "a": {f"m{number}": {"s1": always} for number in range(8)},
        "b": {f"m{number}": {"s1": never if number == 0 else always} for number in range(8)},
    }
    found = rank_agreement(once, once, same_scenarios=True, resamples=100)
    assert found is not None
    assert found.tau_b is not None
    assert found.tau_b.value == 1
    assert found.tau_b.scenarios == Interval(0.0, 1.0)


@pytest.mark.parametrize("scenarios", [4, 20])
def test_an_order_that_no_draw_changes_has_no_interval(scenarios: int) -> None:
    rates = {"a": 1.0, "b": 0.5, "c": 0.0}
    once = {
        target: {"m1": {f"s{n}": Cluster.passing(round(4 * rate), 4) for n in range(scenarios)}}
        for target, rate in rates.items()
    }
    found = rank_agreement(once, once, same_scenarios=True, resamples=100)
    assert found is not None
    for one in (found.tau_b, found.rho):
        assert one is not None
        assert (one.value, one.scenarios) == (1, None)


def test_few_scenarios_say_nothing_of_an_order() -> None:
    chance = Random(3)
    rates = {"a": 0.7, "b": 0.5, "c": 0.4}
    few = panel(rates, chance, scenarios=2)
    found = rank_agreement(few, panel(rates, chance, scenarios=2), same_scenarios=True)
    assert found is not None
    assert found.tau_b is not None
    assert found.tau_b.scenarios is None


def test_orders_that_agree_and_orders_that_are_turned() -> None:
    chance = Random(8)
    rates = {f"t{number}": 0.1 + 0.16 * number for number in range(6)}
    turned = {target: 1 - rate for target, rate in rates.items()}
    same = rank_agreement(
        panel(rates, chance), panel(rates, chance), same_scenarios=True, resamples=200
    )
    other = rank_agreement(
        panel(rates, chance), panel(turned, chance), same_scenarios=False, resamples=200
    )
    assert same is not None
    assert other is not None
    for found, sign in ((same, 1), (other, -1)):
        for one in (found.tau_b, found.rho):
            assert one is not None
            assert one.value * sign > 0.7
            assert one.scenarios is not None
            assert one.scenarios.holds(one.value)
            assert min(one.scenarios.low * sign, one.scenarios.high * sign) > 0.3
            assert one.targets is not None
            assert one.targets.holds(one.value)
            assert one.targets.width > 0.05
    lone = rank_agreement(panel({"a": 0.5}, chance), panel({"a": 0.5}, chance), same_scenarios=True)
    assert lone is None


def test_few_targets_say_nothing_about_others() -> None:
    assert tau_over_targets(1.0, 4) is None
    assert rho_over_targets(1.0, 4) is None
    perfect = tau_over_targets(1.0, 6)
    assert perfect is not None
    assert perfect.high == 1
    assert perfect.low < 0.9
    assert kendall_tau_b([1, 1, 1], [1, 2, 3]) is None
    assert spearman_rho([], []) is None


def test_agreement_is_over_what_was_answered_at_least_twice() -> None:
    assert agreement([[True], [None, False], []]) is None
    found = agreement([[True, True], [True, None], [False, True]])
    assert found is not None
    assert (found.things, found.percent.value, found.unanimous.value) == (2, 0.5, 0.5)


def test_full_agreement_has_doubt_and_one_answer_has_no_alpha() -> None:
    found = agreement([[True, True]] * 5 + [[False, False]] * 5)
    assert found is not None
    for one in (found.percent, found.unanimous, found.ac1, found.alpha, found.kappa):
        assert one is not None
        assert one.value == pytest.approx(1)
        assert one.interval is not None
        assert one.interval.width > 0.1
    always = agreement([[True, True]] * 5)
    assert always is not None
    assert always.alpha is always.kappa is None
    assert always.ac1 is not None


def test_one_answer_that_differs_says_little_of_agreement_beyond_chance() -> None:
    found = agreement([[True, True]] * 29 + [[True, False]])
    assert found is not None
    assert found.alpha is not None
    assert found.alpha.interval is not None
    assert found.alpha.value == pytest.approx(0)
    assert found.alpha.interval.low < -0.5
    assert found.alpha.interval.high > 0.8
    assert found.ac1 is not None
    assert found.ac1.interval is not None
    assert found.ac1.interval.low > 0.7


def test_things_of_one_scenario_are_left_out_together() -> None:
    rows = [[True, True], [True, False]] * 10 + [[False, False]] * 10
    alone = agreement(rows)
    together = agreement(rows, [number // 10 for number in range(30)])
    assert alone is not None
    assert together is not None
    assert alone.percent.value == together.percent.value
    assert alone.percent.interval is not None
    assert together.percent.interval is not None
    assert together.percent.interval.width > alone.percent.interval.width


def test_a_flip_matrix_counts_what_both_answered() -> None:
    found = flip_matrix([True, True, False, None, False], [True, False, True, True, False])
    assert (found.both, found.left_only, found.right_only, found.neither) == (1, 1, 1, 1)


def test_agreement_on_one_base_scenario_has_figures_and_no_intervals() -> None:
    found = agreement([[True, True], [True, False], [False, False]], ["only"] * 3)
    assert found is not None
    assert found.percent.interval is None
    assert found.ac1 is not None
    assert found.ac1.interval is None
    assert found.alpha is not None
    assert found.alpha.interval is None
