"""Several benchmarks put into one result: what counts, what is compared, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from engine.analysis.figures import Analysis, Overall
from engine.analysis.findings import findings
from engine.analysis.overall import overall
from engine.benchmark import Track
from engine.statistics.rates import ENOUGH_BENCHMARKS
from tests.approval import approve
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes

NEGATIVE = METRICS[1]


def benchmark(
    name: str,
    answers: Mapping[str, str],
    negative: Mapping[str, str] | None = None,
    *,
    targets: Sequence[str] | None = None,
) -> Analysis:
    rows = [*outcomes(answers), *outcomes(negative or {}, metric=NEGATIVE)]
    found = analysed(rows, targets=targets, metrics=METRICS if negative else METRICS[:1])
    return replace(found, benchmark=name, title=name.upper())


def shares(**of: float) -> dict[str, str]:
    return {name: mixed(share, turn=len(name)) for name, share in of.items()}


def said(found: Overall) -> str:
    return "\n".join(map(str, findings(found)))


def test_each_benchmark_weighs_the_same_whatever_its_size() -> None:
    small, large = {"a": "++ --", "b": "-- --"}, {"a": "++ " * 20, "b": "-+ " * 20}
    found = overall([benchmark("small", small), benchmark("large", large)])
    rate = found.targets[0].tracks[Track.POSITIVE]
    assert (rate.rate, rate.passed, rate.scored, rate.base_scenarios) == (0.75, 42, 44, 22)
    assert rate.low is not None
    assert rate.high is not None
    assert rate.low < 0.75 < rate.high
    pair = found.comparisons[0]
    assert (pair.left, pair.right, pair.benchmarks) == ("a", "b", 2)
    assert pair.difference == pytest.approx((0.5 + 0.5) / 2)


def test_one_benchmark_together_with_none_is_that_benchmark() -> None:
    alone = benchmark("one", shares(a=0.9, b=0.5), shares(a=0.8, b=0.2))
    found = overall([alone])
    for of_all, one in zip(found.targets, alone.targets, strict=True):
        assert of_all.target == one.target
        for track in Track:
            ours, theirs = of_all.tracks[track], one.tracks[track]
            assert ours.rate == pytest.approx(theirs.rate)
            assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high))
            assert ours.effective_n == pytest.approx(theirs.effective_n)
    for pair, before in zip(
        found.comparisons,
        [comparison for comparison in alone.comparisons if comparison.track],
        strict=True,
    ):
        assert (pair.difference, pair.error, pair.freedom, pair.p) == (
            before.difference,
            before.error,
            before.freedom,
            before.p,
        )


def test_marks_have_a_family_of_their_own_and_ranks_follow_from_them() -> None:
    every = [benchmark(f"b{n}", shares(a=0.95, b=0.4, c=0.4)) for n in range(3)]
    found = overall(every)
    assert (found.family.size, found.family.pairs, found.family.pairs_on_like) == (3, 3, 0)
    sure = {
        (comparison.left, comparison.right) for comparison in found.comparisons if comparison.sure
    }
    assert sure == {("a", "b"), ("a", "c")}
    ranks = {target.target: str(target.ranks[Track.POSITIVE]) for target in found.targets}
    assert ranks == {"a": "1", "b": "2–3", "c": "2–3"}
    approve(said(found))


def test_of_few_benchmarks_it_is_said_that_nothing_is_said_of_others() -> None:
    few = [benchmark(f"b{n}", shares(a=0.9, b=0.4)) for n in range(ENOUGH_BENCHMARKS - 1)]
    found = overall(few)
    assert not found.on_like
    assert found.targets[0].new_metrics[Track.POSITIVE] is None
    approve(said(found))

    enough = overall([*few, benchmark("last", shares(a=0.9, b=0.4))])
    assert [one.benchmarks for one in enough.on_like] == [ENOUGH_BENCHMARKS]
    assert (enough.family.size, enough.family.pairs_on_like) == (2, 1)
    beyond = enough.targets[0].new_metrics[Track.POSITIVE]
    assert beyond is not None
    assert beyond.base_scenarios == ENOUGH_BENCHMARKS
    approve(said(enough))


def test_a_target_that_leads_here_and_trails_there_leads_in_no_benchmark_to_come() -> None:
    turns = [benchmark(f"b{n}", shares(a=0.95, b=0.3)) for n in range(4)]
    turns += [benchmark(f"c{n}", shares(a=0.3, b=0.6)) for n in range(2)]
    found = overall(turns)
    assert found.comparisons[0].sure
    assert not found.on_like[0].sure
    assert (found.comparisons[0].difference, found.comparisons[0].left) == (
        found.on_like[0].difference,
        found.on_like[0].left,
    )


def test_targets_are_compared_on_the_benchmarks_that_both_have_and_the_others_are_named() -> None:
    both = benchmark("both", shares(a=0.9, b=0.5))
    lone = benchmark("lone", shares(a=0.2), targets=["a", "b"])
    empty = benchmark("empty", {"a": "?? ??", "b": "?? ??"})
    found = overall([both, lone, empty])
    assert (found.benchmarks, found.skipped) == (["both", "lone"], ["empty"])
    assert found.comparisons[0].benchmarks == 1
    assert found.comparisons[0].difference == pytest.approx(both.comparisons[0].difference)
    assert not any(target.ranks for target in found.targets)
    text = said(found)
    approve(text)


def test_what_is_unscored_is_bounded_by_the_mean_of_the_benchmarks_bounds() -> None:
    whole, torn = {"a": "++++ ++++ ++++"}, {"a": "??-- ----"}
    found = overall([benchmark("whole", whole), benchmark("torn", torn)])
    rate = found.targets[0].tracks[Track.POSITIVE]
    assert (rate.rate, rate.missing) == (0.5, 2)
    assert (rate.if_missing_failed, rate.if_missing_passed) == (0.5, 0.625)
    approve(said(found))


def test_nothing_scored_anywhere_says_so_and_marks_nothing() -> None:
    found = overall([benchmark("one", {"a": "? ?", "b": "? ?"})])
    assert (found.family.size, list(found.comparisons), found.metrics) == (0, [], [])
    approve(said(found))
    assert overall([]).targets == []
