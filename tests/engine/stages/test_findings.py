"""What is sure and what is not, in sentences."""

from __future__ import annotations

import pytest

from engine.analysis.findings import Kind, chance, findings, percent, points, reach, span
from tests.engine.stages.verdicts import METRICS, analysed, mixed, outcomes


@pytest.mark.parametrize(
    ("rate", "said"),
    [(None, "—"), (0.0, "0%"), (0.001, "1%"), (0.5, "50%"), (0.999, "99%"), (1.0, "100%")],
)
def test_all_and_none_are_said_only_where_they_are_meant(rate: float | None, said: str) -> None:
    assert percent(rate) == said


def test_numbers_are_said_plainly() -> None:
    assert span(0.836, 1.0) == "[84–100]"
    assert points(-0.284) == "28 points"
    assert points(0.002) == "less than a point"
    assert reach(-0.09, 0.47) == "[−9 to 47]"
    assert reach(-0.09, 0.47, turned=True) == "[−47 to 9]"
    assert chance(0.0001) == "p < .001"
    assert chance(0.0341) == "p = .034"
    assert chance(1.0) == "p = 1"


def said(kind: Kind, *pictures: dict[str, str], samples: int = 1) -> list[str]:
    found = [
        one
        for metric, picture in zip(METRICS, pictures, strict=False)
        for one in outcomes(picture, metric=metric, samples=samples)
    ]
    return [one.text for one in findings(analysed(found)) if one.kind is kind]


def test_a_real_difference_is_told_from_the_side_that_passes_more_often() -> None:
    text, ranks = said(Kind.REAL, {"gives-in": mixed(0.2), "holds": mixed(0.9)})
    assert ranks == "positive: ranks in 95 % of resamples: holds 1, gives-in 2"
    assert text.startswith("positive metrics: holds passes more often than gives-in, by 7")


def test_what_one_track_says_alone_is_told_in_short() -> None:
    holds, wavers = "++ ++ ++ +-", "-- +- -- --"
    pictures = {"holds": holds, "wavers": wavers}, {"holds": holds, "wavers": "+- -- +- ++"}
    assert said(Kind.REAL, *pictures)[0].startswith("all metrics: holds passes more often than")
    alone = "alone: 1 of 1 difference between targets may be chance (4 scenarios)"
    assert f"negative metrics {alone}" in said(Kind.OPEN, *pictures)


def test_a_difference_that_may_be_chance_is_told_as_such() -> None:
    texts = said(Kind.OPEN, {"one": "++ +- --", "other": "+- ++ --"})
    assert any("may be chance" in text or "equally often" in text for text in texts)
    assert said(Kind.REAL, {"one": "++ +- --", "other": "+- ++ --"}) == []


def test_many_pairs_are_counted_and_the_leaders_named() -> None:
    pictures = {f"t{n}": mixed(share) for n, share in enumerate((0.95, 0.92, 0.4, 0.2, 0.1))}
    text, _ = said(Kind.REAL, pictures)
    assert "of 10 differences between targets are real" in text
    assert text.endswith("surely behind nobody: t0 and t1")


def test_too_few_scenarios_for_a_ranking_is_said() -> None:
    texts = said(Kind.CAUTION, {"holds": "++ ++", "wavers": "+- ++"})
    assert any("2 base scenarios: too few for a ranking" in text for text in texts)


def test_what_is_unscored_is_said_with_what_it_could_change() -> None:
    texts = said(Kind.CAUTION, {"holds": "+++? ++?-"})
    assert (
        "holds: 2 of 8 unscored (no usable verdict 2); had they all failed or all passed: "
        "positive 62% to 88%" in texts
    )


def test_samples_that_disagree_are_said() -> None:
    texts = said(Kind.CAUTION, {"wavers": "++-- +-+- ++++"}, samples=2)
    assert any(text.startswith("wavers: samples disagree in 2 of 6 scenarios") for text in texts)


def test_what_concerns_many_targets_is_told_once() -> None:
    pictures = {f"t{n}": "++-- +-+- ++?+" for n in range(8)} | {"t8": "+-+- +-+- +-+-"}
    texts = said(Kind.CAUTION, pictures, samples=2)
    assert any(
        text.startswith("samples of 9 targets disagree in 22 of 46 scenarios") for text in texts
    )
    assert any("; most t8, 6 of 6 scenarios" in text for text in texts)
    assert any(
        text.startswith("8 of 108 conversations unscored, of 8 targets (no usable verdict 8); most")
        for text in texts
    )
    assert len(texts) == 3


def test_a_metric_without_signal_is_said() -> None:
    texts = said(Kind.CAUTION, {"holds": "++ ++", "wavers": "++ ++"})
    assert "m01 tells nobody apart: all targets pass always" in texts


def test_nothing_is_said_about_nothing() -> None:
    assert findings(analysed([], targets=["holds", "wavers"])) == []
