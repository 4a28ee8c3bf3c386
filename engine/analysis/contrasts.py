"""Comparisons within the same scenarios: target against target, and group against group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from typing import Any

from engine.analysis.figures import Comparison, ComparisonFamily, Gap
from engine.analysis.tallies import ScenarioTally, TargetTally
from engine.benchmark import Track
from engine.statistics import demographics
from engine.statistics.demographics import Variant, demographic_gaps
from engine.statistics.design import detectable
from engine.statistics.paired import (
    Adjusted,
    Answers,
    Difference,
    FamilyPart,
    PairedCluster,
    differences,
    levels,
    pair_differences,
    simultaneous,
)
from engine.statistics.ranks import RankRange, rank_ranges


@dataclass(frozen=True, slots=True)
class Pair:
    """Two targets on one track (None: on all metrics), `left` minus `right`."""

    track: Track | None
    left: str
    right: str
    difference: Difference
    rows: int
    """Conversations of both targets that it rests on."""


def contrasts(
    tallies: Mapping[str, TargetTally],
) -> tuple[Sequence[Comparison], Sequence[Gap], ComparisonFamily]:
    """All comparisons of a benchmark's results, marked as one family: every pair of targets that
    share a scenario, on both tracks together and on each; and every pair of values on every
    demographic axis, of all targets together and of each."""
    pairs, gaps = _pairs(tallies), _gaps(tallies)
    # all metrics, or the only track on which there is anything to compare
    widest = pairs[0].track if pairs else None
    family = {
        FamilyPart.PAIRS: [pair.difference for pair in pairs if pair.track is widest],
        FamilyPart.PAIRS_ON_TRACKS: [pair.difference for pair in pairs if pair.track is not widest],
        FamilyPart.GAPS: [gap.difference for gap in gaps if gap.target is None],
        FamilyPart.GAPS_OF_TARGETS: [gap.difference for gap in gaps if gap.target is not None],
    }
    # in the order of `pairs` and `gaps`, so that it can be assigned to them again
    marked = simultaneous(family)
    tested = {
        part: sum(difference.error is not None for difference in of_part)
        for part, of_part in family.items()
    }
    return (
        [comparison(*row) for row in zip(pairs, marked, strict=False)],
        [_gap(*row) for row in zip(gaps, marked[len(pairs) :], strict=True)],
        ComparisonFamily(
            pairs=sum(pair.difference.error is not None for pair in pairs),
            gaps=sum(gap.difference.error is not None for gap in gaps),
            smallest_found=_smallest_found(
                family[FamilyPart.PAIRS], levels(tested).get(FamilyPart.PAIRS)
            ),
        ),
    )


def _smallest_found(pairs: Sequence[Difference], level: float | None) -> float | None:
    """From the pairs' typical standard error; None without one."""
    known = [(pair.error, pair.freedom) for pair in pairs if pair.error is not None]
    if not known or level is None:
        return None
    error = sqrt(sum(error**2 for error, _ in known) / len(known))
    return detectable(error, min(freedom for _, freedom in known), level)


def _pairs(tallies: Mapping[str, TargetTally]) -> list[Pair]:
    """The pairs on all metrics first, then those on each track."""
    answers = {track: _answers_on(tallies, track) for track in Track}
    shares = any(tally.shares_transcripts for tally in tallies.values())
    everything = _answers_on(tallies, None) if shares else {}
    scored = {target: _scored(tally) for target, tally in tallies.items()}
    names = list(combinations(tallies, 2))
    strata: dict[Track | None, list[list[Sequence[PairedCluster]]]] = {
        track: [differences(on[left], on[right]) for left, right in names]
        for track, on in answers.items()
    }
    if shares:  # a transcript on both tracks is one cluster of both
        whole = [differences(everything[left], everything[right]) for left, right in names]
    else:
        whole = [
            [one for of_track in both for one in of_track]
            for both in zip(*strata.values(), strict=True)
        ]
    rows = [_shared_conversations(scored[left], scored[right]) for left, right in names]
    pairs = {
        track: [
            Pair(track, *of, difference, count.total() if track is None else count[track])
            for of, difference, count in zip(names, pair_differences(listed), rows, strict=True)
            if difference is not None
        ]
        for track, listed in {None: whole, **strata}.items()
    }
    if not all(pairs.values()):
        pairs.pop(None)  # one track alone is all metrics
    return [pair for listed in pairs.values() for pair in listed]


