"""Which metrics and scenarios wait for a person, what people decided, and help with deciding:
findings of rules, and the most similar entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from engine.benchmark import Metric, Scenario, base_id
from engine.branches import Branch
from engine.config.benchmark_file import Definition
from engine.config.schema import Config
from engine.display import one_line
from engine.errors import InputError, Problem
from engine.identity import digest
from engine.lint import LintFinding, lint_metrics, lint_scenarios, resemblance, words_of, words_told
from engine.people import ReviewMode, ReviewState
from engine.stages.generate import scenario_digest
from engine.store.imports import NOTE
from engine.store.reader import Reader
from engine.store.tables import (
    Depends,
    ReviewAction,
    ReviewItem,
    ReviewKind,
    ReviewRow,
    ScenarioRow,
)

ItemKey = tuple[ReviewKind, str]

_APPROVING = frozenset({ReviewAction.APPROVE, ReviewAction.EDIT})


@dataclass(frozen=True, slots=True)
class ReviewedMetric:
    """A metric in its current form, or as it was when it was rejected."""

    metric: Metric
    source: str
    """`model` or `file`."""
    depends: Depends | None
    seq: int = 0
    """The `seq` of its row; 0 where the current form is in no row."""


@dataclass(frozen=True, slots=True)
class ReviewEntry:
    """A metric or scenario and its review state."""

    kind: ReviewKind
    id: str
    state: ReviewState
    digest: str
    content: ReviewedMetric | ScenarioRow
    act: ReviewRow | None
    """The newest action on it that was not undone."""

    @property
    def metric_id(self) -> str:
        return self.content.scenario.metric_id if isinstance(self.content, ScenarioRow) else self.id

    @property
    def is_base(self) -> bool:
        """Whether it is a base scenario."""
        return self.kind is ReviewKind.SCENARIO and base_id(self.id) == self.id

    @property
    def word(self) -> str:
        if self.kind is ReviewKind.METRIC:
            return "metric"
        return "base scenario" if self.is_base else "variant"

    @property
    def in_short(self) -> str:
        """One line: a metric's name, a variant's demographic values, or else the user's goal."""
        if not isinstance(self.content, ScenarioRow):
            return one_line(self.content.metric.name)
        scenario = self.content.scenario
        return one_line(", ".join(scenario.demographic.values()) or scenario.user_goal)


def metric_review_digest(metric: Metric) -> str:
    """A digest of everything about a metric that a person reviews."""
    parts = (metric.name.strip(), metric.track, metric.definition.strip(), metric.when)
    return digest([*map(str, parts), list(metric.examples)])


def scenario_review_digest(scenario: Scenario) -> str:
    """A digest of everything about a scenario that a person reviews."""
    groups = sorted(scenario.demographic.items())
    return digest([scenario_digest(scenario), groups, scenario.target_system_prompt])


def standing_acts(acts: Iterable[ReviewRow]) -> list[ReviewRow]:
    """Actions that were not undone, oldest first. An undo revokes its person's newest action."""
    standing: list[ReviewRow] = []
    for act in acts:
        if act.action is not ReviewAction.UNDO:
            standing.append(act)
        elif (undone := newest_of(standing, act.person, act.account)) is not None:
            standing.remove(undone)
    return standing


def newest_of(acts: Sequence[ReviewRow], person: str, account: str) -> ReviewRow | None:
    """This person's newest action."""
    who = (person, account)
    return next((act for act in reversed(acts) if (act.person, act.account) == who), None)


ON_THE_WAY: Final = "on the way"
ARRIVED: Final = "arrived"


def metrics_note(benchmark: str) -> str:
    """Return the path of the note that says whether `benchmark.yaml` holds what was decided of its
    metrics: while its digest is `ON_THE_WAY`, actions after its `seq` may not have reached it."""
    return f"{NOTE}metrics/{benchmark}"


def acts_on_the_way(benchmark: str, reader: Reader) -> list[ReviewRow]:
    """Stored actions that a crash may have kept from reaching `benchmark.yaml`."""
    note = reader.mirrored(metrics_note(benchmark))
    if note is None or note.digest != ON_THE_WAY:
        return []
    return [act for act in reader.reviews(benchmark) if act.seq > note.seq]


