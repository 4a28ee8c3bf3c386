"""Extracts what user and target said from a sample of Inspect, and counts what else is in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from engine.benchmark import Speaker
from engine.importing.inspect_shapes import (
    InspectSample,
    LoggedMessage,
    MessagePart,
    last_target_call,
)

AUDITOR: Final = "auditor"
TARGET: Final = "target"
"""Roles of models as Petri and Bloom name them."""

_SYSTEM: Final = frozenset({"system", "developer"})
_USER, _TARGET = Speaker.USER.value, Speaker.TARGET.value
_SHOWN: Final = 2_000
"""Characters of a system message that a note shows."""


@dataclass(slots=True)
class AlternatingTurns:
    """A transcript in which user and target alternate, beginning with the user."""

    transcript: list[dict[str, str]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    """What the transcript has no field for, in the format of our own files."""
    system: str | None = None
    """The target's system message."""
    asides: Counter[str] = field(default_factory=Counter)
    """Counts of what is not speech of either side, by kind."""
    tools: set[str] = field(default_factory=set)
    """Names of the tools that were called."""

    def note(self, *, with_system: bool) -> str | None:
        """Describe what of the sample is not in the transcript; None if all of it is."""
        parts = [f"{kind}: {times}" for kind, times in sorted(self.asides.items())]
        if self.tools:
            parts.append(f"names of tools: {', '.join(sorted(self.tools)[:20])}")
        sentences = [f"In the log, and not shown here: {'; '.join(parts)}."] if parts else []
        if with_system and self.system:
            cut = " …" if len(self.system) > _SHOWN else ""
            sentences.append(f"The target's system message was: {self.system[:_SHOWN]}{cut}")
        return " ".join(sentences) or None


def alternating_turns(sample: InspectSample, roles: Iterable[str]) -> AlternatingTurns:
    """Return the conversation of user and target, even if the log is mainly about an auditor."""
    messages, result = sample.messages, AlternatingTurns()
    if TARGET in roles:
        last = last_target_call(sample)
        if last and not _contains(messages, last[-1]):
            messages = last  # the sample's messages are the auditor's own
    for message in messages:
        _add(result, message)
    result.asides = +result.asides
    return result


def _contains(messages: list[LoggedMessage], reply: LoggedMessage) -> bool:
    """Whether a reply is among these messages."""
    text = _text(reply)
    return any(
        message.role == _TARGET
        and (message.id == reply.id if message.id and reply.id else _text(message) == text)
        for message in messages
    )


def _add(result: AlternatingTurns, message: LoggedMessage) -> None:
    asides = result.asides
    if isinstance(message.content, list):
        others = sum(part.type not in {"text", "reasoning"} for part in message.content)
        asides["pictures, files and other contents that are no text"] += others
    match message.role:
        case role if role in _SYSTEM:
            if result.system is None and not result.transcript:
                result.system = _text(message)
            else:
                asides["later system messages"] += 1
        case "tool":
            asides["tool results"] += 1
        case "user":
            _add_speech(result, _USER, message)
        case "assistant" if (message.metadata or {}).get("prefill") is True:
            # written by the auditor in the target's name
            asides["beginnings of replies that were written for the target"] += 1
        case "assistant":
            calls = message.tool_calls or []
            asides["tool calls"] += len(calls)
            result.tools.update(call.function[:80] for call in calls)
            if not calls or _text(message).strip():
                _add_speech(result, _TARGET, message)
        case _:
            asides["messages of other roles"] += 1


def _add_speech(result: AlternatingTurns, role: str, message: LoggedMessage) -> None:
    text = _text(message)
    if not result.transcript and role == _TARGET:
        result.asides["replies before the user's first message"] += 1
        return
    if result.transcript and result.transcript[-1]["role"] == role:
        last = result.transcript[-1]
        last["content"] = "\n\n".join(part for part in (last["content"], text) if part)
        result.asides["messages that follow one of the same side, joined with it"] += 1
    else:
        result.transcript.append({"role": role, "content": text})
    _add_metadata(result, role, message)


def _add_metadata(result: AlternatingTurns, role: str, message: LoggedMessage) -> None:
    """Add what our own export keeps in metadata, and a model's reasoning."""
    number = (len(result.transcript) + 1) // 2
    there = bool(result.turns) and result.turns[-1]["turn"] == number
    turn = result.turns[-1] if there else {"turn": number}
    _add_to(turn, role, message)
    # most turns have nothing beside their text
    if not there and len(turn) > 1:
        result.turns.append(turn)


def _add_to(turn: dict[str, Any], role: str, message: LoggedMessage) -> None:
    metadata = message.metadata or {}
    if role == _USER:
        turn |= {
            key: metadata[key] for key in ("landmark", "thought") if metadata.get(key) is not None
        }
        return
    thought = [part.reasoning for part in _message_parts(message) if part.type == "reasoning"]
    if thought:
        turn["reasoning"] = "\n\n".join(filter(None, [turn.get("reasoning"), *thought]))
    if isinstance(metadata.get("served_by"), str):
        turn["served_by"] = {_TARGET: metadata["served_by"]}


def _message_parts(message: LoggedMessage) -> list[MessagePart]:
    return message.content if isinstance(message.content, list) else []


def _text(message: LoggedMessage) -> str:
    if isinstance(message.content, list):
        return "\n".join(part.text for part in message.content if part.type == "text")
    return message.content or ""


def subject_of_sample(sample: InspectSample) -> str:
    """Return what the sample is about: its input, or the last message of the user in that."""
    if isinstance(sample.input, str):
        return sample.input
    texts = [_text(message) for message in sample.input if message.role == "user"]
    return texts[-1] if texts else ""
