"""What 14 x 30,240 verdicts mean: how long it takes to say it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from random import Random

from engine.analysis.analyse import analyse
from engine.analysis.figures import AnalysisContext, MetricInfo, Outcome
from engine.benchmark import ConversationKey, Track, scenario_id, variant_id
from engine.stages.aggregate import as_rows
from tests.benchmarks.frame import Row
from tests.benchmarks.measuring import peak_mb

TARGETS, METRICS, SCENARIOS, AGES, PLACES, SAMPLES = 14, 14, 30, 4, 6, 3
"""14 x 30 x 24 x 3 = 30,240 conversations of each target."""


def outcomes() -> list[Outcome]:
    chance = Random(1)
    found: list[Outcome] = []
    groups = list(product(range(AGES), range(PLACES)))
    for target, number, base in product(range(TARGETS), range(METRICS), range(SCENARIOS)):
        metric = f"m{number + 1:02d}"
        odds = min(0.98, max(0.02, chance.gauss(0.5 + 0.03 * target, 0.2)))
        for place, (age, country) in enumerate(groups):
            scenario = variant_id(scenario_id(metric, base + 1), place + 1)
            demographic = {"age": str(age), "country": str(country)}
            for sample in range(SAMPLES):
                drawn = chance.random()
                missing = drawn > 0.99
                found.append(
                    Outcome(
                        ConversationKey(scenario, f"target-{target}", sample),
                        metric,
                        Track.POSITIVE if number % 2 else Track.NEGATIVE,
                        demographic,
                        None if missing else drawn < odds,
                        "no usable verdict" if missing else None,
                    )
                )
    return found


def about() -> AnalysisContext:
    return AnalysisContext(
        benchmark="large",
        title="Large",
        metrics=[
            MetricInfo(
                f"m{number + 1:02d}",
                f"Metric {number + 1}",
                Track.POSITIVE if number % 2 else Track.NEGATIVE,
            )
            for number in range(METRICS)
        ],
    )


def statistics() -> Iterator[Row]:
    """How long it takes to say what 30,240 verdicts of each of 14 targets mean, and in how much
    memory.

    Everything is asked that `results.json` holds: rates with intervals, pairs of targets,
    demographic gaps, agreement, ranges of ranks. The time is stated beside that of a bare loop that
    adds up the same verdicts, taken in the same process.
    """
    found = outcomes()
    before = peak_mb()
    began = time.perf_counter()
    passed = scored = 0
    for one in found:
        if one.passed is not None:
            scored += 1
            passed += one.passed
    bare = time.perf_counter() - began
    began, worked = time.perf_counter(), time.process_time()
    analysis = analyse(found, about(), {f"target-{number}": "a model" for number in range(TARGETS)})
    rows = as_rows(analysis)
    took, busy = time.perf_counter() - began, time.process_time() - worked
    what = (
        f"{len(found):,} verdicts of {len(rows)} targets, {len(analysis.comparisons)} pairs, "
        f"{len(analysis.gaps)} demographic gaps"
    )
    yield Row(what, f"{took:.2f} s ({busy:.2f} s of CPU)")
    yield Row("beside a bare loop over them", f"{took / bare:.0f} x its {bare:.3f} s")
    yield Row(
        "peak memory", f"{peak_mb():.0f} MB, of which {peak_mb() - before:.0f} MB came with it"
    )
