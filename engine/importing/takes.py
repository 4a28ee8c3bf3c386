"""Converts a conversation's row to its takes: one, or all that our own file lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from engine.benchmark import UNKNOWN, ConversationKey, Speaker, StopReason
from engine.checks import CheckAnswer, CheckKind, FaultKind, UserFault
from engine.identity import message_digest
from engine.importing.fields import (
    OURS,
    PARTIAL,
    ForeignObject,
    UnfitError,
    objects_in,
    target_model,
    text,
    without_texts,
)
from engine.importing.verdicts import VerdictRules, verdicts_of
from engine.store.bulk import GIVEN_LATER, PlainMessages, WholeTake
from engine.store.codec import storable
from engine.store.json_file import kind_of
from engine.store.mirror_rows import is_scripted
from engine.store.tables import CheckRow, Depends, MessageRow, TakeRow, Verdict

NO_CONTENT: Final = "no content"
"""The `finish` of a message whose content is null in the file."""

_ROLES: Final = (Speaker.USER.value, Speaker.TARGET.value)
_STOP_REASONS: Final = {reason.value: reason for reason in StopReason}
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class ParsedTranscript:
    """The messages of a take, each with its turn."""

    messages: Sequence[MessageRow]

    @property
    def turns(self) -> int:
        """The number of complete turns: the user spoke and the target answered."""
        return len(self.messages) // 2

    @property
    def empty_contents(self) -> int:
        """The number of messages whose content was null."""
        if isinstance(self.messages, PlainMessages):
            return self.messages.finishes.count(NO_CONTENT)
        return sum(message.finish == NO_CONTENT for message in self.messages)

    @property
    def texts(self) -> Sequence[bytes]:
        """The texts of the messages, as UTF-8."""
        if isinstance(self.messages, PlainMessages):
            return self.messages.texts
        return [message.text.encode() for message in self.messages]

    @property
    def digests(self) -> list[bytes]:
        """The digests of the messages, in order."""
        if isinstance(self.messages, PlainMessages):
            return self.messages.digests
        return [
            message.digest or message_digest(message.speaker.value, message.text)
            for message in self.messages
        ]


@dataclass(slots=True)
class SharedTranscript:
    """The one that was read last. A sample of Inspect's is a conversation for each of its metrics,
    one after the other: they share their words here, on the way to the writer and there."""

    _value: list[Any] = field(default_factory=list)
    _secrets: frozenset[str] = frozenset()
    _plain: PlainMessages = field(default_factory=lambda: PlainMessages([], []))

    def plain(self, value: list[Any], secrets: frozenset[str]) -> PlainMessages:
        """Of a list of messages. Raises `UnfitError`."""
        if value != self._value or secrets != self._secrets:
            contents = [_content(message, index) for index, message in enumerate(value)]
            texts = [_encode_without_secrets(content or "", secrets) for content in contents]
            finishes = [NO_CONTENT if content is None else UNKNOWN for content in contents]
            self._value, self._secrets = value, secrets
            self._plain = PlainMessages(texts, finishes)
        return self._plain


def read_transcript(
    value: object,
    *,
    ours: Mapping[str, Any] | None,
    secrets: frozenset[str],
    shared: SharedTranscript | None = None,
) -> ParsedTranscript:
    """Read a transcript. Raises `UnfitError` unless user and assistant alternate."""
    if value is None:
        value = []
    if not isinstance(value, list):
        what = f"expected a list of messages, found {kind_of(value)}"
        raise UnfitError("transcript", what)
    plain = (shared or SharedTranscript()).plain(value, secrets)
    turns = _turns(ours)
    ours_texts = (
        [_with_turn_details(message, turns.get(message.turn, _NOTHING)) for message in plain]
        if turns
        else plain
    )
    return ParsedTranscript(ours_texts)


def _content(value: object, index: int) -> str | None:
    # the user begins and the two alternate; anything else is not a conversation of ours
    role = _ROLES[index & 1]
    if not isinstance(value, dict) or value.get("role") != role:
        raise _unfit(value, role, f"transcript[{index}]")
    content = value.get("content")
    if not isinstance(content, str) and content is not None:
        what = f"expected a text or null, found {kind_of(content)}"
        raise UnfitError(f"transcript[{index}].content", what)
    return content


def _encode_without_secrets(text: str, secrets: frozenset[str]) -> bytes:
    if secrets:
        text = without_texts(text, secrets)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return storable(text).encode()


def _with_turn_details(message: MessageRow, details: Mapping[str, Any]) -> MessageRow:
    """Add what is known of its turn to a message."""
    role, is_user = message.speaker.value, message.speaker is Speaker.USER
    return replace(
        message,
        thought=_text(details.get("thought")) if is_user else None,
        landmark=_text(details.get("landmark")) if is_user else None,
        done=is_user and details.get("done") is True,
        finish=_for_role(details.get("finish"), role) or message.finish,
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


def _turns(ours: Mapping[str, Any] | None) -> dict[int, Mapping[str, Any]]:
    """Return what our own files say of each turn."""
    turns = (ours or {}).get("turns")
    by_number: dict[int, Mapping[str, Any]] = {}
    for turn in turns if isinstance(turns, list) else ():
        if isinstance(turn, dict) and isinstance(turn.get("turn"), int):
            by_number[turn["turn"]] = turn
    return by_number


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def stop_reason(value: object) -> StopReason | None:
    """Return the stop reason; None for an unknown word, or none."""
    return _STOP_REASONS.get(value) if isinstance(value, str) else None


def _reason(entry: Mapping[str, Any], transcript: ParsedTranscript) -> StopReason | None:
    """Return the stop reason, or `UNKNOWN` if an edited transcript contradicts it."""
    reason = stop_reason(entry.get("stop_reason"))
    is_unanswered = len(transcript.messages) % 2 == 1
    return StopReason.UNKNOWN if reason and reason.after_reply and is_unanswered else reason


@dataclass(slots=True)
class FileTake:
    """A take as a file has it."""

    number: int
    transcript: ParsedTranscript
    stop_reason: StopReason | None
    """None if it did not end."""
    detail: str | None
    user_model: str
    model: str
    scripted: bool
    verdicts: tuple[Verdict, ...] = ()
    counts: bool = False
    """Whether `scores.json` is about this take."""
    at: int | None = None
    """When it began, in milliseconds since 1970, if known."""
    ended_at: int | None = None
    depends: Depends | None = None
    """What it was made from, if known."""
    user_faults: tuple[UserFault, ...] | None = None
    checks: tuple[CheckRow, ...] = ()
    finished: bool = field(init=False)
    """Whether it may be judged."""

    def __post_init__(self) -> None:
        ended = self.stop_reason is not None and self.stop_reason.finished
        self.finished = ended and self.transcript.turns > 0

    @property
    def digests(self) -> list[bytes]:
        return self.transcript.digests

    def judge(self, verdicts: Iterable[Verdict]) -> None:
        self.verdicts = (*self.verdicts, *verdicts)

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
            user_faults=self.user_faults,
            ended_at=self.ended_at,
            verdicts=self.verdicts,
            checks=self.checks if self.finished else (),
        )


def takes_of(
    row: ForeignObject,
    key: ConversationKey,
    *,
    metric_id: str,
    rules: VerdictRules,
    model: str,
    secrets: frozenset[str],
    shared: SharedTranscript,
) -> list[FileTake]:
    """Return the takes by number. Raises `UnfitError`."""
    ours = row.get(OURS)
    entry: Mapping[str, Any] = ours if isinstance(ours, dict) else {}
    counting = _counting(row, entry, model, secrets, shared)
    others = listed_takes(entry.get("other_takes"), metric_id, rules, secrets)
    return in_order([counting, *others])


def in_order(takes: Iterable[FileTake]) -> list[FileTake]:
    """Sort takes by number; renumber all if two have the same."""
    ordered = sorted(takes, key=lambda take: take.number)
    numbers = [take.number for take in ordered]
    if len(set(numbers)) < len(numbers):
        return [replace(take, number=number) for number, take in enumerate(ordered)]
    return ordered


def _counting(
    row: ForeignObject,
    entry: Mapping[str, Any],
    model: str,
    secrets: frozenset[str],
    shared: SharedTranscript,
) -> FileTake:
    messages = row.get("transcript")
    transcript = read_transcript(messages, ours=entry, secrets=secrets, shared=shared)
    label = text(entry, "model") or target_model(row).model or model
    user = text(entry, "user_model") or text(row, "user_model") or UNKNOWN
    reason = _reason(entry, transcript) if entry else StopReason.UNKNOWN
    if row.get(PARTIAL) is True or not transcript.messages:
        reason = None
    return FileTake(
        number=_take_number(entry),
        transcript=transcript,
        stop_reason=reason,
        detail=_detail(entry, secrets),
        user_model=user,
        model=label,
        scripted=is_scripted((user, label)),
        counts=True,
        user_faults=_user_faults(entry, secrets),
        checks=tuple(_checks(entry, secrets)),
    )


def listed_takes(
    listed: object, metric_id: str, rules: VerdictRules, secrets: frozenset[str]
) -> Iterator[FileTake]:
    """Yield the takes that our own files list completely. Raises `UnfitError`."""
    for entry in objects_in(listed):
        transcript = read_transcript(entry.get("transcript"), ours=entry, secrets=secrets)
        take = FileTake(
            number=_take_number(entry),
            transcript=transcript,
            stop_reason=_reason(entry, transcript),
            detail=_detail(entry, secrets),
            user_model=text(entry, "user_model") or UNKNOWN,
            model=text(entry, "model") or UNKNOWN,
            scripted=entry.get("scripted") is True,
            user_faults=_user_faults(entry, secrets),
            checks=tuple(_checks(entry, secrets)),
        )
        if take.finished:
            take.judge(verdicts_of(objects_in(entry.get("verdicts")), metric_id, rules))
        yield take


def _take_number(entry: Mapping[str, Any]) -> int:
    number = entry.get("take")
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31:
        return number
    return 0


def _user_faults(entry: Mapping[str, Any], secrets: frozenset[str]) -> tuple[UserFault, ...] | None:
    """Read faults from our own files; None if there is no list of them."""
    if not isinstance(entry.get("user_faults"), list):
        return None
    return tuple(
        UserFault(FaultKind(kind), turn, without_texts(detail, secrets))
        for fault in objects_in(entry["user_faults"])
        if (kind := text(fault, "kind")) in set(FaultKind)
        and type(turn := fault.get("turn")) is int
        and 0 < turn < 2**31
        and (detail := text(fault, "detail")) is not None
    )


def _checks(entry: Mapping[str, Any], secrets: frozenset[str]) -> Iterator[CheckRow]:
    """Read checks from our own files; what is not in our format is left out."""
    for check in objects_in(entry.get("checks")):
        kind, model = text(check, "kind"), text(check, "model")
        if kind not in set(CheckKind) or model is None:
            continue
        unusable, served_by = text(check, "unusable"), text(check, "served_by")
        yield CheckRow(
            take=GIVEN_LATER,
            kind=CheckKind(kind),
            model=storable(model),
            answers=tuple(_check_answers(check, secrets)),
            unusable=None if unusable is None else without_texts(unusable, secrets),
            served_by=None if served_by is None else storable(served_by),
        )


def _check_answers(check: Mapping[str, Any], secrets: frozenset[str]) -> Iterator[CheckAnswer]:
    for answer in objects_in(check.get("answers")):
        turn = answer.get("turn")
        fits = turn is None or (type(turn) is int and 0 < turn < 2**31)
        match answer:
            case {
                "about": str(about),
                "said": str(said),
                "holds": bool(holds),
                "quote": str(quote),
            }:
                if fits:
                    about, said, quote = (
                        without_texts(words, secrets) for words in (about, said, quote)
                    )
                    yield CheckAnswer(about, turn, said, holds, quote)
            case _:
                pass


def _detail(entry: Mapping[str, Any], secrets: frozenset[str]) -> str | None:
    detail = text(entry, "detail")
    return None if detail is None else without_texts(detail, secrets)
