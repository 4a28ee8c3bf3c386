"""Measures how similar texts are by the words they share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from engine.benchmark import Scenario

ALIKE: Final = 0.6
"""The share of common words from which two texts count as similar."""


def words_of(*texts: str) -> frozenset[str]:
    """The case-folded words of at least four letters."""
    return frozenset(_WORD.findall(" ".join(texts).casefold()))


# four letters: shorter words are mostly grammar, which all texts share
_WORD: Final = re.compile(r"[^\W\d_]{4,}")


def resemblance(mine: frozenset[str], theirs: frozenset[str]) -> float:
    """The Jaccard similarity (Broder 1997, On the resemblance and containment of documents)."""
    return len(mine & theirs) / (len(mine | theirs) or 1)


def near_duplicates(scenarios: Sequence[Scenario]) -> Iterator[tuple[Scenario, Scenario, float]]:
    """Yield pairs whose persona, goal and landmarks resemble each other by at least `ALIKE`."""
    words_of_scenarios = [(scenario, words_told(scenario)) for scenario in scenarios]
    for (one, mine), (other, theirs) in combinations(words_of_scenarios, 2):
        alike = resemblance(mine, theirs)
        if alike >= ALIKE:
            yield one, other, alike


def near_duplicate_groups(scenarios: Sequence[Scenario]) -> list[list[Scenario]]:
    """Groups of scenarios, each of which resembles another one of its group, in the order in which
    they are given."""
    groups: list[list[Scenario]] = []
    for one, other, _ in near_duplicates(scenarios):
        joined = [group for group in groups if one in group or other in group]
        groups = [group for group in groups if group not in joined]
        members = [one, other, *(scenario for group in joined for scenario in group)]
        groups.append([scenario for scenario in scenarios if scenario in members])
    return groups


def words_told(scenario: Scenario) -> frozenset[str]:
    """The words of a scenario's persona, goal and landmarks."""
    instructions = (mark.instruction for mark in scenario.landmarks)
    return words_of(scenario.persona, scenario.user_goal, *instructions)