def metrics_wanted(definition: Definition, reader: Reader) -> tuple[Metric, ...]:
    """The metrics that the file should hold: its own, plus any stored action that a crash kept from
    reaching it. Raises `StoreError`."""
    metrics, later = list(definition.metrics), acts_on_the_way(definition.name, reader)
    lost = {item.id for act in later for item in act.items if item.kind == ReviewKind.METRIC}
    acts = standing_acts(reader.reviews(definition.name)) if lost else ()
    newest = {item.id: act.action for act in acts for item in act.items}
    for metric, _, _ in reader.metrics(definition.name) if lost else ():
        if metric.id not in lost:
            continue
        place = next((n for n, other in enumerate(metrics) if other.id == metric.id), None)
        if newest.get(metric.id) is ReviewAction.REJECT:
            metrics = [other for other in metrics if other.id != metric.id]
        elif place is None:
            metrics.insert(sum(other.id < metric.id for other in metrics), metric)
        elif metric_review_digest(metrics[place]) != metric_review_digest(metric):
            metrics[place] = metric
    return tuple(metrics)


@dataclass(frozen=True, slots=True)
class Reviews:
    """The reviews of one benchmark, from its files and the store."""

    definition: Definition
    acts: Sequence[ReviewRow]
    """Actions that were not undone, oldest first."""
    metrics: Mapping[str, ReviewedMetric]
    """Current metrics in the order of the file, then rejected ones."""
    rows: Mapping[str, ScenarioRow]
    """Current scenarios, exact copies included."""
    gone: Mapping[str, ScenarioRow]
    """Scenarios that were rejected, or removed from the file by hand."""

    @classmethod
    def of(cls, definition: Definition, reader: Reader) -> Reviews:
        """Read the current state. Raises `StoreError`."""
        name = definition.name
        definition = replace(definition, metrics=metrics_wanted(definition, reader))
        stored = {
            row.metric.id: ReviewedMetric(row.metric, row.source, row.depends, row.seq)
            for row in reader.metric_rows(name)
        }
        rows = {row.scenario.id: row for row in reader.scenarios(name)}
        gone = reader.gone_scenarios(name)  # includes any that a person restored, now in `rows`
        standing = {
            metric.id: _as_written(metric, stored.get(metric.id)) for metric in definition.metrics
        }
        return cls(
            definition,
            standing_acts(reader.reviews(name)),
            standing
            | {name: scenario for name, scenario in stored.items() if name not in standing},
            rows,
            {row.scenario.id: row for row in gone if row.scenario.id not in rows},
        )

    def entries(self) -> list[ReviewEntry]:
        """Everything to review: each metric, followed by its base scenarios and their variants. A
        variant that repeats its base word for word is part of it."""
        newest = self._newest_reviews()
        ordered: list[ReviewEntry] = []
        below: dict[str, list[ReviewEntry]] = {}
        for row in sorted(
            (*self.rows.values(), *self.gone.values()), key=lambda row: row.scenario.id
        ):
            if row.scenario.metric_id not in self.metrics:
                continue
            if (entry := self._scenario(row, newest)) is not None:
                below.setdefault(row.scenario.metric_id, []).append(entry)
        for name, metric in self.metrics.items():
            if (entry := self._metric(name, metric, newest)) is not None:
                ordered += [entry, *below.get(name, ())]
        return ordered

    def entry(self, name: str) -> ReviewEntry | None:
        """The entry with this id."""
        return next((entry for entry in self.entries() if entry.id == name), None)

    def rewritable(self, name: str) -> ReviewEntry:
        """The entry with this id, to be written again by a model. Raises `InputError` if it does
        not exist, was rejected, or was written by a person."""
        entry = self.entry(name)
        if entry is None:
            raise InputError(
                Problem(f"there is no metric or scenario {name[:100]!r} to write again")
            )
        if entry.state is ReviewState.REJECTED:
            raise InputError(Problem(f"{name} is rejected", hint="approve it first"))
        is_base = entry.is_base and isinstance(entry.content, ScenarioRow) and entry.content.played
        if is_base or (
            entry.state is ReviewState.BY_HAND and not isinstance(entry.content, ScenarioRow)
        ):
            raise InputError(Problem(f"{name} was written by a person", hint="edit it instead"))
        if isinstance(entry.content, ScenarioRow) and not entry.is_base:
            base = self.rows.get(entry.content.scenario.base_id)
            if base is None or not entry.content.scenario.demographic:
                raise InputError(Problem(f"{name} has no base to be written from", hint="edit it"))
        return entry

    def newest_act(self, key: ItemKey) -> ReviewRow | None:
        """The newest action on a key that was not undone."""
        return self._newest_reviews().get(key)

    def dependents(self, entry: ReviewEntry) -> list[ScenarioRow]:
        """The current scenarios that a rejection removes, the entry itself included."""
        if entry.kind is ReviewKind.METRIC:
            return [row for row in self.rows.values() if row.scenario.metric_id == entry.id]
        return [
            row
            for row in self.rows.values()
            if entry.id == row.scenario.id or (entry.is_base and row.scenario.base_id == entry.id)
        ]

    def copies(self, base: str) -> list[ScenarioRow]:
        """Variants that repeat their base exactly, as all do without demographics."""
        return [
            row for row in self.rows.values() if row.scenario.base_id == base and self._is_copy(row)
        ]

    def waiting(self) -> list[ReviewEntry]:
        return [entry for entry in self.entries() if entry.state is ReviewState.WAITS]

    def awaiting_approval(self) -> dict[str, tuple[str, ...]]:
        """Played scenarios that wait, each with the ids that must be approved first."""
        waiting = {entry.id for entry in self.waiting()}
        if not waiting:
            return {}
        by_benchmark: dict[str, tuple[str, ...]] = {}
        for name, row in self.rows.items():
            on = [row.scenario.metric_id]
            if row.source == "model":
                on += [row.scenario.base_id, name]
            if row.played and (
                first := tuple(dict.fromkeys(name for name in on if name in waiting))
            ):
                by_benchmark[name] = first
        return by_benchmark

    def _newest_reviews(self) -> dict[ItemKey, ReviewRow]:
        return {(ReviewKind(item.kind), item.id): act for act in self.acts for item in act.items}

    def _metric(
        self, name: str, reviewed_metric: ReviewedMetric, newest: Mapping[ItemKey, ReviewRow]
    ) -> ReviewEntry | None:
        key = ReviewKind.METRIC, name
        act, digest = newest.get(key), metric_review_digest(reviewed_metric.metric)
        if all(metric.id != name for metric in self.definition.metrics):
            if act is None or act.action is not ReviewAction.REJECT:
                return None
            state = ReviewState.REJECTED
        elif act is not None and act.action is ReviewAction.REJECT and digest in _digests(act, key):
            # a model wrote the same again, or a person restored it in the file
            state = ReviewState.WAITS if reviewed_metric.seq > act.seq else ReviewState.BY_HAND
        else:
            state = self._state(key, digest, reviewed_metric.source)
        return ReviewEntry(ReviewKind.METRIC, name, state, digest, reviewed_metric, act)

    def _scenario(
        self, row: ScenarioRow, newest: Mapping[ItemKey, ReviewRow]
    ) -> ReviewEntry | None:
        key = ReviewKind.SCENARIO, row.scenario.id
        act, digest = newest.get(key), scenario_review_digest(row.scenario)
        if row.removed:
            is_rejected = act is not None and act.action is ReviewAction.REJECT
            base = self.gone.get(row.scenario.base_id)
            if not is_rejected or (base is not None and _repeats(row, base)):
                return None
            return ReviewEntry(*key, ReviewState.REJECTED, digest, row, act)
        if self._is_copy(row) or self._is_idle(row):
            return None
        return ReviewEntry(*key, self._state(key, digest, row.source), digest, row, act)

    def _state(self, key: ItemKey, digest: str, source: str) -> ReviewState:
        for act in self.acts:
            if act.action in _APPROVING and digest in _digests(act, key):
                return ReviewState.APPROVED
        return ReviewState.WAITS if source == "model" else ReviewState.BY_HAND

    def _is_copy(self, row: ScenarioRow) -> bool:
        base = self.rows.get(row.scenario.base_id)
        return base is not None and _repeats(row, base)

    def _is_idle(self, row: ScenarioRow) -> bool:
        """Whether people replaced all variants of a base, so that nothing depends on it."""
        name = row.scenario.id
        if row.played or row.scenario.base_id != name:
            return False
        variants = [variant for variant in self.rows.values() if variant.scenario.base_id == name]
        return len(variants) > 1 and all(
            variant.source == "file" for variant in variants if variant is not row
        )


