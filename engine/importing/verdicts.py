"""Reads verdicts from rows of `scores.json` and from the history in our own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from engine.benchmark import UNKNOWN, Track
from engine.importing.fields import OURS, ForeignObject, answer, objects_in, passed, text
from engine.jury import Jury, reason_words
from engine.store.bulk import GIVEN_LATER
from engine.store.codec import storable
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


@dataclass(frozen=True, slots=True)
class ParsedVerdicts:
    """The verdicts of one row."""

    verdicts: tuple[Verdict, ...]
    off_target: bool = False
    """Whether the row is about another metric than its scenario is made for."""


def read_verdicts(row: ForeignObject, metric_id: str, rules: VerdictRules) -> ParsedVerdicts:
    """Read the verdicts of a row; `metric_id` is its scenario's. Raises `UnfitError`."""
    history = tuple(_history(row, metric_id, rules))
    about = metric_id if history else text(row, "metric_id") or metric_id
    present = answer(row, "present")
    track = rules.tracks.get(about)
    counted = passed(row, present, track)
    if about != metric_id:
        return ParsedVerdicts((_off_target(row, about, track, present, rules),), off_target=True)
    score = Verdict(
        take=GIVEN_LATER,
        metric_id=metric_id,
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
    if not history:
        return ParsedVerdicts((score,))
    # the row's own result is that of one of its verdicts, unless a person edited it
    is_edited = track is not None and not any(
        _is_same_verdict(verdict, score) for verdict in history
    )
    return ParsedVerdicts((*history, score) if is_edited else history)


def _is_same_verdict(verdict: Verdict, other: Verdict) -> bool:
    """Whether a row's own result is that of this verdict of its history; a row without a result
    says no more than its history."""
    answers = other.passed is None or verdict.passed is other.passed
    return answers and verdict.justification == other.justification


def _off_target(
    row: ForeignObject,
    about: str,
    track: Track | None,
    present: bool | None,  # noqa: FBT001  (a value, not a switch)
    rules: VerdictRules,
) -> Verdict:
    """A verdict that is kept but never counts: its scenario does not provoke this behaviour."""
    return Verdict(
        take=GIVEN_LATER,
        metric_id=about,
        track=track or Track.POSITIVE,
        judge=_judge(row),
        source="model",
        number=0,
        present=present,
        passed=None,
        unscored=f"off target: about {about}, which this scenario is not made for",
        justification=_justification(row),
        jury=rules.jury,
    )


def _unscored(present: bool | None, counted: bool | None, track: Track | None) -> str | None:  # noqa: FBT001  (values, not switches)
    if track is None:
        return NO_TYPE if present is not None or counted is not None else NOT_SCORED
    return NOT_SCORED if counted is None else None


def _judge(row: ForeignObject) -> str:
    judge = row.get("judge") or row.get("evaluator_model") or row.get("evaluator")
    return storable(judge) if isinstance(judge, str) else UNKNOWN


def _justification(row: ForeignObject) -> str:
    value = row.get("justification")
    return storable(value) if isinstance(value, str) else ""


def _history_of(row: ForeignObject) -> list[dict[str, Any]]:
    ours = row.get(OURS)
    return objects_in(ours.get("verdicts")) if isinstance(ours, dict) else []


def _history(row: ForeignObject, metric_id: str, rules: VerdictRules) -> Iterator[Verdict]:
    """Yield every verdict on the take that our own file lists, oldest first."""
    yield from verdicts_of(_history_of(row), metric_id, rules)


def verdicts_of(
    listed: Iterable[dict[str, Any]], metric_id: str, rules: VerdictRules
) -> Iterator[Verdict]:
    """Read the verdicts that our own files list. Raises `UnfitError`."""
    for verdict in listed:
        about = text(verdict, "metric_id") or metric_id
        track = rules.tracks.get(about)
        counted = answer(verdict, "passed")
        present = answer(verdict, "present")
        unscored = reason_words(storable(text(verdict, "unscored") or "")) or None
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
            quotes=tuple(_quotes(verdict)),
            marks=_marks(verdict),
            jury=rules.jury,
            served_by=_served_by(verdict),
            **_label(verdict),
        )


def _served_by(verdict: Mapping[str, Any]) -> str | None:
    served = text(verdict, "served_by")
    return None if served is None else storable(served)


def _quotes(verdict: Mapping[str, Any]) -> Iterator[Quote]:
    for quote in objects_in(verdict.get("quotes")):
        if isinstance(quote.get("text"), str):
            turn = quote.get("turn")
            yield Quote(storable(quote["text"]), turn if isinstance(turn, int) else None)


def _marks(verdict: Mapping[str, Any]) -> tuple[bool, ...] | None:
    listed = verdict.get("marks")
    if not isinstance(listed, list) or not all(isinstance(mark, bool) for mark in listed):
        return None
    return tuple(listed)


class _Label(TypedDict, total=False):
    """The fields that only a person's verdict has."""

    stratum: str | None
    inclusion: float
    confidence: int
    seconds: float
    adjudicates: bool


def _label(verdict: Mapping[str, Any]) -> _Label:
    """Read a person's label; values that do not fit are left out."""
    written = verdict.get("label")
    label = _Label()
    if not isinstance(written, dict) or verdict.get("source") != "human":
        return label
    if (inclusion := _bounded_number(written.get("inclusion"), 1.0)) is not None and inclusion > 0:
        label["inclusion"] = inclusion
        label["stratum"] = storable(text(written, "stratum") or "")
    if type(confidence := written.get("confidence")) is int and confidence in {1, 2, 3}:
        label["confidence"] = confidence
    if (seconds := _bounded_number(written.get("seconds"), 1e6)) is not None:
        label["seconds"] = seconds
    if written.get("adjudicates") is True:
        label["adjudicates"] = True
    return label


def _bounded_number(value: object, most: float) -> float | None:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    return float(value) if fits and isinstance(value, int | float) else None


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
