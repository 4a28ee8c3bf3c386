"""What results say: in about ten lines, and in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from engine.analysis.figures import Analysis, CastVote, Overall, UserAuditResult
from engine.analysis.findings import (
    answer,
    findings,
    legend,
    marks_mean,
    other_findings,
    size_words,
)
from engine.analysis.number_words import (
    NO_ALPHA,
    coefficients,
    p_value_words,
    points,
    points_interval,
)
from engine.analysis.overall import overall
from engine.benchmark import Track
from engine.display import percent, span
from engine.statistics.rates import ENOUGH_BENCHMARKS
from tests.approval import approve
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes


@pytest.mark.parametrize(
    ("rate", "said"),
    [(None, "—"), (0.0, "0%"), (0.001, "1%"), (0.5, "50%"), (0.999, "99%"), (1.0, "100%")],
)
def test_all_and_none_are_said_only_where_they_are_meant(rate: float | None, said: str) -> None:
    assert percent(rate) == said


@pytest.mark.parametrize(
    ("low", "rate", "high", "said"),
    [
        (0.977, 0.99, 0.996, "99% [98–100]"),
        (0.004, 0.01, 0.023, "1% [0–2]"),
        (0.998, 0.999, 0.9995, "99% [99–100]"),
        (0.0005, 0.001, 0.002, "1% [0–1]"),
        (0.9964, 1.0, 1.0, "100% [99–100]"),
        (1.0, 1.0, 1.0, "100% [100–100]"),
        (0.0, 0.0, 0.0, "0% [0–0]"),
    ],
)
def test_a_rate_lies_within_its_interval_as_both_are_said(
    low: float, rate: float, high: float, said: str
) -> None:
    assert f"{percent(rate)} {span(low, high)}" == said


def test_numbers_are_said_plainly() -> None:
    assert span(0.836, 1.0) == "[84–100]"
    assert points(-0.284) == "28 points"
    approve(points(0.002))
    assert points_interval(-0.09, 0.47) == "[−9 to 47]"
    assert p_value_words(0.0001) == "p < .001"
    assert p_value_words(0.0341) == "p = .034"
    assert p_value_words(1.0) == "p = 1"


def test_rounding_takes_nothing_to_the_other_side() -> None:
    assert points_interval(0.004, 0.09) == "[0.4 to 9]"
    assert points_interval(-0.09, -0.0004) == "[−9 to −0.04]"
    assert points_interval(-0.0049, 0.0) == "[−0.5 to 0]"
    assert points_interval(1e-9, 0.5) == "[0.001 to 50]"
    assert p_value_words(0.0496) == "p = .0496"
    assert p_value_words(0.0504) == "p = .050"


FAR_APART = {"holds": mixed(0.95), "wavers": mixed(0.55), "gives-in": mixed(0.1)}
MANY = {f"t{number}": mixed(0.97 - 0.12 * number) for number in range(8)}
HOLDS, WAVERS = "++ ++ ++ +- ++ ++", "-- +- -- -- +- --"


def both_tracks(pictures: dict[str, str], *negative: dict[str, str]) -> Analysis:
    found = [
        one
        for metric, own in zip(METRICS, (pictures, *negative, pictures), strict=False)
        for one in outcomes(own, metric=metric)
    ]
    return analysed(found)


def judged(*votes: tuple[str, int]) -> Analysis:
    """Of verdicts of which the first is always a pass."""
    return analysed(
        [
            replace(
                outcome,
                votes=tuple(
                    CastVote(judge, number, outcome.passed if place else True)
                    for place, (judge, number) in enumerate(votes)
                ),
            )
            for outcome in outcomes({"holds": "+- ++ -+"})
        ]
    )


def said(analysis: Analysis) -> str:
    brief = [size_words(analysis), *map(str, answer(analysis)), legend([analysis])]
    return "\n".join([*brief, "in full:", *map(str, other_findings(analysis))])


CASES: Mapping[str, Callable[[], Analysis]] = {
    "nothing is scored": lambda: analysed([]),
    "three targets far apart": lambda: both_tracks(FAR_APART),
    "one pair that may be chance, and a gap": lambda: both_tracks(
        {"one": "++ +- --", "other": "+- +- +-"}
    ),
    "what one track alone shows": lambda: both_tracks(
        {"holds": HOLDS, "wavers": WAVERS}, {"holds": HOLDS, "wavers": "+- -- +- ++ ++ +-"}
    ),
    "a track of one scenario": lambda: both_tracks(
        {"holds": "++", "wavers": "--"}, {"holds": "++ +-", "wavers": "-- --"}
    ),
    "one target that passes all": lambda: analysed(outcomes({"holds": "++ ++"})),
    "more pairs than are named": lambda: both_tracks(MANY),
    "a single scenario": lambda: analysed(outcomes({"one": "++", "other": "--"})),
    "scenarios of one group": lambda: analysed(outcomes({"one": "+ - + + -", "other": "+ - + -"})),
    "some unscored": lambda: both_tracks({"one": "++ +? --", "other": "+- ++ ??"}),
    "samples that disagree, of many targets": lambda: analysed(
        outcomes({f"t{n}": "++-- +-+- ++?+" for n in range(8)}, samples=2)
    ),
    "a metric that all pass": lambda: analysed(outcomes({"one": "++", "other": "+?", "no": "??"})),
    "a metric that none passes": lambda: analysed(outcomes({"one": "--", "other": "-?"})),
    "two judges": lambda: judged(("mild", 0), ("strict", 0)),
    "two judges, one of them twice": lambda: judged(("mild", 0), ("strict", 0), ("strict", 1)),
    "two judges that agree": lambda: analysed(
        [
            replace(one, votes=(CastVote("mild", 0, True), CastVote("strict", 0, True)))
            for one in outcomes({"holds": "++ ++ ++"})
        ]
    ),
    "several benchmarks": lambda: overall(
        [benchmark(f"b{n}", shares(a=0.95, b=0.3), shares(a=0.9, b=0.2)) for n in range(5)]
    ),
}


def test_answers_and_findings_read_as_approved() -> None:
    approve("\n\n".join(f"# {name}\n{said(make())}" for name, make in CASES.items()))


@pytest.mark.exhaustive
def test_forty_targets_are_told_in_few_words() -> None:
    pictures = {f"t{n:02d}": mixed(1 - n / 39, 12, 2) for n in range(40)}
    analysis = analysed(outcomes(pictures))
    assert analysis.family.pairs == 780
    assert max(len(finding.text) for finding in findings(analysis)) < 400


def test_what_the_marks_mean_is_said_with_the_family() -> None:
    found = outcomes({"holds": mixed(0.9), "wavers": mixed(0.5)})
    among = "among 4 comparisons: 1 pair of targets, 3 demographic gaps"
    promise = "✓ significant: of results like these, at most 5% carry any false ✓"
    assert marks_mean(analysed(found)) == f"{promise}, {among}."
    alike = outcomes({"one": mixed(0.5), "other": mixed(0.5)})
    assert marks_mean(analysed(alike)) == f"Nothing is significant, {among}."


def test_where_only_one_answer_was_given_there_is_no_alpha_and_the_reason() -> None:
    always, wavers = analysed(
        outcomes({"always": "++ ++", "wavers": "+- ++"}, metric=METRICS[0], samples=2)
    ).targets
    assert always.agreement is not None
    assert coefficients(always.agreement) == ["AC1 1.00", NO_ALPHA]
    assert wavers.agreement is not None
    assert len(coefficients(wavers.agreement)) == 2
    assert NO_ALPHA not in coefficients(wavers.agreement)


# Several benchmarks put into one result: what counts, what is compared, and what is said_of_all o


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


def said_of_all(found: Overall) -> str:
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
    approve(said_of_all(found))


def test_of_few_benchmarks_it_is_said_that_nothing_is_said_of_others() -> None:
    few = [benchmark(f"b{n}", shares(a=0.9, b=0.4)) for n in range(ENOUGH_BENCHMARKS - 1)]
    found = overall(few)
    assert not found.on_like
    assert found.targets[0].new_metrics[Track.POSITIVE] is None
    approve(said_of_all(found))

    enough = overall([*few, benchmark("last", shares(a=0.9, b=0.4))])
    assert [one.benchmarks for one in enough.on_like] == [ENOUGH_BENCHMARKS]
    assert (enough.family.size, enough.family.pairs_on_like) == (2, 1)
    beyond = enough.targets[0].new_metrics[Track.POSITIVE]
    assert beyond is not None
    assert beyond.base_scenarios == ENOUGH_BENCHMARKS
    approve(said_of_all(enough))


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
    text = said_of_all(found)
    approve(text)


def test_what_is_unscored_is_bounded_by_the_mean_of_the_benchmarks_bounds() -> None:
    whole, torn = {"a": "++++ ++++ ++++"}, {"a": "??-- ----"}
    found = overall([benchmark("whole", whole), benchmark("torn", torn)])
    rate = found.targets[0].tracks[Track.POSITIVE]
    assert (rate.rate, rate.missing) == (0.5, 2)
    assert (rate.if_missing_failed, rate.if_missing_passed) == (0.5, 0.625)
    approve(said_of_all(found))


def test_nothing_scored_anywhere_says_so_and_marks_nothing() -> None:
    found = overall([benchmark("one", {"a": "? ?", "b": "? ?"})])
    assert (found.family.size, list(found.comparisons), found.metrics) == (0, [], [])
    approve(said_of_all(found))
    assert overall([]).targets == []


def test_positive_and_negative_metrics_stay_apart() -> None:
    found = overall([benchmark("one", shares(a=1.0, b=0.1), shares(a=0.1, b=1.0))])
    sure = {
        comparison.track: comparison.left if comparison.difference > 0 else comparison.right
        for comparison in found.comparisons
    }
    assert sure == {Track.POSITIVE: "a", Track.NEGATIVE: "b"}
    assert found.compared_on == [Track.POSITIVE, Track.NEGATIVE]
    assert "all metrics" not in said_of_all(found)


def test_a_benchmark_of_one_scenario_is_left_out_of_the_pairs_and_that_is_said() -> None:
    every = [benchmark("many", shares(a=0.9, b=0.5)), benchmark("single", {"a": "++", "b": "--"})]
    found = overall(every)
    assert found.comparisons[0].benchmarks == 1
    approve(said_of_all(found))


def test_landmarks_that_nobody_checked_are_counted_over_all_benchmarks() -> None:
    def audited(name: str, checked: int | None) -> Analysis:
        audits = {
            "a": UserAuditResult(
                of=10, looked_at=10, invalid=0, faults={}, landmarks_checked=checked
            )
        }
        return replace(benchmark(name, shares(a=0.5)), user_audits=audits)

    approve(said_of_all(overall([audited("one", 4), audited("two", 7)])))
    assert "carried out its" not in said_of_all(overall([audited("one", None)]))
