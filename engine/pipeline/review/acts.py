"""Carries out a person's review actions, in the store and in the files that people edit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Metric, Scenario, Track, When
from engine.config.benchmark_file import load_definition
from engine.config.write_back import metric_from, scenario_from, write_metrics
from engine.display import plural
from engine.errors import InputError, Problem
from engine.people import ReviewRequest, ReviewState
from engine.pipeline.context import BenchmarkContext, RunContext
from engine.pipeline.files import take_in_edits
from engine.pipeline.review.reviews import (
    ARRIVED,
    ON_THE_WAY,
    ReviewEntry,
    Reviews,
    acts_on_the_way,
    item_of,
    metric_review_digest,
    metrics_note,
    metrics_wanted,
    newest_of,
    scenario_review_digest,
)
from engine.store.database import Store
from engine.store.mirror_rows import metric_values, scenario_fields
from engine.store.scenarios_json import read_scenario
from engine.store.tables import (
    MetricRow,
    ReviewAction,
    ReviewItem,
    ReviewKind,
    ReviewRow,
    ScenarioRow,
    StoredRow,
)

LONGEST_REASON: Final = 4_000
"""Characters."""
LONGEST_EDIT: Final = 100_000
"""The most characters of a metric or scenario."""


@dataclass(frozen=True, slots=True)
class ReviewChange:
    """What a review action would change."""

    words: str
    rows: Sequence[StoredRow] = ()
    """Written in one transaction."""
    metrics: Sequence[Metric] | None = None
    """The new metrics of the file; None for no change."""


async def do_review(bench: RunContext, asked: ReviewRequest) -> str:
    """Carry out a request and say what was done. The caller mirrors the files. Raises `InputError`,
    with nothing done, and `StoreError`."""
    # locked from reading to writing: else concurrent actions would overwrite each other
    async with bench.claims.files(bench.name):
        await take_in_edits(bench)
        await bring_to_file(bench, bench.store)
        reviews = await asyncio.to_thread(Reviews.of, bench.definition, bench.reader)
        change = change_for(reviews, asked, turns=bench.config.generation.turns)
        await put_in_place(bench, change)
    return change.words


async def bring_to_file(bench: BenchmarkContext, store: Store) -> None:
    """Write to the file any change of metrics that is in the store but did not reach it before a
    crash. Raises `InputError` and `StoreError`."""
    if not acts_on_the_way(bench.name, bench.reader):
        return
    definition = load_definition(bench.definition.path)
    wanted = metrics_wanted(definition, bench.reader)
    if wanted != definition.metrics:
        await asyncio.to_thread(write_metrics, definition.path, wanted)
    await _note_arrival(bench, store)


async def put_in_place(bench: RunContext, change: ReviewChange) -> None:
    """Apply a change. The store comes first: after a crash between the two, it decides."""
    if change.metrics is not None:
        note = metrics_note(bench.name)
        await bench.store.set_mirrored({note: ON_THE_WAY}, through=bench.reader.last_seq())
    if change.rows:
        await bench.store.write(*change.rows)
    if change.metrics is not None:
        await asyncio.to_thread(write_metrics, bench.definition.path, change.metrics)
        await _note_arrival(bench, bench.store)


async def _note_arrival(bench: BenchmarkContext, store: Store) -> None:
    await store.set_mirrored({metrics_note(bench.name): ARRIVED})


def change_for(reviews: Reviews, asked: ReviewRequest, *, turns: int) -> ReviewChange:
    """Decide what a request changes, without changing anything. Raises `InputError`."""
    if len(asked.reason) > LONGEST_REASON:
        raise InputError(Problem(f"the reason is longer than {LONGEST_REASON:,} characters"))
    if asked.action == ReviewAction.UNDO:
        return _undo(reviews, asked)
    entries = _entries_named(reviews, asked)
    match asked.action:
        case ReviewAction.APPROVE:
            return _approve(reviews, asked, entries)
        case ReviewAction.REJECT:
            return _rejected(reviews, asked, entries)
        case ReviewAction.EDIT:
            return _edit(reviews, asked, entries, turns)
    raise InputError(Problem(f"there is no {asked.action!r} in a review"))


def _entries_named(reviews: Reviews, asked: ReviewRequest) -> list[ReviewEntry]:
    """The named entries. Raises `InputError` for any that is unknown or changed since `seen`."""
    by_id = {entry.id: entry for entry in reviews.entries()}
    problems: list[Problem] = []
    if not asked.ids:
        problems.append(Problem("no metric and no scenario is named"))
    for name in asked.ids:
        entry = by_id.get(name)
        if entry is None:
            problems.append(_unknown(name, by_id, reviews))
        # a person approves what they saw, not what a model or another person has made of it since
        elif asked.seen.get(name, entry.digest) != entry.digest:
            who = "" if entry.act is None else f" by {entry.act.person}"
            what = f"{name} was changed{who} meanwhile; nothing was done"
            problems.append(Problem(what, hint="look at it again"))
    if problems:
        raise InputError(problems)
    return [by_id[name] for name in dict.fromkeys(asked.ids)]


def _unknown(name: str, known: Mapping[str, ReviewEntry], reviews: Reviews) -> Problem:
    row = reviews.rows.get(name)
    if row is not None:
        base = row.scenario.base_id
        return Problem(f"{name} only repeats {base}", hint=f"name {base}, which stands for both")
    if name in reviews.gone:
        return Problem(
            f"{name} was taken out of scenarios.json by hand", hint="put it back there, as it was"
        )
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else "`crosswind review --list` shows what there is"
    shown = name[:100]
    return Problem(f"{reviews.definition.name} has no metric or scenario {shown!r}", hint=hint)


# Approve


def _approve(
    reviews: Reviews, asked: ReviewRequest, entries: Sequence[ReviewEntry]
) -> ReviewChange:
    rows: list[StoredRow] = []
    words: list[str] = []
    items: list[ReviewItem] = []
    metrics = list(reviews.definition.metrics)
    named = {entry.id for entry in entries}
    for entry in entries:
        if entry.state is ReviewState.REJECTED:
            _refuse_below_rejected(reviews, entry, named)
            rows += _restored_scenarios(reviews, entry)
            if not isinstance(entry.content, ScenarioRow):
                metrics = _with_metric(metrics, entry.content.metric)
            who = "" if entry.act is None else f" (rejected by {entry.act.person})"
            words.append(f"{entry.id} is back{who}")
        elif entry.state is not ReviewState.WAITS:
            needs = "needs no approval: a person wrote it"
            is_by_hand = entry.state is ReviewState.BY_HAND
            words.append(f"{entry.id} {needs if is_by_hand else 'is approved already'}")
            continue
        items.append(item_of(entry))
    if items:
        what = f"{len(items):,}" if len(items) > 1 else items[0].id
        words.insert(0, f"{what} approved")
        rows.append(_act(asked, items))
    changed = metrics if metrics != list(reviews.definition.metrics) else None
    return ReviewChange("; ".join(words), rows, changed)


def _refuse_below_rejected(reviews: Reviews, entry: ReviewEntry, named: Iterable[str]) -> None:
    """Raise `InputError` if the metric or base it belongs to is rejected and not being approved."""
    if not isinstance(entry.content, ScenarioRow):
        return
    for above in (entry.content.scenario.metric_id, entry.content.scenario.base_id):
        above_entry = None if above == entry.id or above in named else reviews.entry(above)
        if above_entry is not None and above_entry.state is ReviewState.REJECTED:
            what = f"{entry.id} belongs to {above}, which is rejected"
            raise InputError(Problem(what, hint=f"approve {above} first"))


def _restored_scenarios(reviews: Reviews, entry: ReviewEntry) -> Iterator[ScenarioRow]:
    """Rows that restore the scenarios that this entry's rejection removed."""
    for item in () if entry.act is None else entry.act.items:
        row = reviews.gone.get(item.id)
        key = ReviewKind.SCENARIO, item.id
        is_its = item.kind == ReviewKind.SCENARIO and reviews.newest_act(key) == entry.act
        if row is not None and is_its:
            yield replace(row, seq=0, at=None, removed=False)


