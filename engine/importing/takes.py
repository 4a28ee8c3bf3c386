"""Converts a conversation's row to its takes: one, or all that our own file lists, and
reads their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal

import msgspec

from engine.benchmark import UNKNOWN, ConversationKey, Speaker, StopReason, Track
from engine.checks import CheckAnswer, UserFault
from engine.identity import message_digest
from engine.importing.fields import (
    OURS,
    PARTIAL,
    ForeignObject,
    UnfitError,
    answer,
    objects_in,
    passed,
    read_as,
    row_of,
    rows_of,
    target_model,
    text,
)
from engine.jury import Jury, reason_words
from engine.store.inserts import GIVEN_LATER, WholeTake
from engine.store.json_file import kind_of
from engine.store.mirror_rows import is_scripted
from engine.store.tables import CheckRow, MessageRow, Quote, TakeEndRow, TakeRow, Verdict

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


NO_CONTENT: Final = "no content"
"""The `finish` of a message whose content is null in the file."""

_SPEAKERS: Final = (Speaker.USER, Speaker.TARGET)
_STOP_REASONS: Final = {reason.value: reason for reason in StopReason}
_NOTHING: Final[Mapping[str, Any]] = {}
_MOST: Final = 2**31


@dataclass(frozen=True, slots=True)
class TakeReader:
    """Reads the takes of one conversation."""

    benchmark: str
    key: ConversationKey
    metric_id: str
    rules: VerdictRules

    def counting(self, row: ForeignObject, model: str) -> WholeTake:
        """Return the take that `scores.json` is about, without verdicts. `model` is the target's
        where the row does not name it. Raises `UnfitError`."""
        entry = _entry(row)
        messages = _messages(row.get("transcript"), entry)
        label = text(entry, "model") or target_model(row).model or model
        user = text(entry, "user_model") or text(row, "user_model") or UNKNOWN
        reason = _reason(entry, messages) if entry else StopReason.UNKNOWN
        if row.get(PARTIAL) is True or not messages:
            reason = None
        return self._take(entry, messages, reason, (user, label), scripted=None)

    def listed(self, takes: object) -> Iterator[WholeTake]:
        """Yield the takes that our own files list completely. Raises `UnfitError`."""
        for entry in objects_in(takes):
            messages = _messages(entry.get("transcript"), entry)
            models = (text(entry, "user_model") or UNKNOWN, text(entry, "model") or UNKNOWN)
            scripted = entry.get("scripted") is True
            take = self._take(entry, messages, _reason(entry, messages), models, scripted=scripted)
            if take.finished:
                given = verdicts_of(objects_in(entry.get("verdicts")), self.metric_id, self.rules)
                take = replace(take, verdicts=tuple(given))
            yield take

    def others(self, row: ForeignObject) -> Iterator[WholeTake]:
        """Yield the takes that our own file lists beside the counting one. Raises `UnfitError`."""
        return self.listed(_entry(row).get("other_takes"))

    def _take(
        self,
        entry: Mapping[str, Any],
        messages: Sequence[MessageRow],
        reason: StopReason | None,
        models: tuple[str, str],
        *,
        scripted: bool | None,
    ) -> WholeTake:
        """`models` are those of user and target; if `scripted` is None, they tell."""
        begun = TakeRow(
            benchmark=self.benchmark,
            key=self.key,
            number=_take_number(entry),
            scenario_seq=None,
            user_model=models[0],
            model=models[1],
            scripted=is_scripted(models) if scripted is None else scripted,
        )
        end = None
        if reason is not None:
            end = TakeEndRow(
                take=GIVEN_LATER,
                stop_reason=reason,
                detail=text(entry, "detail"),
                user_faults=_user_faults(entry),
            )
        take = WholeTake(begun=begun, messages=messages, end=end)
        return replace(take, checks=tuple(_checks(entry))) if take.finished else take


def in_order(takes: Iterable[WholeTake]) -> list[WholeTake]:
    """Sort takes by number; renumber all if two have the same."""
    ordered = sorted(takes, key=lambda take: take.begun.number)
    if len({take.begun.number for take in ordered}) < len(ordered):
        return [numbered(take, number) for number, take in enumerate(ordered)]
    return ordered


def numbered(take: WholeTake, number: int) -> WholeTake:
    """Return the take with this number."""
    return replace(take, begun=replace(take.begun, number=number))


def digests_of(messages: Sequence[MessageRow]) -> list[bytes]:
    """Return the digests of messages that were read from a file."""
    return [message.digest or b"" for message in messages]


def _entry(row: ForeignObject) -> Mapping[str, Any]:
    ours = row.get(OURS)
    return ours if isinstance(ours, dict) else _NOTHING


def _messages(value: object, entry: Mapping[str, Any]) -> list[MessageRow]:
    """Read a transcript, with what our own file says of each turn. Raises `UnfitError` unless user
    and assistant alternate."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise UnfitError("transcript", f"expected a list of messages, found {kind_of(value)}")
    turns = {turn.get("turn"): turn for turn in objects_in(entry.get("turns"))}
    return [
        _message(said, index, turns.get((index >> 1) + 1, _NOTHING))
        for index, said in enumerate(value)
    ]


