"""Stage 5: from what counts on each conversation to `results.json`. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.benchmark import ConversationKey, Track, base_id
from engine.statistics import agreement, effective_size, intraclass_correlation, wilson

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What counts for one conversation that belongs to the present benchmark."""

    key: ConversationKey
    metric_id: str
    track: Track
    demographic: Mapping[str, str]
    passed: bool | None
    unscored: str | None
    """Why there is no verdict; None where there is one."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What the store holds but the present benchmark does not, and so does not count."""

    conversations: int
    targets: Sequence[str]


def results(
    outcomes: Iterable[Outcome],
    *,
    targets: Sequence[str],
    scripted: Mapping[str, bool],
    left_out: LeftOut,
) -> list[JsonObject]:
    """One row for each target, the highest `positive_pass_rate` first, no data last.

    The first seven fields are those that other tools read; nothing scored is null, not 0.
    """
    by_target: dict[str, list[Outcome]] = {target: [] for target in targets}
    for outcome in outcomes:
        if outcome.key.target_id in by_target:
            by_target[outcome.key.target_id].append(outcome)
    correlation = _correlation(by_target.values())
    rows = [
        _row(target, found, correlation, scripted[target], left_out)
        for target, found in by_target.items()
    ]
    return sorted(rows, key=_rank)


def _rank(row: JsonObject) -> tuple[bool, float, str]:
    rate = row["positive_pass_rate"]
    return rate is None, -(rate or 0.0), row["target_model"]


def _correlation(groups: Iterable[Sequence[Outcome]]) -> float:
    """Pooled over the run: one cell's few scenarios say too little about it."""
    cells: defaultdict[tuple[str, str], defaultdict[str, list[bool]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for outcomes in groups:
        for one in outcomes:
            if one.passed is not None:
                base = base_id(one.key.scenario_id)
                cells[one.key.target_id, one.metric_id][base].append(one.passed)
    return intraclass_correlation(list(cell.values()) for cell in cells.values())


def _row(
    target: str,
    outcomes: Sequence[Outcome],
    correlation: float,
    is_scripted: bool,  # noqa: FBT001  (a column of the row, not a switch)
    left_out: LeftOut,
) -> JsonObject:
    scored = [one for one in outcomes if one.passed is not None]
    tracks = {track: [one for one in scored if one.track is track] for track in Track}

    def cells(key: Callable[[Outcome], str], rows: Iterable[Outcome] = scored) -> JsonObject:
        groups: defaultdict[str, list[Outcome]] = defaultdict(list)
        for one in rows:
            groups[key(one)].append(one)
        return {name: _cell(groups[name]) for name in sorted(groups)}

    axes = sorted({axis for one in scored for axis in one.demographic})
    return {
        "target_model": target,
        "positive_pass_rate": _rate(tracks[Track.POSITIVE]),
        "negative_pass_rate": _rate(tracks[Track.NEGATIVE]),
        "n_positive": len(tracks[Track.POSITIVE]),
        "n_negative": len(tracks[Track.NEGATIVE]),
        "n_total": len(scored),
        "by_metric": cells(lambda one: one.metric_id),
        "by_scenario": cells(lambda one: one.key.scenario_id),
        "by_base_scenario": cells(lambda one: base_id(one.key.scenario_id)),
        "by_demographic": {
            axis: cells(
                lambda one, axis=axis: one.demographic[axis],  # type: ignore[misc]  # mypy cannot infer a lambda with a bound default
                (one for one in scored if axis in one.demographic),
            )
            for axis in axes
        },
        "by_sample": cells(lambda one: str(one.key.sample)),
        "intervals": {
            "level": 0.95,
            "method": "Wilson on n/deff, deff pooled over the run",
            "intraclass_correlation": round(correlation, 6),
            **{f"{track}_pass_rate": _interval(tracks[track], correlation) for track in Track},
            "by_metric": {
                metric: _interval([one for one in scored if one.metric_id == metric], correlation)
                for metric in sorted({one.metric_id for one in scored})
            },
        },
        "scored": {
            "scored": len(scored),
            "of": len(outcomes),
            "unscored": dict(
                sorted(
                    Counter(one.unscored or "?" for one in outcomes if one.passed is None).items()
                )
            ),
        },
        "agreement": _agreement(outcomes),
        "notes": _notes(is_scripted, left_out),
    }


def _rate(outcomes: Sequence[Outcome]) -> float | None:
    return sum(bool(one.passed) for one in outcomes) / len(outcomes) if outcomes else None


def _cell(outcomes: Sequence[Outcome]) -> JsonObject:
    return {
        "pass_rate": _rate(outcomes),
        "n_passed": sum(bool(one.passed) for one in outcomes),
        "n_total": len(outcomes),
    }


def _interval(outcomes: Sequence[Outcome], correlation: float) -> JsonObject | None:
    rate = _rate(outcomes)
    if rate is None:
        return None
    sizes = Counter(base_id(one.key.scenario_id) for one in outcomes)
    effective = effective_size(list(sizes.values()), correlation)
    interval = wilson(rate, effective)
    return {
        "low": round(interval.low, 6),
        "high": round(interval.high, 6),
        "n": len(outcomes),
        "n_effective": round(effective, 3),
        "base_scenarios": len(sizes),
    }


def _agreement(outcomes: Sequence[Outcome]) -> JsonObject | None:
    """Between the samples of one scenario."""
    samples: defaultdict[str, list[bool | None]] = defaultdict(list)
    for one in outcomes:
        samples[one.key.scenario_id].append(one.passed)
    found = agreement(samples.values())
    return None if found is None else {"between": "samples", **asdict(found)}


def _notes(is_scripted: bool, left_out: LeftOut) -> list[str]:  # noqa: FBT001  (see `_row`)
    notes = []
    if is_scripted:
        notes.append("Scripted models took part; they are not language models.")
    if left_out.conversations:
        notes.append(
            f"{left_out.conversations} stored conversations are not part of the present benchmark "
            "and are not counted."
        )
    if left_out.targets:
        notes.append("Targets no longer in the configuration: " + ", ".join(left_out.targets))
    return notes