def _with_metric(metrics: Sequence[Metric], metric: Metric) -> list[Metric]:
    """Insert a metric by its id."""
    # by id and not at the end: the other metrics stay in the person's order
    at = sum(other.id < metric.id for other in metrics)
    return [*metrics[:at], metric, *metrics[at:]]


# Reject


def _rejected(
    reviews: Reviews, asked: ReviewRequest, entries: Sequence[ReviewEntry]
) -> ReviewChange:
    if not asked.reason.strip():
        raise InputError(Problem("a rejection takes a reason", hint="say why with `--reason`"))
    if again := [entry.id for entry in entries if entry.state is ReviewState.REJECTED]:
        verb = "is" if len(again) == 1 else "are"
        raise InputError(Problem(f"{', '.join(again)} {verb} rejected already"))
    rejected = {row.scenario.id: row for entry in entries for row in reviews.dependents(entry)}
    lost = {entry.id for entry in entries if entry.kind is ReviewKind.METRIC}
    rows: list[StoredRow] = [*_metrics_to_keep(reviews, lost)]
    # facts never change, so the removal is a new row
    rows += [replace(row, seq=0, at=None, removed=True) for row in rejected.values()]
    items = [item_of(entry) for entry in entries]
    items += [
        ReviewItem(ReviewKind.SCENARIO.value, name, scenario_review_digest(row.scenario))
        for name, row in rejected.items()
        if name not in asked.ids
    ]
    rows.append(_act(asked, items))
    below = len(items) - len(entries)
    with_it = f", with {plural(below, 'scenario')} below" if below else ""
    words = f"{', '.join(entry.id for entry in entries)} rejected{with_it}"
    left = [metric for metric in reviews.definition.metrics if metric.id not in lost]
    return ReviewChange(words, rows, left if lost else None)


