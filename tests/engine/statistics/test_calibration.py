"""What labels say of a judge, against examples worked by hand, scipy and simulated worlds."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from engine.statistics.calibration import (
    JudgedCluster,
    LabelledConversation,
    MissingReason,
    Population,
    RoganGladen,
    accuracy,
    labels_for_width,
    mcnemar,
    prediction_powered,
    rogan_gladen,
)
from engine.statistics.clusters import effective_number
from engine.statistics.design import stratified_sample
from tests.late import stats
from tools.simulations.label_coverage import LEAST, World, drawn, measured


def labels(*rows: tuple[int, bool, bool], weight: float = 1.0) -> list[LabelledConversation]:
    """So many labels of (judge, person), each in a cluster of its own."""
    found: list[LabelledConversation] = []
    for count, judge, person in rows:
        found += [
            LabelledConversation(f"s{len(found) + n}", weight, judge, person) for n in range(count)
        ]
    return found


TABLE = labels((45, True, True), (5, False, True), (10, True, False), (140, False, False))


def test_shares_of_a_table_are_those_of_any_textbook() -> None:
    found = accuracy(TABLE)
    shares = (found.sensitivity, found.specificity, found.positive_value, found.negative_value)
    values = [share.value for share in shares if share]
    assert values == pytest.approx([0.9, 140 / 150, 45 / 55, 140 / 145])
    assert found.right
    assert found.right.value == pytest.approx(185 / 200)
    assert found.sensitivity
    assert found.sensitivity.labels == 50


def test_weights_undo_how_the_sample_was_drawn() -> None:
    """Absent ones stand for ten each: the same table, drawn at a tenth."""
    thin = labels((45, True, True), (10, True, False))
    thin += [
        LabelledConversation(f"t{n}", 10.0, False, person)
        for n, person in enumerate([True] * 1 + [False] * 13)
    ]
    found = accuracy(thin)
    assert found.sensitivity
    assert found.sensitivity.value == pytest.approx(45 / 55)
    assert found.specificity
    assert found.specificity.value == pytest.approx(130 / 140)


def in_clusters(*sizes: int) -> list[LabelledConversation]:
    """As many labels in each cluster; of every ten the judge is right on eight."""
    return [
        LabelledConversation(f"s{cluster}", 1.0, judge=True, person=number % 10 < 8)
        for cluster, size in enumerate(sizes)
        for number in range(size)
    ]


def test_clusters_of_which_one_holds_most_labels_are_few() -> None:
    even, uneven = accuracy(in_clusters(*[20] * 15)).right, accuracy(in_clusters(*[10] * 14, 160))
    assert even
    assert uneven.right
    assert even.value == uneven.right.value
    assert uneven.right.interval.width > even.interval.width


def test_of_few_clusters_the_interval_reaches_as_far_as_korn_and_graubards() -> None:
    right = [10, 6, 8, 8, 9, 7, 10, 6]
    share = accuracy(
        [
            LabelledConversation(f"s{cluster}", 1.0, judge=True, person=number < count)
            for cluster, count in enumerate(right)
            for number in range(10)
        ]
    ).right
    assert share
    effective = 0.8 * 0.2 / (np.var(np.array(right) / 10, ddof=1) / 8)
    effective *= (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 7)) ** 2
    low = stats.beta.ppf(0.025, 0.8 * effective, 0.2 * effective + 1)
    high = stats.beta.ppf(0.975, 0.8 * effective + 1, 0.2 * effective)
    assert (share.interval.low, share.interval.high) == pytest.approx((low, high))


def test_the_effective_number_of_labels_is_kishs() -> None:
    weights = [1.0, 2.0, 7.0]
    assert effective_number(weights) == pytest.approx(
        np.sum(weights) ** 2 / np.sum(np.square(weights))
    )
    assert effective_number([3.0] * 12) == pytest.approx(12)
    assert effective_number([]) == 0


def test_nothing_is_said_where_no_label_speaks_of_it() -> None:
    found = accuracy(labels((7, True, True)))
    assert found.specificity is None
    assert found.negative_value is None
    assert found.sensitivity
    assert found.sensitivity.value == 1
    assert found.sensitivity.interval.low < 0.7
    assert accuracy([]).right is None


def population(size: int, *present: int) -> Population:
    return {"m": {f"s{number}": JudgedCluster(size, one) for number, one in enumerate(present)}}


def test_the_rate_is_the_judges_and_what_the_labels_say_it_is_wrong_by() -> None:
    """100 conversations, 30 found present; of 10 labels that stand for 10 each, one was found and
    is absent: 30% - 10%."""
    seen = [LabelledConversation(f"s{n}", 10.0, n < 3, 0 < n < 3) for n in range(10)]
    found = prediction_powered(population(10, *[3] * 10), seen)
    assert found
    assert found.value == pytest.approx(0.2)
    assert found.interval.low < 0.2 < found.interval.high


def test_the_error_of_the_rate_is_that_of_cluster_totals() -> None:
    """Cochran (1977), eq. 11.30, worked with numpy."""
    chance = Random(1)
    judged = [chance.randrange(11) for _ in range(12)]
    seen = [
        LabelledConversation(f"s{n}", 2.0, chance.random() < 0.5, chance.random() < 0.5)
        for n in range(12)
        for _ in range(5)
    ]
    found = prediction_powered(population(10, *judged), seen)
    wrong = np.zeros(12)
    for one in seen:
        wrong[int(one.cluster[1:])] += one.weight * (one.person - one.judge)
    totals = np.array(judged) + wrong
    error = np.sqrt(12 / 11 * np.sum((totals - totals.mean()) ** 2)) / 120
    assert found
    assert found.error == pytest.approx(error)


def test_a_judge_without_a_seen_error_is_not_certain() -> None:
    seen = labels((5, True, True), (5, False, False), weight=10.0)
    found = prediction_powered(population(10, *[5] * 10), seen)
    assert found
    assert found.value == pytest.approx(0.5)
    assert found.interval.width > 0.3


def test_rogan_and_gladens_rate_of_a_textbook() -> None:
    """Apparent .275, sensitivity .9, specificity 140/150: (.275 - .0667) / .8333 = .25."""
    found = rogan_gladen(population(10, *[2, 3, 3, 3] * 10), TABLE)
    assert found.value == pytest.approx(0.25)
    assert found.interval
    assert found.interval.holds(0.25)


def test_a_judge_that_guesses_cannot_be_corrected_for() -> None:
    seen = labels((10, True, True), (10, False, True), (12, True, False), (9, False, False))
    found = rogan_gladen(population(10, *[5] * 10), seen)
    assert found == RoganGladen.missing(MissingReason.CHANCE)


def test_too_few_labels_say_nothing() -> None:
    few = rogan_gladen(population(10, 5, 5), labels((2, True, True)))
    assert few == RoganGladen.missing(MissingReason.FEW_BASE_SCENARIOS)
    assert prediction_powered(population(10, 5, 5), []) is None
    assert prediction_powered({}, TABLE) is None
    assert prediction_powered(population(10, 5), TABLE[:3]) is None


def test_labels_of_one_kind_alone_are_told_from_a_judge_that_guesses() -> None:
    seen = labels((12, True, True), (8, False, True))
    found = rogan_gladen(population(10, *[5] * 10), seen)
    assert found == RoganGladen.missing(MissingReason.ONE_ANSWER)


def test_more_labels_make_it_as_narrow_as_was_asked() -> None:
    world = World(3, 8, 0.3, 0.8, 0.9, 0.1, 0.0)
    before = prediction_powered(*drawn(world, 60, Random(3)))
    assert before
    width = before.interval.width * 0.8
    needed = labels_for_width(before, width)
    assert needed is not None
    assert 60 < needed < 400
    widths = []
    for seed in range(20):
        after = prediction_powered(*drawn(world, needed, Random(seed)))
        assert after
        widths.append(after.interval.width)
    assert np.mean(widths) == pytest.approx(width, rel=0.15)
    assert labels_for_width(before, 0.01) is None  # scenarios alone differ by more


def test_mcnemar_is_scipys_binomial_test() -> None:
    for only_left, only_right in ((0, 0), (1, 0), (7, 2), (3, 3), (40, 61)):
        left = [True] * only_left + [False] * only_right + [True] * 5
        right = [False] * only_left + [True] * only_right + [True] * 5
        found = mcnemar(left, right)
        apart = only_left + only_right
        expected = stats.binomtest(only_left, apart).pvalue if apart else 1
        assert (found.only_left, found.only_right) == (only_left, only_right)
        assert found.p == pytest.approx(expected)


STRATA: dict[tuple[str, ...], list[int]] = {
    ("fail", "m01", "a"): list(range(40)),
    ("fail", "m01", "b"): [100],
    ("fail", "m02", "a"): list(range(200, 206)),
    ("pass", "m01", "a"): list(range(300, 480)),
    ("pass", "m02", "b"): list(range(500, 503)),
}


def test_strata_merge_until_each_has_two() -> None:
    drawn_from = Counter(one.stratum for one in stratified_sample(STRATA, 30, "7"))
    assert set(drawn_from) == {"fail / m01", "fail / m02 / a", "pass / m01 / a", "pass / m02 / b"}
    assert min(drawn_from.values()) >= 2
    few = Counter(one.stratum for one in stratified_sample(STRATA, 4, "7"))
    assert len(few) == 2
    assert set(few.values()) == {2}


def test_a_thing_is_drawn_as_often_as_is_said() -> None:
    times: Counter[int] = Counter()
    said: dict[int, float] = {}
    for seed in range(2000):
        sample = stratified_sample(STRATA, 30, str(seed))
        assert len(sample) == len({one.thing for one in sample}) == 30
        for one in sample:
            times[one.thing] += 1
            said[one.thing] = one.inclusion
    for thing, inclusion in said.items():
        assert times[thing] / 2000 == pytest.approx(inclusion, abs=5 * (0.25 / 2000) ** 0.5)


def test_the_weights_of_a_sample_add_up_to_all_things() -> None:
    for size in (3, 9, 30, 120):
        sample = stratified_sample(STRATA, size, "x")
        assert sum(1 / one.inclusion for one in sample) == pytest.approx(230)


def test_a_sample_is_the_same_for_the_same_seed_and_in_an_order_of_chance() -> None:
    first = stratified_sample(STRATA, 30, "7")
    assert first == stratified_sample(STRATA, 30, "7")
    assert first != stratified_sample(STRATA, 30, "8")
    assert len({one.stratum for one in first[:8]}) > 1


def test_a_sample_of_more_than_there_is_is_everything() -> None:
    assert len(stratified_sample(STRATA, 1000, "7")) == 230
    assert {one.inclusion for one in stratified_sample(STRATA, 1000, "7")} == {1.0}
    assert stratified_sample({}, 60, "7") == []
    assert len(stratified_sample({("a",): [1]}, 60, "7")) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [60, 200])
def test_intervals_hold_the_truth(size: int) -> None:
    """A short form of `python -m tests.benchmarks labels`."""
    found = measured(World(3, 8, 0.3, 0.8, 0.9, 0.1, 0.0), size, 60)
    # of 60 worlds, 3 more misses than are expected of 93%
    assert {name: one.held for name, one in found.items() if one.coverage < LEAST - 0.05} == {}