def _message(value: object, index: int, details: Mapping[str, Any]) -> MessageRow:
    # the user begins and the two alternate; anything else is not a conversation of ours
    speaker = _SPEAKERS[index & 1]
    role = speaker.value
    if not isinstance(value, dict) or value.get("role") != role:
        raise _unfit(value, role, f"transcript[{index}]")
    content = value.get("content")
    if not isinstance(content, str) and content is not None:
        what = f"expected a text or null, found {kind_of(content)}"
        raise UnfitError(f"transcript[{index}].content", what)
    is_user, said = index & 1 == 0, content or ""
    return MessageRow(
        take=GIVEN_LATER,
        turn=(index >> 1) + 1,
        speaker=speaker,
        text=said,
        digest=message_digest(role, said),
        finish=_for_role(details.get("finish"), role)
        or (NO_CONTENT if content is None else UNKNOWN),
        thought=_text(details.get("thought")) if is_user else None,
        landmark=_text(details.get("landmark")) if is_user else None,
        done=is_user and details.get("done") is True,
        reasoning=None if is_user else _text(details.get("reasoning")),
        served_by=_for_role(details.get("served_by"), role),
    )


def _unfit(value: object, role: str, at: str) -> UnfitError:
    if not isinstance(value, dict):
        return UnfitError(at, f"expected {{role, content}}, found {kind_of(value)}")
    what = f"expected the role '{role}', found {kind_of(value.get('role'))}"
    hint = "a transcript begins with the user, and the two take turns"
    return UnfitError(f"{at}.role", what, hint)


def _for_role(by_role: object, role: str) -> str | None:
    """Return one side's value from an object with values for both."""
    return _text(by_role.get(role)) if isinstance(by_role, dict) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _reason(entry: Mapping[str, Any], messages: Sequence[MessageRow]) -> StopReason | None:
    """Return the stop reason, or `UNKNOWN` if an edited transcript contradicts it; None for an
    unknown word, or none."""
    reason = _STOP_REASONS.get(_text(entry.get("stop_reason")) or "")
    is_unanswered = len(messages) % 2 == 1
    return StopReason.UNKNOWN if reason and reason.after_reply and is_unanswered else reason


def _take_number(entry: Mapping[str, Any]) -> int:
    number = entry.get("take")
    return number if type(number) is int and 0 <= number < _MOST else 0


def _user_faults(entry: Mapping[str, Any]) -> tuple[UserFault, ...] | None:
    """Read faults from our own files; None if there is no list of them."""
    if not isinstance(entry.get("user_faults"), list):
        return None
    faults = rows_of(UserFault, entry["user_faults"], "kind turn detail")
    return tuple(fault for fault in faults if 0 < fault.turn < _MOST)


def _checks(entry: Mapping[str, Any]) -> Iterator[CheckRow]:
    """Read checks from our own files; what is not in our format is left out."""
    for check in objects_in(entry.get("checks")):
        answers = rows_of(CheckAnswer, check.get("answers"), "about said holds quote turn")
        fitting = tuple(one for one in answers if one.turn is None or 0 < one.turn < _MOST)
        row = row_of(CheckRow, check, "kind model unusable served_by", take=GIVEN_LATER)
        if row is not None:
            yield replace(row, answers=fitting)
