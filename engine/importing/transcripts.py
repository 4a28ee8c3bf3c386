"""From a row's transcript to messages, with what our own files say of them beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from engine.benchmark import Speaker, StopReason
from engine.importing.fields import UNKNOWN, UnfitError, kind_of
from engine.importing.secrets import cleaned
from engine.store.bulk import GIVEN_LATER
from engine.store.inserts import message_digest, storable
from engine.store.rows import MessageRow

NO_CONTENT: Final = "no content"
"""How a message ended whose content is null in the file."""

_SPEAKERS: Final = (Speaker.USER, Speaker.TARGET)


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
    def digest(self) -> bytes:
        return digest_of(message_digest(one.speaker.value, one.text) for one in self.messages)


def digest_of(digests: Iterator[bytes]) -> bytes:
    """Of a whole transcript, from those of its messages in their order."""
    whole = blake2b(digest_size=16)
    for digest in digests:
        whole.update(digest)
    return whole.digest()


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
    at = f"{key}[{place}]"
    if not isinstance(value, dict):
        raise UnfitError(at, f"expected {{role, content}}, found {kind_of(value)}")
    speaker = _SPEAKERS[place % 2]
    if value.get("role") != speaker.value:
        what = f"expected the role '{speaker}', found {kind_of(value.get('role'))}"
        hint = "a transcript begins with the user, and the two take turns"
        raise UnfitError(f"{at}.role", what, hint)
    content = value.get("content")
    if content is not None and not isinstance(content, str):
        raise UnfitError(f"{at}.content", f"expected a text or null, found {kind_of(content)}")
    text = storable(content or "")
    said = turns.get(place // 2 + 1, {})
    is_user = speaker is Speaker.USER
    return MessageRow(
        take=GIVEN_LATER,
        turn=place // 2 + 1,
        speaker=speaker,
        text=cleaned(text, secrets) if secrets else text,
        thought=_text(said.get("thought")) if is_user else None,
        landmark=_text(said.get("landmark")) if is_user else None,
        done=is_user and said.get("done") is True,
        finish=_finish(said, speaker, content),
        reasoning=None if is_user else _text(said.get("reasoning")),
    )


def _finish(said: Mapping[str, Any], speaker: Speaker, content: str | None) -> str:
    finish = said.get("finish")
    told = finish.get(speaker.value) if isinstance(finish, dict) else None
    return _text(told) or (NO_CONTENT if content is None else UNKNOWN)


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
    return StopReason(value) if value in {one.value for one in StopReason} else None
