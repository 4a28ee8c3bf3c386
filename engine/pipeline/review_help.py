"""What helps a person to judge a metric or a scenario: what rules find, and what is most alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from engine.benchmark import base_id
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.lint import LintFinding, lint_metrics, lint_scenarios
from engine.pipeline.reviews import ReviewEntry, Reviews
from engine.review import ReviewMode, ReviewState
from engine.similarity import resemblance, words_of, words_told
from engine.store.reader import Reader
from engine.store.tables import ScenarioRow

MOST_NEIGHBOURS: Final = 3
_LEAST_ALIKE: Final = 0.1
"""Less than that says nothing."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    id: str
    alike: float
    """Share of words in common."""


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """Everything of one benchmark that can be reviewed, and what helps."""

    benchmark: str
    mode: ReviewMode
    entries: Sequence[ReviewEntry]
    findings: Mapping[str, Sequence[LintFinding]]
    """By id."""

    @classmethod
    def of(cls, definition: Definition, config: Config, reader: Reader) -> ReviewPage:
        """As the files and the store are now. Raises `StoreError`."""
        reviews = Reviews.of(definition, reader)
        found = findings_of(reviews, config.generation.turns)
        return cls(definition.name, config.review, reviews.entries(), found)

    @property
    def waiting(self) -> list[ReviewEntry]:
        return [one for one in self.entries if one.state is ReviewState.WAITS]

    def entry(self, name: str) -> ReviewEntry | None:
        """The one of this id."""
        return next((one for one in self.entries if one.id == name), None)

    def neighbours(self, entry: ReviewEntry) -> list[Neighbour]:
        """What is most alike: of a metric other metrics, of a base scenario other bases of its
        metric, of a variant the others of its base."""
        mine = _words(entry)
        near = [
            Neighbour(one.id, resemblance(mine, _words(one)))
            for one in self.entries
            if one.id != entry.id and _place(one) == _place(entry)
        ]
        near.sort(key=lambda one: (-one.alike, one.id))
        return [one for one in near if one.alike >= _LEAST_ALIKE][:MOST_NEIGHBOURS]


def findings_of(reviews: Reviews, turns: int) -> Mapping[str, Sequence[LintFinding]]:
    """By id, what plain rules find and the file does not silence."""
    metrics = [one.metric for one in reviews.metrics.values()]
    rows = [row.scenario for row in reviews.rows.values()]
    found: defaultdict[str, list[LintFinding]] = defaultdict(list)
    for one in (*lint_metrics(metrics), *lint_scenarios(rows, turns=turns)):
        silenced = reviews.definition.lint_ignore
        if not any(one.rule in silenced.get(name, {}) for name in (one.id, base_id(one.id))):
            found[one.id].append(one)
    return found


def _place(entry: ReviewEntry) -> tuple[str, str]:
    """What is compared with one another shares it."""
    if not isinstance(entry.of, ScenarioRow):
        return "", ""
    return entry.metric_id, "" if entry.is_base else base_id(entry.id)


def _words(entry: ReviewEntry) -> frozenset[str]:
    if isinstance(entry.of, ScenarioRow):
        return words_told(entry.of.scenario)
    return words_of(entry.of.metric.name, entry.of.metric.definition)