def _scored(tally: TargetTally) -> dict[str, tuple[Track, int]]:
    """By scenario, its track and number of scored conversations."""
    return {
        scenario.scenario_id: (scenario.track, scenario.scored)
        for scenario in tally.scenarios.values()
    }


def _shared_conversations(
    left: Mapping[str, tuple[Track, int]], right: Mapping[str, tuple[Track, int]]
) -> Counter[Track]:
    """By track, both targets' conversations on the scenarios that both were scored on."""
    rows = Counter[Track]()
    for scenario, (track, count) in left.items():
        _, others = right.get(scenario, (track, 0))
        if count and others:
            rows[track] += count + others
    return rows


def comparison(pair: Pair, marked: Adjusted) -> Comparison:
    """A pair with its adjusted interval and p value."""
    return Comparison(
        track=pair.track,
        left=pair.left,
        right=pair.right,
        rows=pair.rows,
        error=pair.difference.error,
        freedom=pair.difference.freedom,
        **_figures(pair.difference, marked),
    )


def _figures(difference: Difference, marked: Adjusted) -> dict[str, Any]:
    """The figures of a `MarkedDifference`."""
    ends = marked.interval
    return {
        "difference": difference.estimate,
        "low": None if ends is None else ends.low,
        "high": None if ends is None else ends.high,
        "p": difference.p,
        "p_adjusted": marked.p,
        "base_scenarios": difference.clusters,
    }


def _answers_on(tallies: Mapping[str, TargetTally], track: Track | None) -> Mapping[str, Answers]:
    return {target: _answers(tally.of_track(track)) for target, tally in tallies.items()}


def _answers(scenarios: Iterable[ScenarioTally]) -> Answers:
    answers: defaultdict[str, defaultdict[str, dict[str, float]]]
    answers = defaultdict(lambda: defaultdict(dict))
    for scenario in scenarios:
        if scenario.scored:
            stratum, cluster = scenario.place
            answers[stratum][cluster][scenario.scenario_id] = scenario.passed / scenario.scored
    return answers


def _gaps(tallies: Mapping[str, TargetTally]) -> list[demographics.DemographicGap]:
    """The gaps over both tracks, those pooled over all targets first."""
    return demographic_gaps(
        {
            target: [
                Variant(
                    scenario.metric_id,
                    scenario.base,
                    scenario.demographic,
                    scenario.passed,
                    scenario.scored,
                    scenario.place,
                )
                for scenario in tally.scenarios.values()
            ]
            for target, tally in tallies.items()
        }
    )


def _gap(gap: demographics.DemographicGap, marked: Adjusted) -> Gap:
    return Gap(
        axis=gap.axis,
        left=gap.left,
        right=gap.right,
        target=gap.target,
        rows=gap.rows,
        **_figures(gap.difference, marked),
    )


def scored_on(tallies: Mapping[str, TargetTally], track: Track) -> list[str]:
    """The targets that were scored on this track."""
    return [
        target
        for target, target_tally in tallies.items()
        if any(tally.scored for tally in target_tally.of_track(track))
    ]


def ranks(
    ranked: Mapping[Track, Sequence[str]], comparisons: Sequence[Comparison]
) -> dict[str, dict[Track, RankRange]]:
    """The rank ranges that follow from the marks, by target, on each track with at least two."""
    places: defaultdict[str, dict[Track, RankRange]] = defaultdict(dict)
    for track, scored in ranked.items():
        if len(scored) < 2:
            continue
        sure = [
            comparison
            for comparison in comparisons
            if comparison.track is track and comparison.sure
        ]
        above = [
            (pair.left, pair.right) for pair in (comparison.greater_first for comparison in sure)
        ]
        for target, place in rank_ranges(scored, above).items():
            places[target][track] = place
    return dict(places)


def pair_error(tallies: Mapping[str, TargetTally], track: Track | None) -> tuple[float, int] | None:
    """The typical standard error of a difference between two targets, for planning: the root mean
    square over all pairs; with the base scenarios that it rests on. None where no pair has one."""
    answers = [_answers(tally.of_track(track)) for tally in tallies.values()]
    pairs = pair_differences([differences(*both) for both in combinations(answers, 2)])
    known = [(pair, pair.error) for pair in pairs if pair is not None and pair.error is not None]
    if not known:
        return None
    square = sum(error**2 for _, error in known) / len(known)
    clusters = sum(pair.clusters for pair, _ in known) / len(known)
    return sqrt(square), round(clusters)
