"""The report of a validation run: does the ranking of the targets hold with another model? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import hypot

from engine.analysis.validation_figures import (
    ALL_TARGETS,
    DifferenceChange,
    Equivalence,
    OrderChange,
    RateShift,
    ReorderedPair,
    ReplayFloor,
    TrackReport,
    ValidationReport,
)
from engine.analysis.validation_words import says_of
from engine.benchmark import ConversationKey, Track, base_id
from engine.branches import Branch
from engine.statistics.agreement import agreement, flip_matrix
from engine.statistics.clusters import Cluster, Stratum, intraclass_correlation
from engine.statistics.distributions import Interval
from engine.statistics.paired import (
    ERROR_RATE,
    SHARES_OF_SHIFTS,
    Answers,
    BeforeAndAfter,
    Difference,
    FamilyPart,
    change_of_difference,
    differences,
    interval_for,
    is_within,
    levels,
    mean_difference,
)
from engine.statistics.ranks import Panel, RankAgreement, rank_agreement
from engine.statistics.rates import Rate, benchmark_rate


@dataclass(frozen=True, slots=True)
class SideOutcome:
    """The outcome of one conversation on one side."""

    key: ConversationKey
    metric_id: str
    track: Track
    passed: bool | None
    """None where it is unscored."""


@dataclass(frozen=True, slots=True)
class ValidationSide:
    """One of the two runs that are compared."""

    model: str
    """The label of the model in the swapped role."""
    results: Sequence[SideOutcome]


def validation_report(
    swap: Branch,
    before: ValidationSide,
    after: ValidationSide,
    *,
    bound: float | None = None,
    replay: ValidationReport | None = None,
    replay_costs: str = "",
    scripted: Iterable[str] = (),
) -> ValidationReport:
    """Compare both sides. `bound`, in rates, was stated before anything was played. `replay` is the
    report of a replay; without one, `replay_costs` says what it would cost. `scripted` has the
    labels of scripts that took part."""
    drafts = [
        draft
        for track in Track
        if (draft := _unmarked_track(swap, track, before.results, after.results, bound)) is not None
    ]
    parts = {
        FamilyPart.SHIFTS: sum(draft.together.is_known for draft in drafts),
        FamilyPart.SHIFTS_OF_TARGETS: sum(
            shift.is_known for draft in drafts for shift in draft.shifts
        ),
    }
    allowed = levels(parts, SHARES_OF_SHIFTS)
    pairs = list(_paired(before.results, after.results)) if swap.same_scenarios else []
    report = ValidationReport(
        swap=swap,
        before=before.model,
        after=after.model,
        tracks=[_track(draft, allowed) for draft in drafts],
        family=sum(parts.values()),
        floor=None if replay is None else _floor(replay),
        conversations=len(pairs),
        agreement=agreement(
            [(left.passed, right.passed) for left, right in pairs],
            [(left.metric_id, base_id(left.key.scenario_id)) for left, _ in pairs],
        ),
        flips=flip_matrix([left.passed for left, _ in pairs], [right.passed for _, right in pairs])
        if pairs
        else None,
        unscored_before=sum(result.passed is None for result in before.results),
        unscored_after=sum(result.passed is None for result in after.results),
        says=(),
    )
    return replace(report, says=list(says_of(report, replay_costs, sorted(set(scripted)))))


def _floor(replay: ValidationReport) -> ReplayFloor:
    return ReplayFloor(replay.after, replay.conversations, replay.agreement, replay.tracks)


def _paired(
    before: Sequence[SideOutcome], after: Sequence[SideOutcome]
) -> Iterator[tuple[SideOutcome, SideOutcome]]:
    """The conversations that are scored on both sides."""
    others = {outcome.key: outcome for outcome in after if outcome.passed is not None}
    for outcome in before:
        if outcome.passed is not None and outcome.key in others:
            yield outcome, others[outcome.key]


@dataclass(frozen=True, slots=True)
class _UnmarkedShift:
    """A shift before it is adjusted for the family."""

    target: str
    before: float
    after: float
    moved: Difference | _IndependentRuns | None
    """None where there are fewer than two base scenarios."""
    rows: int
    base_scenarios: int

    @property
    def is_known(self) -> bool:
        return self.moved is not None

    def marked(self, level: float | None) -> RateShift:
        moved = None if level is None else self.moved
        interval = None if moved is None or level is None else moved.interval_at(level)
        alone = None if moved is None else moved.p
        p = None if alone is None or level is None else min(1.0, alone * ERROR_RATE / level)
        shift = self.after - self.before
        return RateShift(
            self.target, self.before, self.after, shift, interval, p, self.rows, self.base_scenarios
        )


@dataclass(frozen=True, slots=True)
class _UnmarkedTrack:
    """A track's report before its shifts are adjusted for the family."""

    track: Track
    ranks: RankAgreement | None
    together: _UnmarkedShift
    shifts: Sequence[_UnmarkedShift]
    """The highest rate before first."""
    equivalence: Equivalence | None
    left_out: Sequence[str]