def _as_written(metric: Metric, stored: ReviewedMetric | None) -> ReviewedMetric:
    """Attribute a metric to a model only if it is unchanged since the model wrote it."""
    if stored is not None and metric_review_digest(stored.metric) == metric_review_digest(metric):
        return replace(stored, metric=metric)
    return ReviewedMetric(metric, "file", None)


def _repeats(row: ScenarioRow, base: ScenarioRow) -> bool:
    if row.scenario.id == base.scenario.id or row.source != "model" or row.scenario.demographic:
        return False
    return scenario_review_digest(row.scenario) == scenario_review_digest(base.scenario)


def _digests(act: ReviewRow, key: ItemKey) -> Iterator[str]:
    return (item.digest for item in act.items if (item.kind, item.id) == key)


def is_required(config: Config, benchmark: str) -> bool:
    """Whether what a model writes must be approved. A validation run needs no approval: it plays
    what its original played."""
    return config.review is ReviewMode.REQUIRED and Branch.parse(benchmark) is None


def held_metrics(definition: Definition, config: Config, reader: Reader) -> frozenset[str]:
    """Metrics that must be approved before scenarios are written for them."""
    if not is_required(config, definition.name):
        return frozenset()
    waiting = Reviews.of(definition, reader).waiting()
    return frozenset(entry.id for entry in waiting if entry.kind is ReviewKind.METRIC)


