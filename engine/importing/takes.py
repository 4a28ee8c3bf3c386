"""From a conversation's row to its takes: one, or all that our own file tells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.benchmark import ConversationKey, StopReason
from engine.importing.fields import (
    OURS,
    PARTIAL,
    UNKNOWN,
    JsonObject,
    objects,
    target_model,
    text,
)
from engine.importing.secrets import cleaned
from engine.importing.transcripts import Transcript, read_transcript, stop_reason
from engine.importing.verdicts import Court, verdicts_of
from engine.store.bulk import WholeTake
from engine.store.mirror_rows import is_scripted
from engine.store.records import Depends
from engine.store.rows import NewVerdict, TakeRow


@dataclass(frozen=True, slots=True)
class FileTake:
    """One take as a file tells it."""

    number: int
    transcript: Transcript
    stop_reason: StopReason | None
    """None where it did not come to an end."""
    detail: str | None
    user_model: str
    model: str
    scripted: bool
    verdicts: tuple[NewVerdict, ...] = ()
    counts: bool = False
    """Whether it is the one that `scores.json` is about."""
    at: int | None = None
    """When it began, where that is known: milliseconds since 1970."""
    ended_at: int | None = None
    depends: Depends | None = None
    """What it was made from, where that is known."""

    @property
    def finished(self) -> bool:
        """Whether it may be judged."""
        ended = self.stop_reason is not None and self.stop_reason.finished
        return ended and self.transcript.turns > 0

    @property
    def digests(self) -> list[bytes]:
        return self.transcript.digests

    def judged(self, verdicts: Iterable[NewVerdict]) -> FileTake:
        return replace(self, verdicts=(*self.verdicts, *verdicts))

    def whole(self, benchmark: str, key: ConversationKey, number: int) -> WholeTake:
        begun = TakeRow(
            benchmark=benchmark,
            key=key,
            number=number,
            scenario_seq=None,
            user_model=self.user_model,
            model=self.model,
            scripted=self.scripted,
            depends=self.depends,
            at=self.at,
        )
        return WholeTake(
            begun=begun,
            messages=self.transcript.messages,
            stop_reason=self.stop_reason,
            detail=self.detail,
            ended_at=self.ended_at,
            verdicts=self.verdicts,
        )


def takes_of(
    row: JsonObject,
    key: ConversationKey,
    *,
    metric_id: str,
    court: Court,
    model: str,
    secrets: frozenset[str],
) -> list[FileTake]:
    """In the order in which they were played, numbered so. Raises `UnfitError`."""
    ours = row.get(OURS)
    told: Mapping[str, Any] = ours if isinstance(ours, dict) else {}
    counting = _counting(row, told, model, secrets)
    others = listed_takes(told.get("other_takes"), metric_id, court, secrets)
    return in_order([counting, *others])


def in_order(takes: Iterable[FileTake]) -> list[FileTake]:
    """Numbered anew where two of them have the same number."""
    ordered = sorted(takes, key=lambda take: take.number)
    numbers = [take.number for take in ordered]
    if len(set(numbers)) < len(numbers):
        return [replace(take, number=number) for number, take in enumerate(ordered)]
    return ordered


def _counting(
    row: JsonObject, told: Mapping[str, Any], model: str, secrets: frozenset[str]
) -> FileTake:
    transcript = read_transcript(row.get("transcript"), ours=told, secrets=secrets)
    label = text(told, "model") or target_model(row).model or model
    user = text(told, "user_model") or text(row, "user_model") or UNKNOWN
    reason = stop_reason(told.get("stop_reason")) if told else StopReason.UNKNOWN
    if row.get(PARTIAL) is True or not transcript.messages:
        reason = None
    return FileTake(
        number=_number(told),
        transcript=transcript,
        stop_reason=reason,
        detail=_detail(told, secrets),
        user_model=user,
        model=label,
        scripted=is_scripted((user, label)),
        counts=True,
    )


def listed_takes(
    listed: object, metric_id: str, court: Court, secrets: frozenset[str]
) -> Iterator[FileTake]:
    """Takes that our own files tell whole, each by itself. Raises `UnfitError`."""
    for one in objects(listed):
        take = FileTake(
            number=_number(one),
            transcript=read_transcript(one.get("transcript"), ours=one, secrets=secrets),
            stop_reason=stop_reason(one.get("stop_reason")),
            detail=_detail(one, secrets),
            user_model=text(one, "user_model") or UNKNOWN,
            model=text(one, "model") or UNKNOWN,
            scripted=one.get("scripted") is True,
        )
        given = verdicts_of(objects(one.get("verdicts")), metric_id, court)
        yield take.judged(given) if take.finished else take


def _number(told: Mapping[str, Any]) -> int:
    number = told.get("take")
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31:
        return number
    return 0


def _detail(told: Mapping[str, Any], secrets: frozenset[str]) -> str | None:
    detail = text(told, "detail")
    return None if detail is None else cleaned(detail, secrets)
