"""What calls of each kind used so far in a workspace, and how far the next ones may differ."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from engine.benchmark import Role, Stage
from engine.pipeline.amounts import Range
from engine.store.reader import Reader
from engine.store.records import UsedCall

_VARIANT: Final = re.compile(r"_v\d+\Z")
FEWEST: Final = 5
"""Calls before what they used says more than an assumption."""
ENOUGH: Final = 20
"""Calls from which on their 5th and 95th percentiles are taken; before, the least and the most,
and half as much again on either side."""
SPREAD: Final = 1.5
USUAL: Final = 0.95
SLACK: Final = 0.05
"""Calls more for each answer than were needed so far, at the most that is likely."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one call used."""

    input_tokens: Range
    output_tokens: Range
    usd: Range | None
    """As it was paid; None where that was not known of each."""
    cached: float
    """The share of the input that the provider had kept."""

    def stretched(self, less: float, more: float) -> Seen:
        """For conversations that are shorter or longer: what is read grows with them."""
        if less == more:
            return self
        by = Range(less, more, 1.0)
        return Seen(
            self.input_tokens * by,
            self.output_tokens,
            None if self.usd is None else self.usd * by,
            self.cached,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """Of the newest calls of a workspace."""

    _seen: Mapping[tuple[Role, str, bool], Seen] = field(default_factory=dict)
    _lengths: Mapping[str, Range] = field(default_factory=dict)
    _again: Mapping[Role, Range] = field(default_factory=dict)
    _faults: Mapping[str, float] = field(default_factory=dict)

    def calls(self, role: Role, label: str, items: int) -> Seen | None:
        """None where too few were made. What a generator writes differs by how many `items` are
        in an answer, and so by whether there are several."""
        return self._seen.get((role, label, items > 1))

    def length(self, target: str) -> Range | None:
        """Turns of a conversation with this target, by its label."""
        return self._lengths.get(target)

    def faults(self, label: str) -> float:
        """How many calls to a model end in a fault, for each that is answered."""
        return self._faults.get(label, 0.0)

    def asked_again(self, role: Role) -> Range | None:
        """Calls for one answer."""
        return self._again.get(role)


def measured(reader: Reader) -> Measured:
    """From the newest calls of every benchmark."""
    used = reader.used_calls()
    groups: defaultdict[tuple[Role, str, bool], list[UsedCall]] = defaultdict(list)
    for call in used:
        if call.input_tokens is not None and call.output_tokens is not None:
            groups[call.role, call.model, _writes_several(call)].append(call)
    seen = {key: _seen(calls) for key, calls in groups.items() if len(calls) >= FEWEST}
    return Measured(seen, _lengths(used), _again(used, reader), reader.faults())


def _writes_several(call: UsedCall) -> bool:
    """All metrics come in one answer, and all bases of a metric; a variant comes alone."""
    if call.role is not Role.GENERATOR:
        return False
    return call.stage is Stage.GEN_METRICS or not _VARIANT.search(call.unit)


def _seen(calls: Sequence[UsedCall]) -> Seen:
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    told = sum(call.input_tokens or 0 for call in calls)
    kept = sum(call.cached_tokens or 0 for call in calls)
    return Seen(
        spread_of([float(call.input_tokens or 0) for call in calls]),
        spread_of([float(call.output_tokens or 0) for call in calls]),
        spread_of(costs) if len(costs) == len(calls) else None,
        kept / told if told else 0.0,
    )


def spread_of(amounts: Iterable[float]) -> Range:
    """From the 5th to the 95th percentile, around the mean; wider where they are few."""
    found = sorted(amounts)
    mean = sum(found) / len(found)
    if len(found) < ENOUGH:
        return Range(found[0] / SPREAD, found[-1] * SPREAD, mean)
    place = int(len(found) * USUAL)
    low, high = found[len(found) - 1 - place], found[min(place, len(found) - 1)]
    # a mean beyond either is that of a few that are far from all others
    return Range(min(low, mean), max(high, mean), mean)


def _lengths(used: Iterable[UsedCall]) -> dict[str, Range]:
    turns: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for call in used:
        if call.role is Role.TARGET:
            turns[call.model][call.benchmark, call.unit] += 1
    found = {}
    for model, counts in turns.items():
        if len(counts) >= FEWEST:
            spread = spread_of([float(count) for count in counts.values()])
            found[model] = Range(max(1.0, spread.low), spread.high, spread.expected)
    return found


def _again(used: Sequence[UsedCall], reader: Reader) -> dict[Role, Range]:
    """Each reply of a target answers one message of the user model, so that what is more was asked
    for again; verdicts are counted in the store."""
    if not used:
        return {}
    calls = Counter(call.role for call in used)
    answers = {
        Role.USER: calls[Role.TARGET],
        Role.EVALUATOR: reader.verdicts_since(min(call.seq for call in used)),
    }
    found = {}
    for role, count in answers.items():
        if count >= ENOUGH and calls[role] >= ENOUGH:
            each = max(1.0, calls[role] / count)
            found[role] = Range(1.0, each + SLACK, each)
    return found