def item_of(entry: ReviewEntry) -> ReviewItem:
    """The entry as a review action refers to it."""
    return ReviewItem(entry.kind.value, entry.id, entry.digest)


MOST_NEIGHBOURS: Final = 3
_LEAST_ALIKE: Final = 0.1
"""Less similarity is not worth showing."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    id: str
    alike: float
    """The share of common words."""


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """Everything of one benchmark that can be reviewed, with findings."""

    benchmark: str
    entries: Sequence[ReviewEntry]
    findings: Mapping[str, Sequence[LintFinding]]
    """By id."""

    @classmethod
    def of(cls, definition: Definition, config: Config, reader: Reader) -> ReviewPage:
        """Read the current state. Raises `StoreError`."""
        reviews = Reviews.of(definition, reader)
        findings = findings_of(reviews, config.generation.turns)
        return cls(definition.name, reviews.entries(), findings)

    @property
    def waiting(self) -> list[ReviewEntry]:
        return [entry for entry in self.entries if entry.state is ReviewState.WAITS]

    def entry(self, name: str) -> ReviewEntry | None:
        """The entry with this id."""
        return next((entry for entry in self.entries if entry.id == name), None)

    def neighbours(self, entry: ReviewEntry) -> list[Neighbour]:
        """The most similar entries of the same kind: metrics, base scenarios of the same metric, or
        variants of the same base."""
        mine = _entry_words(entry)
        near = [
            Neighbour(other.id, resemblance(mine, _entry_words(other)))
            for other in self.entries
            if other.id != entry.id and _group(other) == _group(entry)
        ]
        near.sort(key=lambda neighbour: (-neighbour.alike, neighbour.id))
        return [neighbour for neighbour in near if neighbour.alike >= _LEAST_ALIKE][
            :MOST_NEIGHBOURS
        ]


def findings_of(reviews: Reviews, turns: int) -> Mapping[str, Sequence[LintFinding]]:
    """The findings of rules that the file does not silence, by id."""
    metrics = [metric.metric for metric in reviews.metrics.values()]
    rows = [row.scenario for row in reviews.rows.values()]
    by_id: defaultdict[str, list[LintFinding]] = defaultdict(list)
    for finding in (*lint_metrics(metrics), *lint_scenarios(rows, turns=turns)):
        silenced = reviews.definition.lint_ignore
        if not any(
            finding.rule in silenced.get(name, {}) for name in (finding.id, base_id(finding.id))
        ):
            by_id[finding.id].append(finding)
    return by_id


def _group(entry: ReviewEntry) -> tuple[str, str]:
    """The group within which entries are compared."""
    if not isinstance(entry.content, ScenarioRow):
        return "", ""
    return entry.metric_id, "" if entry.is_base else base_id(entry.id)


def _entry_words(entry: ReviewEntry) -> frozenset[str]:
    if isinstance(entry.content, ScenarioRow):
        return words_told(entry.content.scenario)
    return words_of(entry.content.metric.name, entry.content.metric.definition)
