"""From a row's transcript to messages, with what our own files say of them beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from engine.benchmark import Speaker, StopReason
from engine.importing.fields import UNKNOWN, UnfitError, kind_of
from engine.importing.secrets import cleaned
from engine.store.bulk import GIVEN_LATER
from engine.store.digest import message_digest
from engine.store.inserts import storable_message
from engine.store.rows import MessageRow

NO_CONTENT: Final = "no content"
"""How a message ended whose content is null in the file."""

_SPEAKERS: Final = ((Speaker.USER, Speaker.USER.value), (Speaker.TARGET, Speaker.TARGET.value))
_STOP_REASONS: Final = {one.value: one for one in StopReason}
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said, each message with its turn."""

    messages: Sequence[MessageRow]

    @property
    def turns(self) -> int:
        """Complete ones."""
        return len(self.messages) // 2

    @property
    def empty_contents(self) -> int:
        return sum(message.finish == NO_CONTENT for message in self.messages)

    @property
    def digests(self) -> list[bytes]:
        """Of its messages, in their order."""
        return [one.digest or message_digest(one.speaker.value, one.text) for one in self.messages]


def read_transcript(
    value: object,
    *,
    ours: Mapping[str, Any] | None = None,
    key: str = "transcript",
    secrets: frozenset[str] = frozenset(),
) -> Transcript:
    """Raises `UnfitError` for what is no conversation of a user and an assistant in turns."""
    if value is None:
        value = []
    if not isinstance(value, list):
        raise UnfitError(key, f"expected a list of messages, found {kind_of(value)}")
    turns = _turns(ours)
    return Transcript(
        [_message(one, place, turns, key, secrets) for place, one in enumerate(value)]
    )


def _message(
    value: object,
    place: int,
    turns: Mapping[int, Mapping[str, Any]],
    key: str,
    secrets: frozenset[str],
) -> MessageRow:
    speaker, role = _SPEAKERS[place & 1]
    if not isinstance(value, dict) or value.get("role") != role:
        raise _unfit(value, role, f"{key}[{place}]")
    content = value.get("content")
    if not isinstance(content, str) and content is not None:
        what = f"expected a text or null, found {kind_of(content)}"
        raise UnfitError(f"{key}[{place}].content", what)
    turn = (place >> 1) + 1
    text, digest = storable_message(speaker, content or "")
    if secrets:
        text, digest = storable_message(speaker, cleaned(text, secrets))
    if not turns:
        finish = NO_CONTENT if content is None else UNKNOWN
        return MessageRow(
            take=GIVEN_LATER, turn=turn, speaker=speaker, text=text, finish=finish, digest=digest
        )
    said = turns.get(turn, _NOTHING)
    is_user = speaker is Speaker.USER
    return MessageRow(
        take=GIVEN_LATER,
        turn=turn,
        speaker=speaker,
        text=text,
        thought=_text(said.get("thought")) if is_user else None,
        landmark=_text(said.get("landmark")) if is_user else None,
        done=is_user and said.get("done") is True,
        finish=_finish(said, role, content),
        reasoning=None if is_user else _text(said.get("reasoning")),
        digest=digest,
        served_by=_of(said.get("served_by"), role),
    )


def _unfit(value: object, role: str, at: str) -> UnfitError:
    if not isinstance(value, dict):
        return UnfitError(at, f"expected {{role, content}}, found {kind_of(value)}")
    what = f"expected the role '{role}', found {kind_of(value.get('role'))}"
    hint = "a transcript begins with the user, and the two take turns"
    return UnfitError(f"{at}.role", what, hint)


def _finish(said: Mapping[str, Any], role: str, content: str | None) -> str:
    return _of(said.get("finish"), role) or (NO_CONTENT if content is None else UNKNOWN)


def _of(told: object, role: str) -> str | None:
    """What is told of each of the two, for one of them."""
    return _text(told.get(role)) if isinstance(told, dict) else None


def _turns(ours: Mapping[str, Any] | None) -> dict[int, Mapping[str, Any]]:
    """What our own files say of each turn."""
    turns = (ours or {}).get("turns")
    found: dict[int, Mapping[str, Any]] = {}
    for one in turns if isinstance(turns, list) else ():
        if isinstance(one, dict) and isinstance(one.get("turn"), int):
            found[one["turn"]] = one
    return found


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def stop_reason(value: object) -> StopReason | None:
    """None for none, and for a word that nobody knows."""
    return _STOP_REASONS.get(value) if isinstance(value, str) else None
