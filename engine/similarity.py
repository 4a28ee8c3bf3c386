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
    texts = [words_told(scenario) for scenario in scenarios]
    # those of the same words are one group from the start, and two of one group are not compared:
    # a study made from one template has a thousand
    groups = {text: {text} for text in texts if text}
    for one, other in combinations(groups, 2):
        if groups[one] is not groups[other] and resemblance(one, other) >= ALIKE:
            rest, joined = sorted((groups[one], groups[other]), key=len)
            joined |= rest
            groups.update(dict.fromkeys(rest, joined))
    members: dict[int, list[Scenario]] = {}
    for scenario, text in zip(scenarios, texts, strict=True):
        if text:
            members.setdefault(id(groups[text]), []).append(scenario)
    return [group for group in members.values() if len(group) > 1]


def words_told(scenario: Scenario) -> frozenset[str]:
    """The words of a scenario's persona, goal and landmarks."""
    instructions = (mark.instruction for mark in scenario.landmarks)
    return words_of(scenario.persona, scenario.user_goal, *instructions)
