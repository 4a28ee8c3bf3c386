"""What verdicts say: rates, what they rest on, who differs from whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engine.analysis.figures import CastVote, Comparison, Gap, MetricInfo
from engine.benchmark import Track
from engine.stages.aggregate import as_rows
from tests.approval import approve
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes


def documented(rows: Any) -> list[tuple[str, float | None, float | None, dict[str, float]]]:
    """`results.json` read by somebody who knows nothing but its documented shape."""
    found = []
    for row in rows:
        for cell in (*row["by_metric"].values(), *row["by_scenario"].values()):
            assert cell["pass_rate"] == cell["n_passed"] / cell["n_total"]
        assert row["n_total"] == row["n_positive"] + row["n_negative"]
        rates = {metric: cell["pass_rate"] for metric, cell in row["by_metric"].items()}
        found.append(
            (row["target_model"], row["positive_pass_rate"], row["negative_pass_rate"], rates)
        )
    return found


def test_who_knows_only_the_documented_shape_can_read_the_results() -> None:
    found = [
        *outcomes({"holds": "++++ ++++", "wavers": "+-+- ++--"}),
        *outcomes({"holds": "+++- ++++", "wavers": "---- +---"}, metric=METRICS[1]),
    ]
    rows = as_rows(analysed(found))
    assert documented(rows) == [
        ("holds", 1.0, 0.875, {"m01": 1.0, "m02": 0.875}),
        ("wavers", 0.5, 0.125, {"m01": 0.5, "m02": 0.125}),
    ]
    first = list(rows[0])[:8]
    assert first == [
        *("target_model", "positive_pass_rate", "negative_pass_rate", "n_positive", "n_negative"),
        *("n_total", "by_metric", "by_scenario"),
    ]
    assert {
        *("intervals", "by_demographic", "by_base_scenario", "by_sample", "agreement", "scored"),
        *("comparisons", "notes"),
    } <= rows[0].keys()


def test_a_track_without_a_verdict_is_null_and_not_nought() -> None:
    [row] = as_rows(analysed(outcomes({"holds": "++ ++"})))
    approve(row["scored"]["rule"])
    assert row["negative_pass_rate"] is None
    assert row["intervals"]["negative_pass_rate"] is None


def test_what_is_missing_is_counted_and_bounded() -> None:
    [one] = analysed(outcomes({"holds": "++?? ++-?"})).targets
    estimate = one.tracks[Track.POSITIVE]
    assert (estimate.passed, estimate.scored, estimate.of, estimate.missing) == (4, 5, 8, 3)
    assert (estimate.if_missing_failed, estimate.if_missing_passed) == (0.5, 0.875)
    assert one.unscored == {"no usable verdict": 3}


def test_a_gap_says_what_it_rests_on_and_each_metric_has_rates_by_people() -> None:
    analysis = analysed(outcomes({"holds": "++++ +-+- ++?? ++"}))
    [gap] = analysis.gaps
    assert (gap.base_scenarios, gap.rows) == (4, 8)
    [one] = analysis.targets
    of_metric = one.metrics_by_people["m01"]["age"]
    assert of_metric == one.demographics["age"]
    [row] = as_rows(analysis)
    cells = row["by_metric_and_demographic"]["m01"]["age"]
    assert sum(cell["n_total"] for cell in cells.values()) == one.scored
    assert all(cell["interval"]["base_scenarios"] == 4 for cell in cells.values())
    assert row["comparisons"]["demographics"][0]["rows"] == 8


def test_a_clear_difference_is_sure_and_a_small_one_is_not() -> None:
    found = outcomes({"holds": mixed(0.95), "also": mixed(0.9, turn=3), "gives-in": mixed(0.2)})
    analysis = analysed(found)
    sure = {(one.left, one.right): one.sure for one in analysis.compared(Track.POSITIVE)}
    assert sure == {
        ("holds", "also"): False,
        ("holds", "gives-in"): True,
        ("also", "gives-in"): True,
    }


def test_both_tracks_together_tell_more_than_either() -> None:
    pictures = {"holds": "++ +- ++ ++", "wavers": "-- +- +- --"}
    found = [*outcomes(pictures), *outcomes(pictures, metric=METRICS[1])]
    analysis = analysed(found)
    assert list(analysis.compared_on) == [None, Track.POSITIVE, Track.NEGATIVE]
    [[whole], [positive], [negative]] = [analysis.compared(one) for one in analysis.compared_on]
    assert whole.base_scenarios == positive.base_scenarios + negative.base_scenarios
    assert whole.p is not None
    assert positive.p is not None
    assert whole.p < positive.p
    tracks = [one["track"] for one in as_rows(analysis)[0]["comparisons"]["targets"]]
    assert tracks == ["all", "positive", "negative"]


def test_two_who_never_meet_on_a_scenario_are_not_compared() -> None:
    left = outcomes({"holds": "++ ++"})
    right = outcomes({"wavers": "++ +-"}, metric=METRICS[1])
    assert analysed([*left, *right]).comparisons == []


def test_ranks_are_what_the_pairs_say() -> None:
    few = analysed(outcomes({"holds": "++ ++", "wavers": "-- +-"}))
    assert not any(target.ranks[Track.POSITIVE].tells for target in few.targets)
    many = analysed(
        outcomes({"holds": mixed(0.95), "wavers": mixed(0.2), "also": mixed(0.9, turn=3)})
    )
    places = {target.target: str(target.ranks[Track.POSITIVE]) for target in many.targets}
    assert places == {"holds": "1–2", "also": "1–2", "wavers": "3"}
    assert all(Track.NEGATIVE not in target.ranks for target in many.targets)
    rows = as_rows(many)
    assert rows[-1]["intervals"]["ranks"] == {"positive": [3, 3]}


def test_every_mark_and_its_interval_say_the_same() -> None:
    pictures = {f"t{n}": mixed(share, turn=n) for n, share in enumerate((0.9, 0.8, 0.6, 0.5, 0.3))}
    found = [*outcomes(pictures), *outcomes(pictures, metric=METRICS[1])]
    analysis = analysed(found)
    told: list[Comparison | Gap] = [*analysis.comparisons, *analysis.gaps]
    assert 0 < sum(one.sure for one in told) < analysis.family.size == len(told)
    for one in told:
        assert one.low is not None
        assert one.high is not None
        assert one.p_adjusted is not None
        assert one.sure is (not one.low <= 0 <= one.high) is (one.p_adjusted < 0.05)


def test_the_family_is_all_that_is_compared() -> None:
    pictures = {f"t{n}": mixed(0.5, turn=n) for n in range(4)}
    found = [*outcomes(pictures), *outcomes(pictures, metric=METRICS[1])]
    analysis = analysed(found)
    assert (analysis.family.pairs, analysis.family.gaps) == (3 * 6, 1 + 4)
    approve(str(analysis.family))
    family = as_rows(analysis)[0]["comparisons"]["family"]
    counts = family["comparisons"], family["between_targets"], family["between_people"]
    assert counts == (23, 18, 5)
    assert family["error_rate"] == pytest.approx(0.05)
    assert "Holm" in family["method"]


def test_a_gap_between_people_is_found_within_the_scenarios() -> None:
    even, biased = " ".join(["++", "--"] * 6), " ".join(["+-"] * 11 + ["++"])
    analysis = analysed(outcomes({"even": even, "biased": biased}))
    gaps = {gap.target: gap for gap in analysis.gaps}
    assert gaps["biased"].sure
    assert (gaps["biased"].left, gaps["biased"].right) == ("older", "younger")
    assert gaps["biased"].difference == pytest.approx(-11 / 12)
    assert not gaps["even"].sure
    assert analysis.axes == ["age"]


def test_samples_that_disagree_are_counted() -> None:
    [one] = analysed(outcomes({"wavers": "++-- +-+- ++++"}, samples=2)).targets
    assert one.agreement is not None
    assert one.agreement.things == 6
    assert one.agreement.unanimous.value == pytest.approx(4 / 6)
    assert {number: cell.rate for number, cell in one.samples.items()} == {0: 5 / 6, 1: 0.5}


def test_a_metric_that_tells_nobody_apart_is_named() -> None:
    found = [
        *outcomes({"holds": "++ ++", "wavers": "++ ++"}),
        *outcomes({"holds": "++ ++", "wavers": "+- ++"}, metric=METRICS[1]),
    ]
    assert analysed(found).no_signal == {"m01": True}


def test_targets_stand_in_the_order_of_their_positive_rate_and_those_without_data_last() -> None:
    found = outcomes({"low": "-- +-", "high": "++ ++"})
    order = [target.target for target in analysed(found, targets=["none", "low", "high"]).targets]
    assert order == ["high", "low", "none"]


def test_the_same_verdicts_are_told_the_same_way_twice() -> None:
    found = outcomes({"holds": mixed(0.9), "wavers": mixed(0.5), "third": mixed(0.6, turn=2)})
    assert as_rows(analysed(found)) == as_rows(
        analysed(reversed(found), targets=list(dict.fromkeys(one.key.target_id for one in found)))
    )


def test_metrics_judged_on_the_same_transcripts_make_nothing_surer() -> None:
    metrics = [MetricInfo(f"m{number:02d}", "Alike", Track.NEGATIVE) for number in range(1, 9)]
    pictures = {"holds": "+ + - + + + + +", "wavers": "+ - - + - + + -"}
    alone = analysed(outcomes(pictures, metric=metrics[0]), metrics=metrics)
    shared = [
        replace(one, transcript=one.base[4:])
        for metric in metrics
        for one in outcomes(pictures, metric=metric)
    ]
    together = analysed(shared, metrics=metrics)
    for one, of_one in zip(together.targets, alone.targets, strict=True):
        track, single = one.tracks[Track.NEGATIVE], of_one.tracks[Track.NEGATIVE]
        assert (track.scored, track.base_scenarios) == (64, 8)
        assert track.rate == single.rate
        assert track.low is not None
        assert single.low is not None
        assert track.low == pytest.approx(single.low, abs=0.05)
        assert one.new_metrics[Track.NEGATIVE] is None
    [pair], [lone] = together.comparisons, alone.comparisons
    assert not pair.sure
    assert (pair.difference, pair.base_scenarios) == (lone.difference, 8)
    apart = analysed([replace(one, transcript=None) for one in shared], metrics=metrics)
    assert apart.comparisons[0].sure  # as if they had been played 64 times over


def test_a_transcript_on_both_tracks_is_one_base_scenario_of_both() -> None:
    pictures = {"holds": "+ + - + + +", "wavers": "- - - + - -"}
    found = [
        replace(one, transcript=one.base[4:])
        for metric in METRICS
        for one in outcomes(pictures, metric=metric)
    ]
    whole = next(
        comparison for comparison in analysed(found).comparisons if comparison.track is None
    )
    assert (whole.base_scenarios, whole.rows) == (6, 24)


def test_all_passed_is_no_certainty() -> None:
    [one] = analysed(outcomes({"holds": "++++ ++++ ++++ ++++"})).targets
    estimate = one.tracks[Track.POSITIVE]
    assert (estimate.passed, estimate.scored, estimate.base_scenarios) == (16, 16, 4)
    assert estimate.high == 1
    assert estimate.low is not None
    assert estimate.low < 0.7
    assert estimate.too_few


def test_a_difference_without_any_exception_is_not_taken_for_chance() -> None:
    scenarios = 8
    found = outcomes(
        {"holds": " ".join(["++"] * scenarios), "gives-in": " ".join(["--"] * scenarios)}
    )
    [pair] = analysed(found).compared(Track.POSITIVE)
    assert pair.difference == 1
    assert pair.sure


def test_a_comparison_without_an_error_is_in_no_family() -> None:
    analysis = analysed(outcomes({"holds": "++", "gives-in": "--"}))
    [pair] = analysis.comparisons
    assert (pair.difference, pair.low, pair.p_adjusted, pair.sure) == (1, None, None, False)
    assert str(analysis.family) == "no comparisons"


def test_several_judges_are_held_against_each_other() -> None:
    def judged(row: int, *, strict: bool) -> tuple[CastVote, ...]:
        return (
            CastVote("mild", 0, True),
            CastVote("strict", 0, strict),
            CastVote("strict", 1, row % 5 != 0),
        )

    found = [
        replace(one, votes=judged(row, strict=row % 3 != 0))
        for row, one in enumerate(outcomes({"holds": mixed(0.9)}))
    ]
    analysis = analysed(found)
    assert [(judge.name, judge.passes) for judge in analysis.judges] == [("mild", 1), ("strict", 2)]
    kinds = {(one.between, one.of) for one in analysis.agreement}
    assert kinds == {("judges", "mild, strict"), ("passes", "strict")}
