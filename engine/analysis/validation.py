"""What a validation run says: does the ranking of the targets hold with another model? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from math import factorial, hypot
from typing import Final

from engine.analysis.figures import ENOUGH_SCENARIOS
from engine.benchmark import ConversationKey, Role, Track, base_id
from engine.statistics.agreement import Agreement, Flips, agreement, flip_matrix
from engine.statistics.clusters import Cluster, Stratum, intraclass_correlation
from engine.statistics.distributions import Interval
from engine.statistics.paired import Answers, differences, mean_difference
from engine.statistics.ranks import Correlation, Panel, rank_agreement
from engine.statistics.rates import benchmark_rate

FEW_TARGETS: Final = 5
"""Below so many, a perfect ranking may well be chance."""


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


@dataclass(frozen=True, slots=True)
class Swap:
    """What was swapped, and where."""

    benchmark: str
    role: Role
    name: str
    """Of the other model in the configuration."""

    @property
    def same_scenarios(self) -> bool:
        """Whether both sides answer the same questions, so that rows can be paired."""
        return self.role is not Role.GENERATOR


class Turn(StrEnum):
    """What becomes of the order of two targets."""

    TURNS = "turns"
    LEVELS = "comes level"
    PARTS = "was level"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two targets whose order is not what it was."""

    left: str
    right: str
    """Behind `left` before, or level with it."""
    turn: Turn


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one target's pass rate moves."""

    target: str
    before: float
    after: float
    shift: float
    """`after` less `before`, in rates; where rows are paired, over the pairs alone."""
    interval: Interval | None
    """None where there are fewer than two base scenarios."""
    p: float | None
    """Of no shift at all, two-sided; None as for the interval, and where rows are not paired."""
    rows: int
    """Pairs of conversations; of the smaller side, where rows are not paired."""
    base_scenarios: int


@dataclass(frozen=True, slots=True)
class TrackReport:
    """One track's ranking on both sides."""

    track: Track
    tau_b: Correlation | None
    """Kendall's. None where all targets have one rate on a side."""
    rho: Correlation | None
    """Spearman's."""
    shifts: Sequence[Shift]
    """Of each target that was scored on both sides, the highest rate before first."""
    changed: Sequence[Pair]
    pairs: int
    """Of targets, all there are."""
    left_out: Sequence[str]
    """Targets that were scored on one side only."""

    @property
    def base_scenarios(self) -> int:
        """What the target with the fewest of them rests on."""
        return min(shift.base_scenarios for shift in self.shifts)


@dataclass(frozen=True, slots=True)
class ValidationReport:
    """Both sides of a validation run, compared."""

    swap: Swap
    before: str
    """The model that had the role."""
    after: str
    """The model that took it."""
    tracks: Sequence[TrackReport]
    conversations: int
    """Scored on both sides and so compared one by one; 0 where they are not the same."""
    agreement: Agreement | None
    """Of both sides over the same conversations; None where there are none."""
    flips: Flips | None
    """`left` is before."""
    unscored_before: int
    unscored_after: int
    says: Sequence[str]
    """What this shows and what it does not, in sentences."""


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
        says=list(_says(swap, before.model, after.model, tracks, sorted(set(scripted)))),
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


# In words

_ROLES: Mapping[Role, str] = {
    Role.EVALUATOR: "judges",
    Role.USER: "plays the user",
    Role.GENERATOR: "writes the metrics and scenarios",
}
_SHOWS: Mapping[Role, str] = {
    Role.EVALUATOR: "The same transcripts were judged twice. This shows how far the ranking "
    "depends on who judges, and not who is right: two judges can share an error.",
    Role.USER: "The same scenarios were played twice. Two playings differ by chance as well, so a "
    "part of every shift would be there without another user model.",
    Role.GENERATOR: "The two sets of metrics ask different questions in different situations. "
    "Only the order of the targets can be compared; a shift of all of them says that the "
    "questions are harder or easier.",
}


def _says(
    swap: Swap, before: str, after: str, tracks: Sequence[TrackReport], scripted: Sequence[str]
) -> Iterator[str]:
    if not tracks:
        yield (
            "No track has two targets that were scored on both sides, so nothing can be said of "
            "their order."
        )
    for track in tracks:
        yield f"{track.track.value.capitalize()} metrics: {_order_words(swap, track, after)}"
    for track in tracks:
        if track.left_out:
            names = ", ".join(track.left_out)
            yield f"Not compared on {track.track.value} metrics, for want of verdicts: {names}."
    few = min((track.base_scenarios for track in tracks), default=ENOUGH_SCENARIOS)
    if few < ENOUGH_SCENARIOS:
        yield (
            f"Some of this rests on {few} base scenarios: too few for a ranking, which takes "
            f"{ENOUGH_SCENARIOS}."
        )
    for count in sorted({len(track.shifts) for track in tracks}):
        yield _count_words(count)
    yield _SHOWS[swap.role]
    if scripted:
        yield f"Scripted models took part and are no language models: {', '.join(scripted)}."


NO_INTERVAL: Final = (
    "How far other scenarios like these would keep it cannot be told from these: the coefficients "
    "have no interval."
)


def _order_words(swap: Swap, track: TrackReport, after: str) -> str:
    when = f"when {after} {_ROLES[swap.role]}"
    turned = sum(pair.turn is Turn.TURNS for pair in track.changed)
    level = len(track.changed) - turned
    if track.tau_b is None:
        return f"all targets have one rate on a side, so there is no order to keep {when}."
    if not track.changed:
        return f"the order of the targets stays as it was {when}.{_doubt(track)}"
    of = f"{turned} of {track.pairs} pairs of targets change order"
    ties = f", {level} more are level on one side" if level else ""
    return f"{of}{ties} {when}.{_doubt(track)}"


def _doubt(track: TrackReport) -> str:
    found = None if track.tau_b is None else track.tau_b.scenarios
    if found is None:
        return f" {NO_INTERVAL}"
    if not found.holds(0):
        return ""
    return (
        " With other scenarios like these it could as well be otherwise: the interval of "
        "Kendall's tau-b holds 0."
    )


def _count_words(targets: int) -> str:
    if targets == 2:
        return (
            "A ranking of two can only stay or turn: a coefficient of 1 or -1 says no more than "
            "that, and by chance alone it stays every second time."
        )
    if targets < FEW_TARGETS:
        return (
            f"{targets} targets have {factorial(targets)} possible orders, so that the same one "
            f"comes out by chance once in {factorial(targets)} times: this says something of these "
            "targets, and little of others."
        )
    return (
        f"{targets} targets were compared. What holds for their order need not hold for targets "
        "that differ from these."
    )