def _metrics_to_keep(reviews: Reviews, metrics: Iterable[str]) -> Iterator[MetricRow]:
    """Rows for metrics that leave the file and are not in the store in their current form."""
    for name in metrics:
        row = reviews.metrics[name]
        if row.source == "file":
            yield MetricRow(
                benchmark=reviews.definition.name, metric=row.metric, source="file", depends=None
            )


# Edit


def _edit(
    reviews: Reviews, asked: ReviewRequest, entries: Sequence[ReviewEntry], turns: int
) -> ReviewChange:
    if len(entries) != 1 or asked.text is None:
        raise InputError(Problem("an edit is of one metric or scenario, with all of its text"))
    [entry] = entries
    if entry.state is ReviewState.REJECTED:
        raise InputError(Problem(f"{entry.id} is rejected", hint="approve it first, then edit it"))
    if len(asked.text) > LONGEST_EDIT:
        raise InputError(Problem(f"the text is longer than {LONGEST_EDIT:,} characters"))
    path = Path(f"{entry.id}.yaml")
    if isinstance(entry.content, ScenarioRow):
        scenario = scenario_from(asked.text, entry.content.scenario, path, turns=turns)
        change = changed_scenario(reviews, entry.content, scenario, source="file", depends=None)
    else:
        metric = metric_from(asked.text, entry.content.metric, path)
        change = changed_metric(reviews, metric, source="file", depends=None)
    if not change.items:
        return ReviewChange(f"nothing was changed in {entry.id}")
    rows = [*change.rows, _act(asked, change.items)]
    return ReviewChange(f"{entry.id} changed", rows, change.metrics)


@dataclass(frozen=True, slots=True)
class ContentChange:
    """New content of a metric or a scenario; empty where nothing changes."""

    rows: Sequence[StoredRow] = ()
    items: Sequence[ReviewItem] = field(default_factory=list)
    metrics: Sequence[Metric] | None = None


