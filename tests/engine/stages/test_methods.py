"""The paragraphs for a paper say the figures of the analysis, and only formulas that were used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import pytest

from engine.analysis.figures import MetricInfo
from engine.analysis.methods import AGREEMENT, COMPARING, NEW_METRICS, RATES, methods
from engine.analysis.provenance import Provenance
from engine.benchmark import Track
from engine.statistics import paired
from engine.statistics.agreement import agreement
from engine.statistics.clusters import Cluster
from engine.statistics.distributions import critical, wilson
from engine.statistics.rates import benchmark_rate, metric_rate, new_metrics_rate
from tests.engine.stages.verdicts import METRICS, analysed, outcomes

MADE = Provenance(
    version="1.2.3",
    configuration="c0ffee",
    prompts={"simulate": ["aa", "bb"], "evaluate": ["cc"]},
    targets={"gpt-5": ["gpt-5-2026-08-07"]},
    user_models={"person": []},
    checkers={},
    judges={"strict": ["strict"]},
    first_at="2026-01-02T03:04:05+00:00",
    last_at="2026-02-03T04:05:06+00:00",
)


def test_what_was_played_counted_and_made_with_is_said() -> None:
    found = replace(
        analysed(outcomes({"holds": "++ ++ ?+ ++", "wavers": "+- -- ++ --"})),
        provenances={"holds": MADE},
    )
    played, counted, formulas, made = methods(found)
    assert "16 conversations of 2 targets" in played
    assert "rest on 4 base scenarios" in played
    assert "played, turn by turn, by person, told the scenario" in played
    assert "judged by strict, told the metric's definition" in counted
    assert "15 of 16 conversations were scored (no usable verdict 1)." in counted
    assert formulas.startswith(RATES)
    assert COMPARING in formulas
    assert "Bonferroni, with shares of the 5%: 0.02 to pairs of targets, on all metrics" in formulas
    assert f"the family is {found.family}." in formulas
    assert "else by least squares with an effect of each base scenario" in formulas
    assert AGREEMENT not in formulas
    assert made.startswith("Counted by Crosswind 1.2.3, configuration c0ffee. Played and judged")
    assert "evaluate cc, simulate aa, simulate bb." in made
    assert "Servers answered under the names: gpt-5 (gpt-5-2026-08-07)." in made


def test_agreement_is_explained_where_there_is_some() -> None:
    twice = analysed(outcomes({"holds": "++ +- ++"}, samples=2))
    [_, _, formulas] = methods(twice)
    assert AGREEMENT in formulas
    assert COMPARING not in formulas  # of one target


def test_of_nothing_only_that_is_said() -> None:
    said = methods(analysed([]))
    assert "0 of 0 conversations were scored." in said[-1]
    assert len(said) == 2
    unscored = methods(analysed(outcomes({"holds": "?? ??"})))
    assert "0 of 4 conversations were scored (no usable verdict 4)." in unscored[1]
    assert len(unscored) == 2


# What the sentences say of the formulas is what is computed


def _spread(clusters: Sequence[Cluster]) -> float:
    """Of the mean, with C / (C - 1), of base scenarios of as many rows each."""
    means = [cluster.mean for cluster in clusters]
    middle, count = sum(means) / len(means), len(means)
    return sum((mean - middle) ** 2 for mean in means) / (count - 1) / count


def test_the_effective_number_of_a_metric_is_what_the_sentence_says() -> None:
    clusters = [Cluster.passing(passed, 4) for passed in (4, 1, 3, 0, 2, 4)]
    rho, rows, count = 0.2, 24, 6
    found = metric_rate(clusters, rho)
    assert found is not None
    p, own = found.rate, _spread(clusters)
    deff = 1 + (4 - 1) * rho
    worth = rows / deff
    drawn = (worth * p + p) / (worth + 1)
    expected = p * (1 - p) * deff / rows * min(1.0, drawn * (1 - drawn) / (p * (1 - p)))
    freedom = count - 1
    moderated = (freedom * own + 4 * expected) / (freedom + 4)
    variance = max(moderated, own) + 0.25 * ((p - 0.5) / count) ** 2
    assert found.effective == pytest.approx(min(p * (1 - p) / variance, rows))
    assert found.freedom == freedom + max(freedom, 4)
    assert found.interval == wilson(p, found.effective, critical(found.freedom))
    always = metric_rate([Cluster.passing(4, 4)] * 6, rho)
    assert always is not None
    assert always.effective == pytest.approx(rows / deff)
    for said in ("f + max(f, 4) degrees", "the weight 4 for each metric", "¼((p − ½) / B)²"):
        assert said in RATES


def test_the_interval_for_new_metrics_is_what_the_sentence_says() -> None:
    metrics = [[Cluster.passing(passed, 4) for passed in each] for each in ((4, 3), (1, 3), (2, 0))]
    found, within = new_metrics_rate(metrics, 0.2), benchmark_rate(metrics, 0.2)
    assert found is not None
    assert within is not None
    p, count = found.rate, len(metrics)
    over = _spread(
        [Cluster.passing(round(sum(one.total for one in metric)), 8) for metric in metrics]
    )
    own = over + 0.1 * ((p - 0.5) / count) ** 2
    assert found.effective == pytest.approx(
        p * (1 - p) / max(own, p * (1 - p) / within.effective / 2)
    )
    assert found.interval == wilson(p, found.effective, critical(count - 1))
    always = new_metrics_rate([[Cluster.passing(4, 4)] * 6] * 3, 0.2)
    assert always is not None
    assert always.effective == 3
    for said in ("on M − 1 degrees", "max(V_M, V / 2)", "plus 0.1((p − ½) / M)²", "at most M"):
        assert said in NEW_METRICS


def test_it_is_said_only_where_there_is_such_an_interval() -> None:
    one = outcomes({"holds": "++ +- ++"})
    assert NEW_METRICS not in methods(analysed(one))[2]
    another = MetricInfo("m03", "Says what it costs", Track.POSITIVE)
    two = [*one, *outcomes({"holds": "+- +- --"}, metric=another)]
    assert NEW_METRICS in methods(analysed(two, metrics=[METRICS[0], another]))[2]


def test_the_weights_in_a_difference_are_those_that_the_sentence_says() -> None:
    assert f"by the weight of {paired._BORROWED} of them" in COMPARING
    assert f"weighs {paired._EXPECTED_FREEDOM} degrees of freedom" in COMPARING
    assert f"degrees of freedom are Satterthwaite's (1946) and {paired.FAR_OUT} more" in COMPARING
    assert paired._FEWEST_PAIRS == 0.5
    assert "at least ½ / n_e²" in COMPARING
    # nothing differs, and no likeness can be seen: each of 9 base scenarios is one pair
    found = paired.mean_difference([[Cluster.of([0.0, 0.0])] * 9])
    assert found is not None
    assert found.error == pytest.approx(sqrt(0.5) / 9)


def test_agreement_is_bounded_as_the_sentence_says() -> None:
    answers = [(True, True)] * 9 + [(False, False)] * 9
    found = agreement(answers)
    assert found is not None
    assert found.ac1 is not None
    assert found.alpha is not None
    # all agree, so that there is no error but the bound: n D (1 + c), D disagreeing by chance
    by_chance = {"ac1": 0.5, "alpha": 2 * 18 * 18 / (36 * 35)}
    for figure, worth, freedom in (
        (found.ac1, 18 * by_chance["ac1"] * 2, 2 * 17),
        (found.alpha, 2 * 18 * by_chance["alpha"] * 2, 17),
    ):
        assert figure.interval is not None
        shares = wilson(1.0, worth, critical(freedom))
        assert figure.interval.low == pytest.approx(2 * shares.low - 1)
    assert "the interval of (1 + c) / 2" in AGREEMENT


def test_where_no_likeness_can_be_told_that_is_said() -> None:
    [_, _, formulas] = methods(analysed(outcomes({"holds": "++ ++ ++", "wavers": "-- -- --"})))
    assert "(ρ unknown here, so that each base scenario counts as one row)" in formulas