def _unmarked_track(
    swap: Branch,
    track: Track,
    before: Sequence[SideOutcome],
    after: Sequence[SideOutcome],
    bound: float | None,
) -> _UnmarkedTrack | None:
    """None where fewer than two targets were scored on both sides."""
    left = [outcome for outcome in before if outcome.track is track and outcome.passed is not None]
    right = [outcome for outcome in after if outcome.track is track and outcome.passed is not None]
    if swap.same_scenarios:
        # a conversation that is scored on one side only would move the rate, not the model
        shared = {outcome.key for outcome in left} & {outcome.key for outcome in right}
        left = [outcome for outcome in left if outcome.key in shared]
        right = [outcome for outcome in right if outcome.key in shared]
    either = [{outcome.key.target_id for outcome in side} for side in (before, after)]
    targets = {outcome.key.target_id for outcome in left} & {
        outcome.key.target_id for outcome in right
    }
    if len(targets) < 2:
        return None
    then, now = _by_target(left, targets), _by_target(right, targets)
    panels = _panel(left, targets), _panel(right, targets)
    shifts = [
        _unmarked_shift(swap, target, then[target], now[target]) for target in sorted(targets)
    ]
    shifts.sort(key=lambda shift: (-shift.before, shift.target))
    of_these = [[row for rows in side.values() for row in rows] for side in (then, now)]
    return _UnmarkedTrack(
        track=track,
        ranks=rank_agreement(*panels, same_scenarios=swap.same_scenarios),
        together=_unmarked_shift(swap, ALL_TARGETS, *of_these),
        shifts=shifts,
        equivalence=None if bound is None else _equivalence(swap, then, now, bound),
        left_out=sorted(set.union(*either) - targets),
    )


def _by_target(results: Iterable[SideOutcome], targets: set[str]) -> dict[str, list[SideOutcome]]:
    by_target: dict[str, list[SideOutcome]] = {target: [] for target in sorted(targets)}
    for result in results:
        if result.key.target_id in by_target:
            by_target[result.key.target_id].append(result)
    return by_target


def _track(draft: _UnmarkedTrack, allowed: Mapping[FamilyPart, float]) -> TrackReport:
    shifts = [shift.marked(allowed.get(FamilyPart.SHIFTS_OF_TARGETS)) for shift in draft.shifts]
    changed = list(_reordered_pairs(shifts))
    stays = draft.equivalence is not None and draft.equivalence.outside is None
    return TrackReport(
        track=draft.track,
        tau_b=None if draft.ranks is None else draft.ranks.tau_b,
        rho=None if draft.ranks is None else draft.ranks.rho,
        together=draft.together.marked(allowed.get(FamilyPart.SHIFTS)),
        shifts=shifts,
        changed=changed,
        pairs=len(shifts) * (len(shifts) - 1) // 2,
        equivalence=draft.equivalence,
        order_holds=stays and not any(pair.turn is OrderChange.TURNS for pair in changed),
        left_out=draft.left_out,
    )


def _equivalence(
    swap: Branch,
    before: Mapping[str, Sequence[SideOutcome]],
    after: Mapping[str, Sequence[SideOutcome]],
    bound: float,
) -> Equivalence:
    """Check the pairs, those that changed the most first, and stop at the first that is not shown
    to stay within the bound: 100 targets have thousands of pairs."""
    runs = {
        target: BeforeAndAfter(_answers(before[target]), _answers(after[target]))
        for target in before
    }
    moved = {target: _rate(after[target]) - _rate(before[target]) for target in before}
    pairs = sorted(combinations(runs, 2), key=lambda pair: -abs(moved[pair[0]] - moved[pair[1]]))
    for left, right in pairs:
        difference = change_of_difference(runs[left], runs[right], paired=swap.same_scenarios)
        interval = None if difference is None else interval_for(difference, bound)
        if not is_within(interval, bound):
            change = moved[left] - moved[right] if difference is None else difference.estimate
            return Equivalence(bound, DifferenceChange(left, right, change, interval))
    return Equivalence(bound, None)


