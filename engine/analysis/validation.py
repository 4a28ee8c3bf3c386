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
from engine.statistics.ranks import Panel, rank_agreement
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
    compared = {
        track: sides
        for track in Track
        if (sides := _compared_sides(swap, track, before.results, after.results)) is not None
    }
    moves = {
        track: {target: _rate_change(swap, then[target], now[target]) for target in then}
        for track, (then, now) in compared.items()
    }
    parts = _family_parts(moves)
    allowed = levels(parts, SHARES_OF_SHIFTS)
    everybody = {outcome.key.target_id for outcome in (*before.results, *after.results)}
    pairs = list(_paired(before.results, after.results)) if swap.same_scenarios else []
    report = ValidationReport(
        swap=swap,
        before=before.model,
        after=after.model,
        tracks=[
            _track(swap, track, sides, moves[track], allowed, bound, everybody)
            for track, sides in compared.items()
        ],
        family=sum(parts.values()),
        floor=None
        if replay is None
        else ReplayFloor(replay.after, replay.conversations, replay.agreement, replay.tracks),
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


def _family_parts(moves: Mapping[Track, Mapping[str, object]]) -> dict[FamilyPart, int]:
    """How many shifts are known that are tested together, of all targets and of each."""
    known = [[who for who, move in of.items() if move is not None] for of in moves.values()]
    together = sum(ALL_TARGETS in targets for targets in known)
    return {
        FamilyPart.SHIFTS: together,
        FamilyPart.SHIFTS_OF_TARGETS: sum(map(len, known)) - together,
    }


def _paired(
    before: Sequence[SideOutcome], after: Sequence[SideOutcome]
) -> Iterator[tuple[SideOutcome, SideOutcome]]:
    """The conversations that are scored on both sides."""
    others = {outcome.key: outcome for outcome in after if outcome.passed is not None}
    for outcome in before:
        if outcome.passed is not None and outcome.key in others:
            yield outcome, others[outcome.key]


_Side = Mapping[str, Sequence[SideOutcome]]
"""The scored conversations of one side by target, those of `ALL_TARGETS` first."""


def _compared_sides(
    swap: Branch, track: Track, before: Sequence[SideOutcome], after: Sequence[SideOutcome]
) -> tuple[_Side, _Side] | None:
    """Both sides of a track; None where fewer than two targets were scored on both."""
    sides = [
        [outcome for outcome in side if outcome.track is track and outcome.passed is not None]
        for side in (before, after)
    ]
    if swap.same_scenarios:
        # a conversation that is scored on one side only would move the rate, not the model
        left, right = ({outcome.key for outcome in side} for side in sides)
        sides = [[outcome for outcome in side if outcome.key in left & right] for side in sides]
    there = [{outcome.key.target_id for outcome in side} for side in sides]
    targets = sorted(there[0] & there[1])
    if len(targets) < 2:
        return None
    then, now = (_by_target(side, targets) for side in sides)
    return then, now


def _by_target(results: Iterable[SideOutcome], targets: Sequence[str]) -> _Side:
    by_target: dict[str, list[SideOutcome]] = {target: [] for target in targets}
    for result in results:
        if result.key.target_id in by_target:
            by_target[result.key.target_id].append(result)
    return {ALL_TARGETS: [row for rows in by_target.values() for row in rows], **by_target}


def _track(
    swap: Branch,
    track: Track,
    sides: tuple[_Side, _Side],
    moves: Mapping[str, Difference | _IndependentRuns | None],
    allowed: Mapping[FamilyPart, float],
    bound: float | None,
    everybody: set[str],
) -> TrackReport:
    then, now = sides
    marked = {
        target: _shift(
            target,
            then[target],
            now[target],
            move,
            allowed.get(
                FamilyPart.SHIFTS if target == ALL_TARGETS else FamilyPart.SHIFTS_OF_TARGETS
            ),
        )
        for target, move in moves.items()
    }
    together = marked.pop(ALL_TARGETS)
    shifts = sorted(marked.values(), key=lambda shift: (-shift.before, shift.target))
    changed = list(_reordered_pairs(shifts))
    ranks = rank_agreement(_panel(then), _panel(now), same_scenarios=swap.same_scenarios)
    equivalence = None if bound is None else _equivalence(swap, then, now, bound)
    stays = equivalence is not None and equivalence.outside is None
    return TrackReport(
        track=track,
        tau_b=None if ranks is None else ranks.tau_b,
        rho=None if ranks is None else ranks.rho,
        together=together,
        shifts=shifts,
        changed=changed,
        pairs=len(shifts) * (len(shifts) - 1) // 2,
        equivalence=equivalence,
        order_holds=stays and not any(pair.turn is OrderChange.TURNS for pair in changed),
        left_out=sorted(everybody - marked.keys()),
    )


def _shift(
    target: str,
    left: Sequence[SideOutcome],
    right: Sequence[SideOutcome],
    move: Difference | _IndependentRuns | None,
    level: float | None,
) -> RateShift:
    """`level` is None where no shift of its kind has an interval."""
    before, after = _rate(left), _rate(right)
    interval = p = None
    if move is not None and level is not None:
        interval = move.interval_at(level)
        p = None if move.p is None else min(1.0, move.p * ERROR_RATE / level)
    rows, bases = min(len(left), len(right)), min(_bases(left), _bases(right))
    return RateShift(target, before, after, after - before, interval, p, rows, bases)


def _equivalence(
    swap: Branch,
    before: _Side,
    after: _Side,
    bound: float,
) -> Equivalence:
    """Check the pairs, those that changed the most first, and stop at the first that is not shown
    to stay within the bound: 100 targets have thousands of pairs."""
    runs = {
        target: BeforeAndAfter(_answers(before[target]), _answers(after[target]))
        for target in before
        if target != ALL_TARGETS
    }
    moved = {target: _rate(after[target]) - _rate(before[target]) for target in runs}
    pairs = sorted(combinations(runs, 2), key=lambda pair: -abs(moved[pair[0]] - moved[pair[1]]))
    for left, right in pairs:
        difference = change_of_difference(runs[left], runs[right], paired=swap.same_scenarios)
        interval = None if difference is None else interval_for(difference, bound)
        if not is_within(interval, bound):
            change = moved[left] - moved[right] if difference is None else difference.estimate
            return Equivalence(bound, DifferenceChange(left, right, change, interval))
    return Equivalence(bound, None)


def _panel(side: _Side) -> Panel:
    """Rows that passed, by target, metric and base scenario."""
    return {
        target: {
            metric: {base: Cluster.of(list(rows.values())) for base, rows in bases.items()}
            for metric, bases in _answers(results).items()
        }
        for target, results in side.items()
        if target != ALL_TARGETS
    }


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
