"""What a validation run says: does the ranking of the targets hold with another model? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import hypot

from engine.analysis.validation_figures import (
    Pair,
    Shift,
    Swap,
    TrackReport,
    Turn,
    ValidationReport,
)
from engine.analysis.validation_words import says_of
from engine.benchmark import ConversationKey, Track, base_id
from engine.statistics.agreement import agreement, flip_matrix
from engine.statistics.clusters import Cluster, Stratum, intraclass_correlation
from engine.statistics.distributions import Interval
from engine.statistics.paired import Answers, differences, mean_difference
from engine.statistics.ranks import Panel, rank_agreement
from engine.statistics.rates import benchmark_rate


@dataclass(frozen=True, slots=True)
class Result:
    """What counts for one conversation on one side."""

    key: ConversationKey
    metric_id: str
    track: Track
    passed: bool | None
    """None where it is unscored."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two runs that are compared."""

    model: str
    """The label of the model that has the role in it."""
    results: Sequence[Result]


def validation_report(
    swap: Swap, before: Side, after: Side, *, scripted: Iterable[str] = ()
) -> ValidationReport:
    """`scripted` are the labels of models that took part and are no language models."""
    tracks = [
        report
        for track in Track
        if (report := _track(swap, track, before.results, after.results)) is not None
    ]
    pairs = list(_paired(before.results, after.results)) if swap.same_scenarios else []
    return ValidationReport(
        swap=swap,
        before=before.model,
        after=after.model,
        tracks=tracks,
        conversations=len(pairs),
        agreement=agreement(
            [(left.passed, right.passed) for left, right in pairs],
            [(left.metric_id, base_id(left.key.scenario_id)) for left, _ in pairs],
        ),
        flips=flip_matrix([left.passed for left, _ in pairs], [right.passed for _, right in pairs])
        if pairs
        else None,
        unscored_before=sum(one.passed is None for one in before.results),
        unscored_after=sum(one.passed is None for one in after.results),
        says=list(says_of(swap, before.model, after.model, tracks, sorted(set(scripted)))),
    )


def _paired(before: Sequence[Result], after: Sequence[Result]) -> Iterator[tuple[Result, Result]]:
    """Conversations that are scored on both sides."""
    others = {one.key: one for one in after if one.passed is not None}
    for one in before:
        if one.passed is not None and one.key in others:
            yield one, others[one.key]


def _track(
    swap: Swap, track: Track, before: Sequence[Result], after: Sequence[Result]
) -> TrackReport | None:
    """None where fewer than two targets were scored on both sides."""
    left = [one for one in before if one.track is track and one.passed is not None]
    right = [one for one in after if one.track is track and one.passed is not None]
    if swap.same_scenarios:
        shared = {one.key for one in left} & {one.key for one in right}
        left = [one for one in left if one.key in shared]
        right = [one for one in right if one.key in shared]
    either = [{one.key.target_id for one in side} for side in (before, after)]
    targets = {one.key.target_id for one in left} & {one.key.target_id for one in right}
    if len(targets) < 2:
        return None
    panels = _panel(left, targets), _panel(right, targets)
    ranks = rank_agreement(*panels, same_scenarios=swap.same_scenarios)
    shifts = [_shift(swap, target, left, right) for target in sorted(targets)]
    shifts.sort(key=lambda one: (-one.before, one.target))
    return TrackReport(
        track=track,
        tau_b=None if ranks is None else ranks.tau_b,
        rho=None if ranks is None else ranks.rho,
        shifts=shifts,
        changed=list(_changed(shifts)),
        pairs=len(shifts) * (len(shifts) - 1) // 2,
        left_out=sorted(set.union(*either) - targets),
    )


def _panel(results: Iterable[Result], targets: set[str]) -> Panel:
    """Passed of scored, by target, metric and base scenario."""
    sums: dict[str, dict[str, dict[str, list[int]]]] = {target: {} for target in targets}
    for one in results:
        if one.key.target_id in targets:
            bases = sums[one.key.target_id].setdefault(one.metric_id, {})
            pair = bases.setdefault(base_id(one.key.scenario_id), [0, 0])
            pair[0] += bool(one.passed)
            pair[1] += 1
    return {
        target: {
            metric: {base: Cluster.passing(*pair) for base, pair in bases.items()}
            for metric, bases in metrics.items()
        }
        for target, metrics in sums.items()
    }


def _shift(swap: Swap, target: str, before: Sequence[Result], after: Sequence[Result]) -> Shift:
    left = [one for one in before if one.key.target_id == target]
    right = [one for one in after if one.key.target_id == target]
    then, now = _rate(left), _rate(right)
    if swap.same_scenarios:
        found = mean_difference(differences(_answers(right), _answers(left)))
        interval, p = (None, None) if found is None else (found.interval, found.p)
    else:
        interval, p = _apart(_strata(left), _strata(right)), None
    return Shift(
        target=target,
        before=then,
        after=now,
        shift=now - then,
        interval=interval,
        p=p,
        rows=min(len(left), len(right)),
        base_scenarios=min(_bases(left), _bases(right)),
    )


def _rate(results: Sequence[Result]) -> float:
    return sum(bool(one.passed) for one in results) / len(results)


def _bases(results: Iterable[Result]) -> int:
    return len({(one.metric_id, base_id(one.key.scenario_id)) for one in results})


def _answers(results: Iterable[Result]) -> Answers:
    found: defaultdict[str, defaultdict[str, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for one in results:
        thing = f"{one.key.scenario_id} {one.key.sample}"
        found[one.metric_id][base_id(one.key.scenario_id)][thing] = float(bool(one.passed))
    return found


def _strata(results: Iterable[Result]) -> list[Stratum]:
    return [
        [Cluster.of(list(things.values())) for things in bases.values()]
        for bases in _answers(results).values()
    ]


def _apart(left: Sequence[Stratum], right: Sequence[Stratum]) -> Interval | None:
    """Of right less left, of two runs that share no scenario: what each rate is unsure by on the
    side in question, squared and added. It has a width where all pass as well.

    R. G. Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10, with the intervals of
    `benchmark_rate` (G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008) 1693-1702).
    """
    correlation = intraclass_correlation([*left, *right])
    then, now = benchmark_rate(left, correlation), benchmark_rate(right, correlation)
    if then is None or now is None or min(then.clusters, now.clusters) < 2:
        return None
    shift = now.rate - then.rate
    below = hypot(now.rate - now.interval.low, then.interval.high - then.rate)
    above = hypot(now.interval.high - now.rate, then.rate - then.interval.low)
    return Interval(max(-1.0, shift - below), min(1.0, shift + above))


def _changed(shifts: Sequence[Shift]) -> Iterator[Pair]:
    for left, right in combinations(shifts, 2):
        then = (left.before > right.before) - (left.before < right.before)
        now = (left.after > right.after) - (left.after < right.after)
        if then == now:
            continue
        turn = Turn.PARTS if not then else Turn.LEVELS if not now else Turn.TURNS
        yield Pair(left.target, right.target, turn)