def changed_scenario(
    reviews: Reviews,
    row: ScenarioRow,
    scenario: Scenario,
    *,
    source: str,
    depends: Mapping[str, str] | None,
) -> ContentChange:
    """Replace a scenario and its exact copies. Only a played row takes the `source`: a base that is
    not played stays a model's, or it would be played."""
    new = scenario_review_digest(scenario)
    if new == scenario_review_digest(row.scenario):
        return ContentChange()
    rows = [row, *(reviews.copies(scenario.id) if row.scenario.base_id == scenario.id else ())]
    return ContentChange(
        [
            replace(
                stored,
                seq=0,
                at=None,
                scenario=replace(scenario, id=stored.scenario.id),
                source=source if stored is row and row.played else "model",
                depends=depends if stored is row else None,
            )
            for stored in rows
        ],
        [
            ReviewItem(ReviewKind.SCENARIO.value, stored.scenario.id, new, scenario_was(stored))
            for stored in rows
        ],
    )


def changed_metric(
    reviews: Reviews, metric: Metric, *, source: str, depends: Mapping[str, str] | None
) -> ContentChange:
    before = reviews.metrics[metric.id]
    new = metric_review_digest(metric)
    if new == metric_review_digest(before.metric):
        return ContentChange()
    was: dict[str, Any] = {"metric": metric_values(before.metric), "source": before.source}
    if before.depends is not None:
        was["depends"] = dict(before.depends)
    name = reviews.definition.name
    row = MetricRow(benchmark=name, metric=metric, source=source, depends=depends)
    metrics = [metric if other.id == metric.id else other for other in reviews.definition.metrics]
    return ContentChange([row], [ReviewItem(ReviewKind.METRIC.value, metric.id, new, was)], metrics)


def scenario_was(row: ScenarioRow) -> dict[str, Any]:
    """A scenario's earlier content, as stored in a review action."""
    was: dict[str, Any] = {"scenario": scenario_fields(row.scenario), "source": row.source}
    return was if row.depends is None else {**was, "depends": dict(row.depends)}


# Undo


def _undo(reviews: Reviews, asked: ReviewRequest) -> ReviewChange:
    act = newest_of(reviews.acts, asked.person, asked.account)
    if act is None:
        raise InputError(Problem(f"there is nothing of {asked.person}'s to undo"))
    _refuse_built_upon(reviews, act)
    before = replace(reviews, acts=[row for row in reviews.acts if row is not act])
    is_presence = act.action in {ReviewAction.APPROVE, ReviewAction.REJECT}
    change = _undone_presence(reviews, before, act) if is_presence else _undone_change(reviews, act)
    items = [replace(item, was=None) for item in act.items]
    names = ", ".join(item.id for item in act.items[:3]) + (" …" if len(act.items) > 3 else "")
    return replace(
        change,
        words=f"undone: {act.action} {names}",
        rows=[*change.rows, _act(asked, items)],
    )


def _refuse_built_upon(reviews: Reviews, act: ReviewRow) -> None:
    """Raise `InputError` if somebody else has acted on the same rows since."""
    mine = {(item.kind, item.id) for item in act.items}
    after = reviews.acts[list(reviews.acts).index(act) + 1 :]
    for other in after:
        both = [item.id for item in other.items if (item.kind, item.id) in mine]
        if both and (other.person, other.account) != (act.person, act.account):
            what = f"{both[0]} has had a {other.action} by {other.person} since; nothing was undone"
            raise InputError(Problem(what, hint=f"{other.person} may undo that first"))


