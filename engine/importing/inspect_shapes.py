"""The shapes of Inspect's logs, with only the fields that are used here.

Events, which are most of a sample, stay undecoded until they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from engine.errors import Problem

CUT_OFF: Final = "was the file cut off?"
LARGEST_VALUES: Final = 32 << 20
"""Bytes of JSON that are decoded at once."""
_NO_NUMBER: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|\bNaN\b|-?\bInfinity\b')
"""What Python writes although JSON has no word for it; strings are matched so that they are
skipped."""


class MessagePart(Struct):
    """A part of a message's content."""

    type: str = "text"
    text: str = ""
    reasoning: str = ""


class ToolCall(Struct):
    function: str = ""


class LoggedMessage(Struct):
    role: str
    content: str | list[MessagePart] | None = None
    id: str | None = None
    tool_calls: list[ToolCall] | None = None
    metadata: dict[str, Any] | None = None


class InspectScore(Struct):
    value: Any = None
    answer: Any = None
    explanation: str | None = None
    metadata: dict[str, Any] | None = None


class TokensUsed(Struct):
    input_tokens: int = 0
    output_tokens: int = 0


class InspectLimit(Struct):
    type: str = ""


class InspectFailure(Struct):
    message: str = ""


class InspectSample(Struct):
    id: int | str
    epoch: int
    input: str | list[LoggedMessage]
    messages: list[LoggedMessage]
    uuid: str | None = None
    scores: dict[str, InspectScore] | None = None
    metadata: dict[str, Any] = {}
    model_usage: dict[str, TokensUsed] = {}
    role_usage: dict[str, TokensUsed] = {}
    error: InspectFailure | None = None
    limit: InspectLimit | None = None
    events: Raw = Raw(b"[]")
    events_data: Raw = Raw(b"null")
    message_pool: Raw = Raw(b"[]")
    attachments: Raw = Raw(b"{}")


_EVENTS: Final = ("events", "events_data", "message_pool", "attachments")


class InspectResults(Struct):
    """What a log says of all its samples."""

    task: str
    model: str = ""
    eval_id: str = ""
    task_display_name: str | None = None
    task_description: str | None = None
    model_roles: dict[str, Any] | None = None
    task_args: Any = None
    model_args: Any = None
    model_generate_config: Any = None
    solver: Any = None
    solver_args: Any = None
    packages: dict[str, str] = {}
    metadata: dict[str, Any] | None = None
    shards: dict[str, Any] | None = None


class InspectVersion(Struct):
    """Decoded first, as a newer version may have another shape."""

    version: int | UnsetType = UNSET


class InspectHeader(Struct):
    eval: Raw


class WholeLog(Struct):
    """A log that is a single JSON document."""

    eval: Raw
    samples: list[Raw] | None = None


# JSON

T = TypeVar("T")


def decoded(raw: bytes, shape: type[T], path: Path, key: str | None) -> T | Problem:
    """Decode; return the value, or the problem with it at this key of the log."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        return Problem(f"is not as Inspect writes it: {error}", path, key=key)
    except RecursionError:
        return Problem("values are nested deeper than can be read", path, key=key)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if b"NaN" not in raw and b"Infinity" not in raw:
            hint = CUT_OFF if "truncated" in str(error) else None
            return Problem(f"this is not JSON: {error}", path, key=key, hint=hint)
    try:
        return msgspec.json.decode(_NO_NUMBER.sub(_null, raw), type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Problem(f"this is not JSON: {error}", path, key=key)


def _null(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b"null"


def evaluated(raw: Raw, path: Path, key: str | None) -> InspectResults | Problem:
    """Decode a log's header; return it, or the problem with it."""
    if _size([raw]) > LARGEST_VALUES:
        return Problem(f"`eval` has more than {LARGEST_VALUES >> 20} MB", path, key=key)
    return decoded(bytes(raw), InspectResults, path, key)


def sample_of(raw: bytes | Raw, path: Path, key: str) -> InspectSample | Problem:
    """Decode a sample, without its events if they are too large; return it, or its problem.

    Its members stay undecoded until their sizes are known: values may need fifty times the bytes.
    """
    members = decoded(bytes(raw), dict[str, Raw], path, key)
    if isinstance(members, Problem):
        return members
    events: dict[str, Raw] = {name: members.pop(name) for name in _EVENTS if name in members}
    values = {
        name: value
        for name in InspectSample.__struct_fields__
        if (value := members.get(name)) is not None and bytes(value) != b"null"
    }
    if _size(values.values()) > LARGEST_VALUES:
        what = f"what was said and found in it has more than {LARGEST_VALUES >> 20} MB"
        return Problem(what, path, key=key)
    if _size(events.values()) <= LARGEST_VALUES:
        values |= events
    return decoded(msgspec.json.encode(values), InspectSample, path, key)


def _size(parts: Iterable[Raw]) -> int:
    return sum(memoryview(part).nbytes for part in parts)


# Events, which are needed if a sample's messages are not the target's own


class _Choice(Struct):
    message: LoggedMessage | None = None


class _Output(Struct):
    choices: list[_Choice] = []


class _Event(Struct):
    event: str = ""
    role: str | None = None
    input: list[LoggedMessage] = []
    input_refs: list[tuple[int, int]] | None = None
    output: _Output | None = None


class _Pool(Struct):
    messages: list[LoggedMessage] = []


def last_target_call(sample: InspectSample) -> list[LoggedMessage]:
    """Return the messages of the target's last call, and its answer; empty if they cannot be
    decoded, or if no model had the role `target`."""
    try:
        events = msgspec.json.decode(sample.events, type=list[_Event])
        pool = msgspec.json.decode(sample.events_data, type=_Pool | None)
        older = msgspec.json.decode(sample.message_pool, type=list[LoggedMessage])
        texts = msgspec.json.decode(sample.attachments, type=dict[str, str])
    except (msgspec.DecodeError, RecursionError):
        return []
    calls = (
        event for event in reversed(events) if event.event == "model" and event.role == "target"
    )
    last = next((call for call in calls if call.output and call.output.choices), None)
    if last is None or last.output is None:
        return []
    pooled = older if pool is None else pool.messages
    referred = [message for start, end in last.input_refs or () for message in pooled[start:end]]
    answer = last.output.choices[0].message
    messages = [*last.input, *referred, *([] if answer is None else [answer])]
    return [_with_attachments(message, texts) for message in messages]


def _with_attachments(message: LoggedMessage, texts: dict[str, str]) -> LoggedMessage:
    """Insert long texts, which the log stores separately."""

    def whole(text: str) -> str:
        return (
            texts.get(text.removeprefix("attachment://"), text)
            if text[:13] == "attachment://"
            else text
        )

    if isinstance(message.content, str):
        message.content = whole(message.content)
    for part in message.content if isinstance(message.content, list) else ():
        part.text, part.reasoning = whole(part.text), whole(part.reasoning)
    return message
