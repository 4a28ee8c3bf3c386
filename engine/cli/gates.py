"""Gates (`--fail-under`): lower bounds for pass rates, and whether the intervals meet them."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Final, NamedTuple

from engine.analysis.figures import Analysis, Estimate
from engine.benchmark import Track
from engine.config.wording import nearest_word
from engine.display import percent, plural
from engine.errors import InputError, Problem

MET: Final = "met"
MISSED: Final = "missed"
OPEN: Final = "open"
"""The interval contains the bound, or unscored conversations could change the ruling."""
EXIT_CODES: Final = {MISSED: 1, OPEN: 5, MET: 0}
"""By ruling, the worst first."""


class Gate(NamedTuple):
    """A track's rate that every target must reach."""

    track: Track
    bound: float
    """0 to 1."""


def parse_gates(words: Sequence[str]) -> tuple[Gate, ...]:
    """Parse words such as `positive=0.8`. Raises `InputError` with every word that is no gate."""
    problems: list[Problem] = []
    gates: dict[Track, Gate] = {}
    for word in words:
        gate = _parse(word)
        if isinstance(gate, Problem):
            problems.append(gate)
        elif gate.track in gates:
            problems.append(_problem(word, f"{gate.track} is given twice", "say it once"))
        else:
            gates[gate.track] = gate
    if problems:
        raise InputError(problems)
    return tuple(gates.values())


def _parse(word: str) -> Gate | Problem:
    track, _, number = word.partition("=")
    hint = "write it as positive=0.8"
    if track not in set(Track):
        if near := nearest_word(track, Track):
            hint = f"did you mean {near}={number}?"
        return _problem(word, f"there is no track {track!r}, expected {' or '.join(Track)}", hint)
    try:
        bound = float(number)
    except ValueError:
        bound = nan
    if 0 < bound <= 1:
        return Gate(Track(track), bound)
    if 1 < bound <= 100:
        hint = f"did you mean {track}={bound / 100:g}?"
    return _problem(word, f"{number!r} is no rate above 0 and up to 1", hint)


def _problem(word: str, what: str, hint: str) -> Problem:
    return Problem(what, key=f"--fail-under {word}", hint=hint)


def judge_gates(
    analyses: Sequence[Analysis], gates: Sequence[Gate], targets: frozenset[str] | None = None
) -> tuple[list[str], int]:
    """Hold every target, or `targets`, to every gate whose track a benchmark has. Returns a line
    for each ruling and one with their counts, and the exit code.

    A gate is met where the whole interval lies at or above the bound, missed where all of it lies
    below, and open otherwise, or where unscored conversations could change that. Raises
    `InputError` for a gate whose track no benchmark has.
    """
    names = ", ".join(analysis.benchmark for analysis in analyses)
    idle = [
        _problem(
            f"{track}={bound:g}",
            f"no {track} metric in {names}",
            "leave this gate out, or name a benchmark that has such metrics",
        )
        for track, bound in gates
        if analyses and not any(track in analysis.tracks for analysis in analyses)
    ]
    if idle:
        raise InputError(idle)
    held = [
        (f"{analysis.benchmark}, {target.target}: {track}", target.tracks[track], bound)
        for analysis in analyses
        for track, bound in gates
        for target in analysis.targets
        if track in analysis.tracks and (targets is None or target.target in targets)
    ]
    lines: list[str] = []
    rulings: list[str] = []
    for who, estimate, bound in held:
        ruling, why = _ruling(estimate, bound)
        rulings.append(ruling)
        lines.append(f"gate: {who} {_rate(estimate)}, gate {_exact_percent(bound)}: {ruling}{why}")
    counts = [f"{rulings.count(one)} {one}" for one in (MET, MISSED, OPEN) if one in rulings]
    lines.append(f"gates: {', '.join(counts)}")
    return lines, next((code for one, code in EXIT_CODES.items() if one in rulings), 0)


def _ruling(estimate: Estimate, bound: float) -> tuple[str, str]:
    """The ruling, and why it is open."""
    worst, best = estimate.if_missing_failed, estimate.if_missing_passed
    # nothing was asked for, so there is no evidence: neither met nor missed
    if worst is None or best is None or not estimate.scored:
        return OPEN, ", nothing is scored"
    ruling = OPEN
    if estimate.low is not None and estimate.high is not None:
        ruling = MET if estimate.low >= bound else MISSED if estimate.high < bound else OPEN
    if ruling == OPEN:
        return OPEN, ", the interval contains the bound"
    if (ruling == MET and worst < bound) or (ruling == MISSED and best >= bound):
        return OPEN, f", {plural(estimate.missing, 'unscored conversation')} could change that"
    return ruling, ""


def _rate(estimate: Estimate) -> str:
    if estimate.rate is None or estimate.low is None or estimate.high is None:
        return "—"
    over = plural(estimate.base_scenarios, "scenario")
    if estimate.benchmarks is None:
        over = f"{estimate.passed}/{estimate.scored} in {over}"
    low, high = _exact_percent(estimate.low), _exact_percent(estimate.high)
    return f"{percent(estimate.rate)} [{low} to {high}], {over}"


def _exact_percent(rate: float) -> str:
    """To a tenth of a per cent, so that an end of an interval is not rounded onto the bound."""
    return f"{round(rate * 100, 1):g}%"
