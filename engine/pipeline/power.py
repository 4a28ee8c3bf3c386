"""Estimates which differences a plan could detect, before it is paid for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import comb, sqrt
from typing import Final

from engine.analysis.contrasts import pair_error
from engine.analysis.findings import found_sentence
from engine.analysis.tallies import tally
from engine.benchmark import Track, base_id
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.pipeline.counting import (
    StoredConversations,
    WantedConversation,
    counts_of,
    wanted_conversations,
)
from engine.pipeline.results import outcomes_of
from engine.stages.generate import combinations
from engine.statistics.design import Plan, detectable, smallest_difference
from engine.statistics.paired import FamilyPart, levels
from engine.store.reader import Reader

_ENOUGH_SEEN: Final = 4
"""Base scenarios shared by two targets from which observed variance replaces assumptions."""


@dataclass(frozen=True, slots=True)
class Detectable:
    """The smallest true difference between two targets that a plan detects 4 times out of 5."""

    track: Track | None
    """None for both tracks together."""
    difference: float | None
    """As a difference of rates; None where none would be detected."""
    base_scenarios: int
    """Base scenarios of the completed plan."""
    seen: bool
    """Whether it is based on existing verdicts rather than assumptions."""
    comparisons: int = 1
    """All comparisons that the results will make, for which the level is corrected."""


def detectable_differences(
    definition: Definition, config: Config, reader: Reader
) -> list[Detectable]:
    """For both tracks together, then for each; empty without two targets or any metrics."""
    if len(config.targets) < 2:
        return []
    wanted = list(wanted_conversations(definition, config, reader))
    outcomes = outcomes_of(
        wanted,
        StoredConversations.of(reader, definition.name),
        counts_of(definition, config, reader),
    )
    tallies = tally(outcomes, [target.id for target in config.targets])
    removed = {
        base_id(removed_scenario) for removed_scenario in reader.removed_scenarios(definition.name)
    }
    sizes = _sizes(definition, config, wanted, removed)
    tracks: list[Track | None] = [track for track in Track if sizes[track].variants]
    if len(tracks) > 1:
        tracks.insert(0, None)
    family = _family(len(config.targets), len(tracks), _groups(config, wanted))
    allowed = levels(family)
    found: list[Detectable] = []
    for number, track in enumerate(tracks):
        level = allowed[FamilyPart.PAIRS_ON_TRACKS if number else FamilyPart.PAIRS]
        plan, seen = sizes[track], pair_error(tallies, track)
        size, is_seen = _difference(plan, level, seen)
        found.append(Detectable(track, size, plan.base_scenarios, is_seen, family.total()))
    return found


def _groups(config: Config, wanted: Iterable[WantedConversation]) -> Mapping[str, AbstractSet[str]]:
    """The values of each axis: those of the scenarios, and those that are yet to be written."""
    groups = {axis: set(values) for axis, values in config.demographics.items()}
    for conversation in wanted:
        for axis, value in conversation.scenario.scenario.demographic.items():
            groups.setdefault(axis, set()).add(value)
    return groups


def _family(
    targets: int, sets: int, demographics: Mapping[str, AbstractSet[str]]
) -> Counter[FamilyPart]:
    """How many comparisons of each kind the results will make, on `sets` sets of metrics."""
    pairs = comb(targets, 2)
    gaps = sum(comb(len(values), 2) for values in demographics.values())
    return Counter(
        {
            FamilyPart.PAIRS: pairs,
            FamilyPart.PAIRS_ON_TRACKS: pairs * (sets - 1),
            FamilyPart.GAPS: gaps,
            FamilyPart.GAPS_OF_TARGETS: gaps * targets,
        }
    )


def _sizes(
    definition: Definition,
    config: Config,
    wanted: Iterable[WantedConversation],
    removed: AbstractSet[str],
) -> Mapping[Track | None, Plan]:
    """The size of the completed plan for both tracks and each, with scenarios yet to be written."""
    stand: dict[str, Counter[str]] = {metric.id: Counter() for metric in definition.metrics}
    for metric, scenario in {(one.metric.id, one.key.scenario_id) for one in wanted}:
        stand[metric][base_id(scenario)] += 1
    planned = len(combinations(config.demographics))
    sizes: dict[Track | None, Plan] = {}
    for track in (None, *Track):
        bases: list[tuple[int, ...]] = []
        for metric in (one.id for one in definition.metrics if track in {None, one.track}):
            # a removed scenario is not written again, so the plan stays smaller by it
            gone = {one for one in removed if one.startswith(f"{metric}_")} - set(stand[metric])
            there = list(stand[metric].values())
            lacking = config.generation.scenarios_per_metric - len(there) - len(gone)
            bases.append((*there, *[planned] * lacking))
        sizes[track] = Plan(tuple(bases), config.generation.num_samples, len(config.targets))
    return sizes


def _difference(
    plan: Plan, level: float, seen: tuple[float, int] | None
) -> tuple[float | None, bool]:
    """The smallest difference that is detected at this level, and whether it rests on verdicts:
    `seen` is a standard error and its base scenarios."""
    if seen is None or seen[1] < _ENOUGH_SEEN:
        return smallest_difference(plan, level=level), False
    # what was seen is of fewer scenarios, and an error shrinks with the root of their number
    error = seen[0] * sqrt(seen[1] / plan.base_scenarios)
    return detectable(error, plan.freedom, level), True


def power_sentences(detectables: Sequence[Detectable]) -> list[str]:
    """How far two targets must differ to be told apart on all metrics; empty where nothing is
    compared."""
    return [found_sentence(detectable.difference) for detectable in detectables[:1]]
