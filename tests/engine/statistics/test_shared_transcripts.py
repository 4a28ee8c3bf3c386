"""Conversations of one transcript are not independent: what is said of them, in worlds in which
nothing is to be found or the truth is known."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Final

import pytest

from engine.analysis.calibration import JudgedRow, LabelledRow, calibrate
from engine.analysis.figures import MetricInfo, Outcome
from engine.benchmark import ConversationKey, Track, variant_id
from engine.statistics.clusters import SharedTranscripts
from engine.statistics.design import stratified_sample
from tests.engine.stages.verdicts import AGES, analysed

METRICS: Final = [MetricInfo(f"m{number:02d}", "Alike", Track.NEGATIVE) for number in range(1, 13)]
SCENARIOS: Final = 12
TELLING: Final = 0.9
"""How often a verdict on a transcript is that of its other metrics, too."""
WORLDS: Final = 60


def test_base_scenarios_that_hang_together_by_transcripts_are_one_cluster() -> None:
    rows = [
        ("m1_s1", "b"),
        ("m2_s1", "b"),
        ("m2_s1", "a"),
        ("m3_s1", "a"),
        ("m3_s1", None),
        ("m1_s2", "c"),
        ("m1_s3", None),
    ]
    shared = SharedTranscripts.of(rows)
    assert shared.names == {"m1_s1": "a", "m2_s1": "a", "m3_s1": "a", "m1_s2": "c"}
    assert shared == SharedTranscripts.of(reversed(rows))
    assert shared.place("m1", "m1_s1") == shared.place("m3", "m3_s1")
    assert shared.place("m1", "m1_s2")[0] == shared.place("m1", "m1_s1")[0]
    assert shared.place("m1", "m1_s3") == ("m1", "m1_s3")
    assert shared.cluster("m1_s3") == "m1_s3"


def played(chance: Random, *, known: bool) -> Iterator[Outcome]:
    """Two people ask in each scenario, and none is treated otherwise; 12 metrics look at each
    transcript. Whether that is known makes no difference to the verdicts."""
    for number in range(1, SCENARIOS + 1):
        for variant, age in enumerate(AGES, 1):
            telling = chance.random() < 0.5
            for metric in METRICS:
                passed = telling if chance.random() < TELLING else chance.random() < 0.5
                yield Outcome(
                    ConversationKey(variant_id(f"{metric.id}_s{number:03d}", variant), "one", 0),
                    metric.id,
                    metric.track,
                    {"age": age},
                    passed,
                    None,
                    transcript=f"t{number}v{variant}" if known else None,
                )


def false_gaps(*, known: bool) -> int:
    """Worlds in which a demographic gap is marked."""
    return sum(
        any(gap.sure for gap in analysed(played(Random(seed), known=known), metrics=METRICS).gaps)
        for seed in range(WORLDS)
    )


@pytest.mark.exhaustive
@pytest.mark.long
def test_no_gap_is_found_in_how_one_transcript_was_judged_on_many_metrics() -> None:
    apart, together = false_gaps(known=False), false_gaps(known=True)
    assert apart > WORLDS / 4
    assert together <= WORLDS / 10


def judged(chance: Random, *, known: bool) -> tuple[list[JudgedRow], dict[str, bool]]:
    """What a judge says of 12 metrics on 24 transcripts, and by conversation what people would: it
    is wrong on 15%, and mostly on all metrics of a transcript or on none."""
    rows: list[JudgedRow] = []
    people: dict[str, bool] = {}
    for number in range(24):
        telling, wrong = chance.random() < 0.5, chance.random() < 0.15
        for metric in METRICS:
            person = telling if chance.random() < TELLING else chance.random() < 0.5
            errs = wrong if chance.random() < TELLING else chance.random() < 0.15
            base = f"{metric.id}_s{number:03d}"
            shared = SharedTranscripts({base: f"t{number}"} if known else {})
            present = person is not errs
            place = shared.place(metric.id, base)
            rows.append(JudgedRow(base, metric.id, "one", place, metric.track, present, present))
            people[base] = person
    return rows, people


def held(*, known: bool) -> tuple[int, int]:
    """Worlds in which the intervals of how often a judge is right and of the corrected rate hold
    the truth."""
    right = rate = 0
    for seed in range(WORLDS):
        chance = Random(f"labels {seed}")
        rows, people = judged(chance, known=known)
        strata: dict[tuple[str, ...], list[JudgedRow]] = {}
        for row in rows:
            strata.setdefault((str(row.counts), row.metric_id), []).append(row)
        sample = stratified_sample(strata, 100, str(seed))
        labels = [
            LabelledRow(one.thing, people[one.thing.conv_id], one.inclusion) for one in sample
        ]
        found = calibrate(rows, labels, "judge")
        powered = found.rates[0].powered
        assert found.accuracy.right
        assert powered
        right += found.accuracy.right.interval.holds(0.85)
        rate += powered.interval.holds(0.5)
    return right, rate


@pytest.mark.exhaustive
@pytest.mark.long
def test_labels_on_one_transcript_are_not_so_many_proofs_of_a_judge() -> None:
    apart, together = held(known=False), held(known=True)
    assert max(apart) < 0.8 * WORLDS
    assert min(together) >= 0.9 * WORLDS
