"""The paragraphs for a paper say the figures of the analysis, and only formulas that were used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import sqrt

import pytest

from engine.analysis.figures import MetricInfo
from engine.analysis.methods import (
    AGREEMENT,
    COMPARING,
    NEW_METRICS,
    RATES,
    methods,
)
from engine.analysis.provenance import Provenance
from engine.benchmark import Track
from engine.statistics import paired
from engine.statistics.agreement import agreement
from engine.statistics.clusters import Cluster
from engine.statistics.distributions import critical, wilson
from engine.statistics.rates import benchmark_rate, metric_rate, new_metrics_rate
from tests.approval import approve, sentences_with
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
    approve(played)
    approve(counted)
    approve(formulas)
    assert f"the family is {found.family}." in formulas
    approve(made)


def test_only_a_user_model_that_was_told_the_definition_is_said_to_know_it() -> None:
    said: list[str] = []
    for forms in (["json"], ["plain"], ["json", "plain"]):
        made = replace(MADE, settings={"user_model": [{"form": form} for form in forms]})
        found = replace(analysed(outcomes({"holds": "++"})), provenances={"holds": made})
        [words] = [each for each in methods(found)[0].split(". ") if "by person" in each]
        said.append(words)
    approve("\n".join(said))


def test_of_nothing_only_that_is_said() -> None:
    said = methods(analysed([]))
    approve(said[-1])
    assert len(said) == 2
    unscored = methods(analysed(outcomes({"holds": "?? ??"})))
    approve(unscored[1])
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
    freedom = count - 1
    drawn_rho = (freedom * rho + 4 * 0.3) / (freedom + 4)
    deff = 1 + (4 - 1) * drawn_rho
    worth = rows / deff
    drawn = (worth * p + p) / (worth + 1)
    expected = p * (1 - p) * deff / rows * min(1.0, drawn * (1 - drawn) / (p * (1 - p)))
    moderated = (freedom * own + 4 * expected) / (freedom + 4)
    variance = max(moderated, own) + 0.08 * ((p - 0.5) / count) ** 2
    assert found.effective == pytest.approx(min(p * (1 - p) / variance, rows))
    assert found.freedom == freedom + max(freedom, 4)
    assert found.interval == wilson(p, found.effective, critical(found.freedom))
    always = metric_rate([Cluster.passing(4, 4)] * 6, rho)
    assert always is not None
    assert always.effective == pytest.approx(rows / deff)
    said = "f + max(f, 4) degrees", "the weight 4 for each", "(fρ + 4 · 0.3) / (f + 4)", "0.08((p"
    for words in said:
        assert words in RATES


def test_the_lower_end_is_the_least_with_some_of_the_worst_scenarios_as_the_sentence_says() -> None:
    # 4 scenarios of 8 rows, one failure in each: one failure in one alone has the lower end
    spread, one = ([Cluster.passing(n, 8) for n in each] for each in ((7,) * 4, (7, 8, 8, 8)))
    found, worst = metric_rate(spread, 0.0), metric_rate(one, 0.0)
    assert found is not None
    assert worst is not None
    own = wilson(found.rate, found.effective, critical(found.freedom))
    assert own.low > worst.interval.low == found.interval.low
    approve(sentences_with(RATES, "the least of"))


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
    expected, depends = paired._EXPECTED_FREEDOM, paired._EXPECTED_DEPENDENCE
    assert f"weighs {expected} / (1 + {depends}(m′ − 1)) degrees of freedom" in COMPARING
    assert f"it weighs {paired._SHARED_FREEDOM} degrees of freedom" in COMPARING
    assert paired.FEWEST_PAIRS == 0.5
    assert "at least ½ / n_e²" in COMPARING
    # nothing differs, and no likeness can be seen: each of 9 base scenarios is one pair
    found = paired.mean_difference([[Cluster.of([0.0, 0.0])] * 9])
    assert found is not None
    assert found.error == pytest.approx(sqrt(0.5) / 9)


def test_pairs_share_their_overdispersion_as_the_sentence_says() -> None:
    passed = {"a": (4, 3, 4, 1), "b": (3, 1, 2, 0), "c": (4, 2, 1, 2), "d": (0, 1, 2, 0)}
    answers = {
        target: {
            "m": {f"s{n}": {f"v{i}": float(i < of) for i in range(4)} for n, of in enumerate(each)}
        }
        for target, each in passed.items()
    }
    strata = [paired.differences(*both) for both in combinations(answers.values(), 2)]
    spreads, binomials, alone = [], [], []
    for [clusters] in strata:
        estimate = sum(one.total for one in clusters) / 16
        own = paired.drawn_error([clusters], estimate, 16)
        assert own is not None
        spreads.append(own.error**2)
        rate = sum(one.both for one in clusters) / 32
        binomials.append(2 * 16 * rate * (1 - rate) / 16**2)
        without = paired.mean_difference([clusters])
        assert without is not None
        assert without.error is not None
        alone.append(without.error**2)
    overdispersion, prior = sum(spreads) / sum(binomials), 6 / (1 + 0.1 * 3)
    # 3 degrees of each pair, and twice those as there are two targets besides
    for one, variance, binomial, [clusters] in zip(
        paired.pair_differences(strata), alone, binomials, strata, strict=True
    ):
        assert one is not None
        rate = sum(each.both for each in clusters) / 32
        weighed = ((3 + prior) * variance + 6 * overdispersion * binomial) / (9 + prior)
        assert one.error == pytest.approx(sqrt(weighed + 2 * ((rate - 0.5) / 4) ** 2))
        assert one.freedom == int(9 + prior)
    for words in ("T − 2 times those of the pair", "2((p − ½) / B)² is added"):
        assert words in COMPARING


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
    approve(sentences_with(AGREEMENT, "the interval of (1 +"))


def test_where_no_likeness_can_be_told_that_is_said() -> None:
    [_, _, formulas] = methods(analysed(outcomes({"holds": "++ ++ ++", "wavers": "-- -- --"})))
    approve(formulas)


def test_agreement_is_explained_where_there_is_some() -> None:
    twice = analysed(outcomes({"holds": "++ +- ++"}, samples=2))
    [_, _, formulas] = methods(twice)
    assert AGREEMENT in formulas
    assert COMPARING not in formulas  # of one target
