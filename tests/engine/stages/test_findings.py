"""What is sure and what is not, in sentences."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.analysis.figures import CastVote
from engine.analysis.findings import Certainty, findings, marks_mean
from engine.analysis.number_words import (
    NO_ALPHA,
    coefficients,
    p_value_words,
    points,
    points_interval,
)
from engine.display import percent, span
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


def said(kind: Certainty, *pictures: dict[str, str], samples: int = 1) -> list[str]:
    found = [
        one
        for metric, picture in zip(METRICS, pictures, strict=False)
        for one in outcomes(picture, metric=metric, samples=samples)
    ]
    return [finding.text for finding in findings(analysed(found)) if finding.kind is kind]


def test_a_sure_difference_is_told_from_the_side_that_passes_more_often() -> None:
    text, ranks = said(Certainty.SIGNIFICANT, {"gives-in": mixed(0.2), "holds": mixed(0.9)})
    approve(ranks)
    approve(text)


def test_what_one_track_says_alone_is_told_in_short() -> None:
    holds, wavers = "++ ++ ++ +- ++ ++", "-- +- -- -- +- --"
    pictures = {"holds": holds, "wavers": wavers}, {"holds": holds, "wavers": "+- -- +- ++ ++ +-"}
    approve(said(Certainty.SIGNIFICANT, *pictures)[0])
    alone = "alone: 1 of 1 difference between targets may be chance (6 scenarios)"
    assert f"negative metrics {alone}" in said(Certainty.OPEN, *pictures)


def test_what_a_track_of_one_scenario_says_alone_is_not_tested() -> None:
    pictures = {"holds": "++", "wavers": "--"}, {"holds": "++ +-", "wavers": "-- --"}
    approve(said(Certainty.OPEN, *pictures))


def test_a_difference_that_may_be_chance_is_told_as_such() -> None:
    alike, differing = (
        {"one": "++ +- --", "other": "+- ++ --"},
        {"one": "++ ++ --", "other": "+- ++ --"},
    )
    assert any("differ by 0 points [−" in text for text in said(Certainty.OPEN, alike))
    assert any("may be chance" in text for text in said(Certainty.OPEN, differing))
    assert said(Certainty.SIGNIFICANT, {"one": "++ +- --", "other": "+- ++ --"}) == []


def test_many_pairs_are_counted_and_the_leaders_named() -> None:
    pictures = {f"t{n}": mixed(share) for n, share in enumerate((0.95, 0.92, 0.4, 0.2, 0.1))}
    text, _ = said(Certainty.SIGNIFICANT, pictures)
    approve(text)


def test_ranks_are_said_where_any_is_ruled_out() -> None:
    pictures = {"one": "++ +- --", "other": "+- ++ --"}
    assert not any("rank" in text for text in said(Certainty.SIGNIFICANT, pictures))
    assert not any("rank" in text for text in said(Certainty.OPEN, pictures))
    shares = {"best": 0.95, "mid": 0.55, "low": 0.05}
    pictures = {name: mixed(share) for name, share in shares.items()} | {"wide": mixed(0.55, 3)}
    *_, ranks = said(Certainty.SIGNIFICANT, pictures)
    approve(ranks)


def test_gaps_that_may_be_chance_are_counted_and_what_is_not_tested_is_named() -> None:
    both = "++++ +-+- ++-- ++++ +-+-"
    gaps = "none of 3 demographic gaps by age is significant: chance may explain every one"
    assert gaps in said(Certainty.OPEN, {"one": both, "other": both})
    cautions = said(Certainty.CAUTION, {"one": both, "other": both})
    [caveat] = [text for text in cautions if "age" in text]
    approve(caveat)
    for picture, why in (
        ("+ - + + -", "all that was scored is of one group, “younger”"),
        ("+-", "fewer than two scored scenarios have several of its groups"),
    ):
        assert f"age: not tested: {why}" in said(
            Certainty.CAUTION, {"one": picture, "other": picture}
        )
        assert not any("gap" in text for text in said(Certainty.OPEN, {"one": picture}))


def test_too_few_scenarios_are_said() -> None:
    texts = said(Certainty.CAUTION, {"holds": "++ ++", "wavers": "+- ++"})
    approve(texts)
    [unlike] = [
        text
        for text in said(Certainty.CAUTION, {"holds": "++ ++ ++ ++", "wavers": "+- ++"})
        if "rates rest on" in text
    ]
    approve(unlike)


@pytest.mark.parametrize(
    "pictures",
    [{"one": "++ -- +-"}, {"one": "?? ??", "other": "?? ??"}, {"one": "+", "other": "-"}],
    ids=["one target", "no verdict", "one scenario"],
)
def test_where_nothing_can_be_compared_nothing_is_marked(pictures: dict[str, str]) -> None:
    analysis = analysed(outcomes(pictures))
    assert all(finding.kind is not Certainty.SIGNIFICANT for finding in findings(analysis))


@pytest.mark.exhaustive
def test_a_hundred_targets_are_told_in_few_words() -> None:
    pictures = {f"t{n:02d}": mixed(1 - n / 99, 12, 2) for n in range(100)}
    analysis = analysed(outcomes(pictures))
    assert analysis.family.pairs == 4950
    texts = [finding.text for finding in findings(analysis)]
    approve(texts)
    assert max(map(len, texts)) < 400


def test_what_the_marks_mean_is_said_with_the_family() -> None:
    found = outcomes({"holds": mixed(0.9), "wavers": mixed(0.5)})
    among = "among 4 comparisons: 1 pair of targets, 3 demographic gaps"
    promise = "✓ significant: of results like these, at most 5% carry any false ✓"
    assert marks_mean(analysed(found)) == f"{promise}, {among}."
    alike = outcomes({"one": mixed(0.5), "other": mixed(0.5)})
    assert marks_mean(analysed(alike)) == f"Nothing is significant, {among}."


def test_what_is_unscored_is_said_with_what_it_could_change() -> None:
    texts = said(Certainty.CAUTION, {"holds": "+++? ++?-"})
    approve(texts)


def test_samples_that_disagree_are_said() -> None:
    texts = said(Certainty.CAUTION, {"wavers": "++-- +-+- ++++"}, samples=2)
    approve(texts)


def test_where_only_one_answer_was_given_there_is_no_alpha_and_the_reason() -> None:
    always, wavers = analysed(
        outcomes({"always": "++ ++", "wavers": "+- ++"}, metric=METRICS[0], samples=2)
    ).targets
    assert always.agreement is not None
    assert coefficients(always.agreement) == ["AC1 1.00", NO_ALPHA]
    assert wavers.agreement is not None
    assert len(coefficients(wavers.agreement)) == 2
    assert NO_ALPHA not in coefficients(wavers.agreement)


def test_what_concerns_many_targets_is_told_once() -> None:
    pictures = {f"t{n}": "++-- +-+- ++?+" for n in range(8)} | {"t8": "+-+- +-+- +-+-"}
    texts = said(Certainty.CAUTION, pictures, samples=2)
    approve(texts)
    assert len(texts) == 4


def test_a_metric_without_signal_is_said() -> None:
    told = "m01 does not separate the targets: every scored conversation "
    for sign, how in (("+", "passes"), ("-", "fails")):
        unscored = {"holds": f"{sign}{sign}", "wavers": f"{sign}?", "silent": "??"}
        assert f"{told}{how}" in said(Certainty.CAUTION, unscored)


def test_nothing_is_said_about_nothing() -> None:
    assert findings(analysed([], targets=["holds", "wavers"])) == []


def agreement_told(*votes: tuple[str, int], alike: bool = False) -> list[str]:
    """The sentences on agreement where the first vote is always a pass."""
    found = [
        replace(
            outcome,
            votes=tuple(
                CastVote(judge, number, outcome.passed if alike or place else True)
                for place, (judge, number) in enumerate(votes)
            ),
        )
        for outcome in outcomes({"holds": "+- ++ -+"})
    ]
    return [str(finding) for finding in findings(analysed(found)) if "agree in" in str(finding)]


def test_two_judges_are_told_beside_one_judge_twice_or_with_the_command_for_it() -> None:
    [alone] = agreement_told(("mild", 0), ("strict", 0))
    approve(alone)
    told = agreement_told(("mild", 0), ("strict", 0), ("strict", 1))
    assert not any("--replay" in one for one in told)


def test_full_agreement_is_no_caution() -> None:
    assert agreement_told(("mild", 0), ("strict", 0), ("strict", 1), alike=True) == []