def _undone_presence(now: Reviews, before: Reviews, act: ReviewRow) -> ReviewChange:
    """Restore what a rejection removed, or remove again what an approval restored."""
    restores = act.action is ReviewAction.REJECT
    rows: list[StoredRow] = []
    metrics = list(now.definition.metrics)
    for item in act.items if restores else _restored_items(before, act):
        is_there = any(metric.id == item.id for metric in metrics)
        if item.kind != ReviewKind.METRIC:
            if (row := (now.gone if restores else now.rows).get(item.id)) is not None:
                rows.append(replace(row, seq=0, at=None, removed=not restores))
        elif restores and not is_there and item.id in now.metrics:
            metrics = _with_metric(metrics, now.metrics[item.id].metric)
        elif is_there and not restores:
            rows += _metrics_to_keep(now, [item.id])
            metrics = [metric for metric in metrics if metric.id != item.id]
    return ReviewChange("", rows, metrics if metrics != list(now.definition.metrics) else None)


def _restored_items(before: Reviews, act: ReviewRow) -> Iterator[ReviewItem]:
    """What an approval restored: all that the rejection had removed."""
    for item in act.items:
        earlier = before.newest_act((ReviewKind(item.kind), item.id))
        if earlier is not None and earlier.action is ReviewAction.REJECT:
            for lost in earlier.items:
                if before.newest_act((ReviewKind(lost.kind), lost.id)) == earlier:
                    yield lost


def _undone_change(now: Reviews, act: ReviewRow) -> ReviewChange:
    """Restore the content from before an edit or a rewrite."""
    rows: list[StoredRow] = []
    metrics = list(now.definition.metrics)
    for item in act.items:
        was = item.was or {}
        if item.kind == ReviewKind.METRIC:
            _refuse_other(now, item)
            metric = metric_of_values(was.get("metric"))
            metrics = [metric if other.id == item.id else other for other in metrics]
            rows.append(
                MetricRow(
                    benchmark=now.definition.name,
                    metric=metric,
                    source=str(was.get("source", "file")),
                    depends=was.get("depends"),
                )
            )
        else:
            _refuse_other(now, item)
            row = now.rows[item.id]
            rows.append(
                replace(
                    row,
                    seq=0,
                    at=None,
                    scenario=_scenario_of(was.get("scenario"), row.scenario),
                    source=str(was.get("source", row.source)),
                    depends=was.get("depends"),
                )
            )
    return ReviewChange("", rows, metrics if metrics != list(now.definition.metrics) else None)


def _refuse_other(now: Reviews, item: ReviewItem) -> None:
    """Raise `InputError` if the item's content is not what the action left."""
    if item.kind == ReviewKind.METRIC:
        current = next((metric for metric in now.definition.metrics if metric.id == item.id), None)
        digest = None if current is None else metric_review_digest(current)
    else:
        row = now.rows.get(item.id)
        digest = None if row is None else scenario_review_digest(row.scenario)
    if digest != item.digest:
        what = f"{item.id} was changed in its file since; nothing was undone"
        raise InputError(Problem(what, hint="edit it as it should be"))


def metric_of_values(value: object) -> Metric:
    """Restore a metric from a review action. Raises `InputError` where it is damaged."""
    try:
        fields: dict[str, Any] = dict(value)  # type: ignore[call-overload]  # whatever it is
        return Metric(
            str(fields["id"]),
            str(fields["name"]),
            Track(fields["type"]),
            str(fields["definition"]),
            tuple(map(str, fields.get("examples", ()))),
            When(fields.get("when", When.ANYWHERE)),
        )
    except (TypeError, ValueError, KeyError):
        raise InputError(Problem("what stood there before is not kept whole")) from None


def _scenario_of(value: object, now: Scenario) -> Scenario:
    """Raises `InputError`."""
    path = Path(f"{now.id}.json")
    scenario, problems = read_scenario(value, path=path, index=0, metrics={now.metric_id})
    if scenario is None:
        raise InputError(problems)
    return scenario


def _act(asked: ReviewRequest, items: Sequence[ReviewItem]) -> ReviewRow:
    return ReviewRow(
        benchmark=asked.benchmark,
        action=ReviewAction(asked.action),
        person=asked.person,
        account=asked.account,
        reason=asked.reason.strip(),
        items=tuple(items),
    )
