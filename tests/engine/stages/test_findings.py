"""What results say: in about ten lines, and in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from engine.analysis.figures import Analysis, CastVote
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
from engine.display import percent, span
from tests.approval import approve
from tests.engine.stages.test_overall import benchmark, shares
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
    "several benchmarks": lambda: overall(
        [benchmark(f"b{n}", shares(a=0.95, b=0.3), shares(a=0.9, b=0.2)) for n in range(5)]
    ),
}


def test_answers_and_findings_read_as_approved() -> None:
    approve("\n\n".join(f"# {name}\n{said(make())}" for name, make in CASES.items()))


@pytest.mark.exhaustive
def test_a_hundred_targets_are_told_in_few_words() -> None:
    pictures = {f"t{n:02d}": mixed(1 - n / 99, 12, 2) for n in range(100)}
    analysis = analysed(outcomes(pictures))
    assert analysis.family.pairs == 4950
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
