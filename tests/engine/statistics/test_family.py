"""One promise about all that is marked: intervals, p values and ranks of one family."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from engine.statistics.clusters import Cluster
from engine.statistics.paired import (
    ERROR_RATE,
    SHARES,
    Adjusted,
    Difference,
    FamilyPart,
    levels,
    mean_difference,
    simultaneous,
)
from engine.statistics.ranks import RankRange, rank_ranges
from tests.late import multitest


def drawn(count: int, seed: int = 1) -> list[Difference]:
    chance = Random(seed)
    return [
        Difference(chance.gauss(0, 0.1), chance.uniform(0.01, 0.06), chance.randint(2, 60), 80, 80)
        for _ in range(count)
    ]


def marked(one: Adjusted) -> bool:
    return one.interval is not None and not one.interval.holds(0)


def test_the_shares_are_all_of_the_error_rate() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    found = levels(dict.fromkeys(SHARES, 7))
    assert sum(7 * level for level in found.values()) == pytest.approx(ERROR_RATE)
    assert found[FamilyPart.PAIRS] > found[FamilyPart.PAIRS_ON_TRACKS]


def test_the_share_of_an_empty_part_goes_to_the_others() -> None:
    assert levels({FamilyPart.PAIRS: 1, FamilyPart.GAPS: 0}) == {
        FamilyPart.PAIRS: pytest.approx(ERROR_RATE)
    }
    found = levels({FamilyPart.PAIRS: 10, FamilyPart.GAPS: 2})
    assert 10 * found[FamilyPart.PAIRS] + 2 * found[FamilyPart.GAPS] == pytest.approx(ERROR_RATE)
    assert levels({}) == {}


def test_an_interval_leaves_nothing_out_where_its_p_value_says_so_and_nowhere_else() -> None:
    for seed in range(20):
        family = {
            FamilyPart.PAIRS: drawn(30, seed),
            FamilyPart.GAPS_OF_TARGETS: drawn(12, seed + 100),
        }
        found = simultaneous(family)
        assert 0 < sum(map(marked, found)) < len(found)
        for one in found:
            assert one.p is not None
            assert marked(one) is (one.p < ERROR_RATE)


def test_what_is_marked_among_many_is_marked_alone_too() -> None:
    for one, among in zip(drawn(40), simultaneous({FamilyPart.PAIRS: drawn(40)}), strict=True):
        assert one.interval is not None
        assert among.interval is not None
        assert among.interval.low <= one.interval.low <= one.interval.high <= among.interval.high
        assert one.p is not None
        assert (one.p < ERROR_RATE) is not one.interval.holds(0)


def test_a_difference_without_an_error_has_no_mark_and_takes_no_share() -> None:
    lone = mean_difference([[Cluster.of([1.0, 1.0])]])
    assert lone is not None
    known = drawn(3)
    nothing = Adjusted(None, None)
    assert simultaneous({FamilyPart.PAIRS: [lone], FamilyPart.GAPS: known}) == [
        nothing,
        *simultaneous({FamilyPart.GAPS: known}),
    ]
    assert simultaneous({FamilyPart.PAIRS: []}) == []


def test_strata_that_happen_to_have_no_variance_are_not_certain() -> None:
    same = [Cluster.of([-1.0])] * 2
    level = [[Cluster.of([0.0])] * 3 for _ in range(7)]
    found = mean_difference([same, *level])
    assert found is not None
    assert found.estimate == pytest.approx(-2 / 23)
    assert found.interval is not None
    assert found.p is not None
    assert found.interval.holds(0), "two pairs of 23 that differ are no evidence"
    assert found.p > 0.05


def test_degrees_of_freedom_are_those_of_the_strata_that_vary() -> None:
    varying = [[Cluster.of([sign]) for sign in (1.0, 1.0, 0.0, -1.0)] for _ in range(2)]
    level = [[Cluster.of([0.0])] * 4 for _ in range(18)]
    found = mean_difference([*varying, *level])
    assert found is not None
    # 6 of the strata that vary, and 6 of the expected variance; not 60 and 6
    assert found.freedom < 16
    alike = mean_difference(varying * 10)
    assert alike is not None
    assert alike.freedom == 66
    single = mean_difference([varying[0]])
    assert single is not None
    assert single.freedom == 9


def test_unlike_base_scenarios_have_the_freedom_of_their_effective_number() -> None:
    clusters = [Cluster.of([1.0, 0.0] * 20), *[Cluster.of([0.0])] * 7]
    found = mean_difference([clusters])
    assert found is not None
    # 47^2 / (40^2 + 7) of 8, and little of the expected variance, which rests on one of them
    assert found.freedom == 1
    assert found.interval is not None
    assert found.interval.holds(0)


@pytest.mark.exhaustive
def test_equal_shares_are_marked_as_holms_procedure_of_statsmodels_does() -> None:
    for seed in range(20):
        family = drawn(15, seed)
        found = simultaneous({FamilyPart.PAIRS: family})
        expected = multitest.multipletests([one.p for one in family], method="holm")[1]
        assert [one.p for one in found] == pytest.approx(list(expected))
        assert [marked(one) for one in found] == [p <= ERROR_RATE for p in expected]


def test_ranks_follow_from_the_pairs_that_are_sure() -> None:
    above = [("best", "low"), ("best", "last"), ("mid", "last"), ("low", "last")]
    found = rank_ranges(["best", "mid", "low", "last"], above)
    assert found == {
        "best": RankRange(1, 2, 4),
        "mid": RankRange(1, 3, 4),
        "low": RankRange(2, 3, 4),
        "last": RankRange(4, 4, 4),
    }
    assert str(found["last"]) == "4"
    assert str(found["best"]) == "1–2"


def test_without_a_sure_pair_no_rank_is_told_and_with_all_each_is() -> None:
    names = ["a", "b", "c", "d"]
    assert not any(one.tells for one in rank_ranges(names, []).values())
    every = rank_ranges(names, combinations(names, 2))
    assert [str(one) for one in every.values()] == ["1", "2", "3", "4"]