def _panel(results: Iterable[SideOutcome], targets: set[str]) -> Panel:
    """Rows that passed, by target, metric and base scenario."""
    sums: dict[str, dict[str, dict[str, list[int]]]] = {target: {} for target in targets}
    for result in results:
        if result.key.target_id in targets:
            bases = sums[result.key.target_id].setdefault(result.metric_id, {})
            pair = bases.setdefault(base_id(result.key.scenario_id), [0, 0])
            pair[0] += bool(result.passed)
            pair[1] += 1
    return {
        target: {
            metric: {base: Cluster.passing(*pair) for base, pair in bases.items()}
            for metric, bases in metrics.items()
        }
        for target, metrics in sums.items()
    }


def _unmarked_shift(
    swap: Branch, target: str, left: Sequence[SideOutcome], right: Sequence[SideOutcome]
) -> _UnmarkedShift:
    return _UnmarkedShift(
        target,
        _rate(left),
        _rate(right),
        _rate_change(swap, left, right),
        min(len(left), len(right)),
        min(_bases(left), _bases(right)),
    )


def _rate_change(
    swap: Branch, left: Sequence[SideOutcome], right: Sequence[SideOutcome]
) -> Difference | _IndependentRuns | None:
    if swap.same_scenarios:
        difference = mean_difference(
            differences(_answers(right, of_all=True), _answers(left, of_all=True))
        )
        return None if difference is None or difference.error is None else difference
    # one correlation for both, so that chance does not make one side the more certain
    before, after = _strata(left), _strata(right)
    correlation = intraclass_correlation([*before, *after])
    then, now = benchmark_rate(before, correlation), benchmark_rate(after, correlation)
    if then is None or now is None or min(then.clusters, now.clusters) < 2:
        return None
    return _IndependentRuns(then, now)


def _rate(results: Sequence[SideOutcome]) -> float:
    return sum(bool(result.passed) for result in results) / len(results)


def _bases(results: Iterable[SideOutcome]) -> int:
    return len({(result.metric_id, base_id(result.key.scenario_id)) for result in results})


def _answers(results: Iterable[SideOutcome], *, of_all: bool = False) -> Answers:
    """The outcomes as 0 or 1. With `of_all`, rows of different targets are kept apart."""
    answers: defaultdict[str, defaultdict[str, dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for result in results:
        who = result.key.target_id if of_all else ""
        conversation = f"{who} {result.key.scenario_id} {result.key.sample}"
        answers[result.metric_id][base_id(result.key.scenario_id)][conversation] = float(
            bool(result.passed)
        )
    return answers


def _strata(results: Iterable[SideOutcome]) -> list[Stratum]:
    return [
        [Cluster.of(list(scores.values())) for scores in bases.values()]
        for bases in _answers(results, of_all=True).values()
    ]


@dataclass(frozen=True, slots=True)
class _IndependentRuns:
    """The rates of two runs that share no scenario."""

    then: Rate
    now: Rate

    @property
    def p(self) -> None:
        """None: no p value is computed, only the interval."""

    def interval_at(self, level: float) -> Interval:
        """The interval of `now` minus `then`: the distances from each rate to the relevant end of
        its own interval, squared and added. It has a width even where all rows pass.

        R. G. Newcombe, Statistics in Medicine 17 (1998) 873-890, method 10, with the intervals of
        `benchmark_rate` (G. Y. Zou and A. Donner, Statistics in Medicine 27 (2008) 1693-1702).
        """
        then, now = self.then.interval_at(level), self.now.interval_at(level)
        shift = self.now.rate - self.then.rate
        below = hypot(self.now.rate - now.low, then.high - self.then.rate)
        above = hypot(now.high - self.now.rate, self.then.rate - then.low)
        return Interval(max(-1.0, shift - below), min(1.0, shift + above))


def _reordered_pairs(shifts: Sequence[RateShift]) -> Iterator[ReorderedPair]:
    for left, right in combinations(shifts, 2):
        then = (left.before > right.before) - (left.before < right.before)
        now = (left.after > right.after) - (left.after < right.after)
        if then == now:
            continue
        turn = (
            OrderChange.PARTS if not then else OrderChange.LEVELS if not now else OrderChange.TURNS
        )
        yield ReorderedPair(left.target, right.target, turn)
