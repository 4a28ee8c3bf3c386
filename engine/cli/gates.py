"""Gates (`--fail-under`): lower bounds for pass rates, and whether the intervals meet them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from engine.analysis.figures import Analysis, Estimate, MeanEstimate
from engine.benchmark import Track
from engine.cli.command_line import nearest_word
from engine.display import percent, plural
from engine.errors import InputError, Problem

OPTION: Final = "--fail-under"
MET_CODE, MISSED_CODE, OPEN_CODE = 0, 1, 5


@dataclass(frozen=True, slots=True)
class Gate:
    """A track's rate that every target must reach."""

    track: Track
    bound: float
    """0 to 1."""

    def __str__(self) -> str:
        return f"{self.track} {_exact_percent(self.bound)}"


class Ruling(StrEnum):
    """How an interval stands to a bound."""

    MET = "met"
    MISSED = "missed"
    OPEN = "open"
    """The interval contains the bound, or unscored conversations could change the ruling."""


@dataclass(frozen=True, slots=True)
class GateResult:
    """One gate for one target of one benchmark."""

    benchmark: str
    target: str
    gate: Gate
    estimate: Estimate
    ruling: Ruling

    def __str__(self) -> str:
        return (
            f"{self.benchmark}, {self.target}: {self.gate.track} {_rate(self.estimate)}, "
            f"gate {_exact_percent(self.gate.bound)}: {self.ruling}{self._reason}"
        )

    @property
    def _reason(self) -> str:
        if self.ruling is not Ruling.OPEN:
            return ""
        if not self.estimate.scored:
            return ", nothing is scored"
        if _ruling_of_interval(self.estimate, self.gate.bound) is not Ruling.OPEN:
            return f", {plural(self.estimate.missing, 'unscored conversation')} could change that"
        return ", the interval contains the bound"


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The results of all gates, one for each gate, benchmark and target."""

    judged: Sequence[GateResult]

    @property
    def exit_code(self) -> int:
        rulings = {gate.ruling for gate in self.judged}
        if Ruling.MISSED in rulings:
            return MISSED_CODE
        return OPEN_CODE if Ruling.OPEN in rulings else MET_CODE

    @property
    def lines(self) -> Sequence[str]:
        """A line for each result, and one with their counts."""
        counts = [(sum(gate.ruling is ruling for gate in self.judged), ruling) for ruling in Ruling]
        total = ", ".join(f"{count} {ruling}" for count, ruling in counts if count)
        return [*(f"gate: {gate}" for gate in self.judged), f"gates: {total}"]

    def __add__(self, other: GateOutcome) -> GateOutcome:
        return GateOutcome([*self.judged, *other.judged])


def parse_gates(words: Sequence[str]) -> tuple[Gate, ...]:
    """Parse words such as `positive=0.8`. Raises `InputError` with every word that is no gate."""
    problems: list[Problem] = []
    gates: list[Gate] = []
    for word in words:
        parsed = _parse(word)
        if isinstance(parsed, Problem):
            problems.append(parsed)
        elif any(gate.track is parsed.track for gate in gates):
            problems.append(_problem(word, f"{parsed.track} is given twice", "say it once"))
        else:
            gates.append(parsed)
    if problems:
        raise InputError(problems)
    return tuple(gates)


def _parse(word: str) -> Gate | Problem:
    track, equals, number = word.partition("=")
    shape = "write it as positive=0.8"
    if not equals:
        return _problem(word, "expected TRACK=RATE", shape)
    if track not in set(Track):
        near = nearest_word(track, Track)
        hint = f"did you mean {near}={number}?" if near else shape
        return _problem(word, f"there is no track {track!r}, expected {' or '.join(Track)}", hint)
    try:
        bound = float(number.removesuffix("%"))
    except ValueError:
        return _problem(word, f"{number!r} is no number from 0 to 1", shape)
    if number.endswith("%") or 1 < bound <= 100:
        hint = f"did you mean {track}={bound / 100:g}?"
        return _problem(word, "a rate is a number from 0 to 1", hint)
    if not 0 < bound <= 1:
        return _problem(word, f"{number!r} is no rate above 0 and up to 1", shape)
    return Gate(Track(track), bound)


def _problem(word: str, what: str, hint: str) -> Problem:
    return Problem(what, key=f"{OPTION} {word}", hint=hint)


def judge_gates(
    analysis: Analysis, gates: Sequence[Gate], targets: frozenset[str] | None = None
) -> GateOutcome:
    """Hold every target, or `targets`, to every gate whose track the benchmark has.

    A gate is met where the whole interval lies at or above the bound, missed where all of it lies
    below, and open otherwise, or where unscored conversations could change that.
    """
    return GateOutcome(list(_gate_results(analysis, gates, targets)))


def judge_all(
    analyses: Sequence[Analysis], gates: Sequence[Gate], targets: frozenset[str] | None = None
) -> GateOutcome:
    """As `judge_gates`, over several benchmarks. Raises `InputError` for a gate whose track none
    of them has."""
    idle = [
        gate for gate in gates if not any(gate.track in analysis.tracks for analysis in analyses)
    ]
    if idle and analyses:
        names = ", ".join(analysis.benchmark for analysis in analyses)
        raise InputError(
            [
                _problem(
                    f"{gate.track}={gate.bound:g}",
                    f"no {gate.track} metric in {names}",
                    "leave this gate out, or name a benchmark that has such metrics",
                )
                for gate in idle
            ]
        )
    return sum((judge_gates(analysis, gates, targets) for analysis in analyses), GateOutcome(()))


def _gate_results(
    analysis: Analysis, gates: Sequence[Gate], targets: frozenset[str] | None
) -> Iterator[GateResult]:
    for gate in gates:
        if gate.track not in analysis.tracks:
            continue
        for target in analysis.targets:
            if targets is None or target.target in targets:
                estimate = target.tracks[gate.track]
                ruling = _ruling(estimate, gate.bound)
                yield GateResult(analysis.benchmark, target.target, gate, estimate, ruling)


def _ruling(estimate: Estimate, bound: float) -> Ruling:
    ruling = _ruling_of_interval(estimate, bound)
    worst, best = estimate.if_missing_failed, estimate.if_missing_passed
    # nothing was asked for, so there is no evidence: neither met nor missed
    if worst is None or best is None:
        return Ruling.OPEN
    if (ruling is Ruling.MET and worst < bound) or (ruling is Ruling.MISSED and best >= bound):
        return Ruling.OPEN
    return ruling


def _ruling_of_interval(estimate: Estimate, bound: float) -> Ruling:
    if estimate.low is None or estimate.high is None:
        return Ruling.OPEN
    if estimate.low >= bound:
        return Ruling.MET
    return Ruling.MISSED if estimate.high < bound else Ruling.OPEN


def _rate(estimate: Estimate) -> str:
    if estimate.rate is None or estimate.low is None or estimate.high is None:
        return "—"
    over = plural(estimate.base_scenarios, "scenario")
    if not isinstance(estimate, MeanEstimate):
        over = f"{estimate.passed}/{estimate.scored} in {over}"
    low, high = _exact_percent(estimate.low), _exact_percent(estimate.high)
    return f"{percent(estimate.rate)} [{low} to {high}], {over}"


def _exact_percent(rate: float) -> str:
    """To a tenth of a per cent, so that an end of an interval is not rounded onto the bound."""
    return f"{round(rate * 100, 1):g}%"
