"""Reads verdicts from rows of `scores.json` and from the history in our own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import msgspec

from engine.benchmark import UNKNOWN, Track
from engine.importing.fields import (
    OURS,
    ForeignObject,
    answer,
    objects_in,
    passed,
    read_as,
    rows_of,
    text,
)
from engine.jury import Jury, reason_words
from engine.store.bulk import GIVEN_LATER
from engine.store.tables import CheckRow, Quote, Verdict

EDITED: Final = "edited file"
"""The judge of a verdict that a person wrote over ours in a file."""
NOT_SCORED: Final = "not scored in the imported file"
NO_TYPE: Final = "the metric's type is not known, so present or not does not say whether it passed"

Tracks = Mapping[str, Track]


@dataclass(frozen=True, slots=True)
class VerdictRules:
    """What is needed to read a verdict."""

    tracks: Tracks
    """The track of each metric."""
    jury: Jury | None
    """The judges and passes that count."""


def read_verdicts(
    row: ForeignObject, metric_id: str, rules: VerdictRules
) -> tuple[Sequence[Verdict], bool]:
    """Read the verdicts of a row, and whether it is about another metric than `metric_id`, its
    scenario's. Raises `UnfitError`."""
    ours = row.get(OURS)
    # every verdict on the take that our own file lists, oldest first
    listed = objects_in(ours.get("verdicts")) if isinstance(ours, dict) else []
    history = tuple(verdicts_of(listed, metric_id, rules))
    about = metric_id if history else text(row, "metric_id") or metric_id
    present = answer(row, "present")
    track = rules.tracks.get(about)
    counted = passed(row, present, track)
    score = Verdict(
        take=GIVEN_LATER,
        metric_id=about,
        track=track or Track.POSITIVE,
        judge=EDITED if history else _judge(row),
        source="human" if history else "model",
        number=0,
        present=present,
        passed=None if track is None else counted,
        unscored=_unscored(present, counted, track),
        justification=_justification(row),
        jury=rules.jury,
    )
    if about != metric_id:
        # kept, but it never counts: its scenario does not provoke this behaviour
        why = f"off target: about {about}, which this scenario is not made for"
        return (replace(score, passed=None, unscored=why),), True
    if not history:
        return (score,), False
    # the row's own result is that of one of its verdicts, unless a person edited it
    is_edited = track is not None and not any(
        _is_same_verdict(verdict, score) for verdict in history
    )
    return ((*history, score) if is_edited else history), False


def _is_same_verdict(verdict: Verdict, other: Verdict) -> bool:
    """Whether a row's own result is that of this verdict of its history; a row without a result
    says no more than its history."""
    answers = other.passed is None or verdict.passed is other.passed
    return answers and verdict.justification == other.justification


def _unscored(present: bool | None, counted: bool | None, track: Track | None) -> str | None:  # noqa: FBT001  (values, not switches)
    if track is None:
        return NO_TYPE if present is not None or counted is not None else NOT_SCORED
    return NOT_SCORED if counted is None else None


def _judge(row: ForeignObject) -> str:
    judge = row.get("judge") or row.get("evaluator_model") or row.get("evaluator")
    return judge if isinstance(judge, str) else UNKNOWN


def _justification(row: ForeignObject) -> str:
    value = row.get("justification")
    return value if isinstance(value, str) else ""


def verdicts_of(
    listed: Iterable[dict[str, Any]], metric_id: str, rules: VerdictRules
) -> Iterator[Verdict]:
    """Read the verdicts that our own files list. Raises `UnfitError`."""
    for verdict in listed:
        about = text(verdict, "metric_id") or metric_id
        track = rules.tracks.get(about)
        counted = answer(verdict, "passed")
        present = answer(verdict, "present")
        unscored = reason_words(text(verdict, "unscored") or "") or None
        number = verdict.get("pass")
        yield Verdict(
            take=GIVEN_LATER,
            metric_id=about,
            track=track or Track.POSITIVE,
            judge=_judge(verdict),
            source="human" if verdict.get("source") == "human" else "model",
            number=number if isinstance(number, int) and 0 <= number < 2**31 else 0,
            present=present,
            passed=None if track is None or unscored is not None else counted,
            unscored=unscored or _unscored(present, counted, track),
            justification=_justification(verdict),
            quotes=tuple(rows_of(Quote, verdict.get("quotes"), "text turn")),
            marks=read_as(tuple[bool, ...], verdict.get("marks")),
            jury=rules.jury,
            served_by=text(verdict, "served_by"),
            **_label(verdict),
        )


class _Label(msgspec.Struct):
    """What only a person's verdict has."""

    stratum: str | None = None
    inclusion: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """The stratum counts only beside it."""
    confidence: Literal[1, 2, 3] | None = None
    seconds: Annotated[float, msgspec.Meta(ge=0, le=1e6)] | None = None
    adjudicates: bool = False


def _label(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Read a person's label; one that does not fit is left out."""
    label = read_as(_Label, verdict.get("label")) if verdict.get("source") == "human" else None
    return {} if label is None else msgspec.structs.asdict(label)


def check_identity(check: CheckRow) -> tuple[object, ...]:
    """Return what makes two checks of one take equal."""
    return check.kind, check.model, check.answers, check.unusable


def identity(verdict: Verdict) -> tuple[object, ...]:
    """Return what makes two verdicts on one take equal."""
    return (
        *(verdict.metric_id, verdict.judge, verdict.source, verdict.number),
        *(verdict.present, verdict.passed, verdict.unscored, verdict.justification),
        tuple((quote.text, quote.turn) for quote in verdict.quotes),
        verdict.marks,
        verdict.adjudicates,
    )
