"""The messages between a watcher and an engine: one JSON object a line, requests and answers.

A watcher sends `{"v": 2, "id": 7, "ask": "board"}` and receives `{"id": 7, "ok": …}`, or `{"id": 7,
"error": "…"}` for an invalid request. Answers may arrive in another order than the requests. The
engine sends one message unasked, before it closes: `{"id": 0, "goodbye": …}` with its last board.
Unknown fields are ignored.

Objects have the fields of their class. The standard library reads and writes the JSON, because
msgspec rejects lone surrogates, which a model may well send; msgspec then checks the values against
the classes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast

import msgspec

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, Request

VERSION: Final = 2
"""Incremented when one side begins to send what the other must not ignore."""
LONGEST_LINE: Final = 16 * 1024 * 1024
"""In bytes: one line may name tens of thousands of conversations. Longer lines are refused."""
LONGEST_TEXT: Final = 256 * 1024
"""In bytes as sent: the most of a message that one answer contains; the rest is asked for next."""
LONGEST_FAULT: Final = 300
"""In characters: the most that an error says about a refused value, which may contain it."""

T = TypeVar("T")


class MessageError(ValueError):
    """A line is invalid. Says what was found, where, and what was expected."""


class BoardAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="board"):
    seen: int = 0
    """The `number` of the board that the watcher has; 0 without one."""


class TextAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="text"):
    benchmark: str
    key: ConversationKey
    cursor: Annotated[int, msgspec.Meta(ge=0)] = 0
    speech: Speech | None = None
    """The message that the cursor belongs to; None at the beginning."""


class CommandAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="command"):
    request: Request


WatcherMessage = BoardAsked | TextAsked | CommandAsked


class EngineLine(msgspec.Struct, frozen=True):
    """A line from the engine."""

    id: int
    ok: Any = None
    """The answer, not validated yet; its type depends on the request."""
    error: str | None = None
    goodbye: Board | None = None


class NumberedBoard(msgspec.Struct, frozen=True):
    number: int
    board: Board | None
    """None where the watcher has the current one."""


class SomeText(msgspec.Struct, frozen=True):
    """A piece of a message being spoken."""

    speech: Speech
    text: str
    cursor: int
    """The engine's cursor after the piece."""
    more: bool
    """Whether there is more than fits into one answer."""
    start: int
    """The cursor at which the piece begins."""

    @classmethod
    def of(cls, live_text: LiveText) -> SomeText:
        """As much of the text as one answer may contain."""
        text = live_text.text[:LONGEST_TEXT]
        # as sent: a character beyond ASCII takes six bytes of escapes, or twelve
        while len(encode_value(text)) > LONGEST_TEXT:
            text = text[: len(text) // 2]
        start = live_text.cursor - len(live_text.text)
        more = len(text) < len(live_text.text)
        return cls(live_text.speech, text, start + len(text), more, start)

    @property
    def heard(self) -> LiveText:
        return LiveText(self.speech, self.text, self.cursor)


class NumberedMessage(msgspec.Struct, frozen=True):
    """A line from a watcher, of which only the `id` has been validated."""

    id: int
    fields: Mapping[str, object]

    def read(self) -> WatcherMessage:
        """Validate the request. Raises `MessageError`."""
        version = _convert(self.fields, _WithVersion).v
        if version != VERSION:
            raise MessageError(
                f"this engine speaks version {VERSION} of the link and the watcher version "
                f"{version}: start both from one version of Crosswind"
            )
        asked: WatcherMessage = _convert(self.fields, WatcherMessage)
        return asked


# Writing


def encode_asked(number: int, asked: WatcherMessage) -> bytes:
    """A watcher's request line, with its newline."""
    return _as_json({"v": VERSION, "id": number, **_json_value(asked)}) + b"\n"


def encode_ok(number: int, value: object) -> bytes:
    """The line that answers request `number`, with its newline."""
    return encode_ok_of(number, encode_value(value))


def encode_ok_of(number: int, value: bytes) -> bytes:
    """As `encode_ok`, for a value that is JSON already."""
    return b'{"id":%d,"ok":%s}\n' % (number, value)


def encode_error(number: int, error: str) -> bytes:
    """The line that refuses request `number`; 0 stands for the connection as a whole."""
    return _as_json({"id": number, "error": error}) + b"\n"


def encode_goodbye(board: Board) -> bytes:
    """The line that ends a connection, with the last board."""
    return b'{"id":0,"goodbye":%s}\n' % encode_value(board)


def encode_value(value: object) -> bytes:
    """JSON without a newline."""
    return _as_json(_json_value(value))


def _as_json(plain: object) -> bytes:
    """ASCII with escapes, so that lone surrogates from a model survive."""
    return _ENCODER.encode(plain).encode("ascii")


# the other side would refuse a whole line that contains NaN
_ENCODER: Final = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, default=datetime.isoformat
)


def _json_value(value: object) -> Any:
    """The value in types that JSON has."""
    return msgspec.to_builtins(value, builtin_types=(datetime,), enc_hook=os.fspath)


# Reading


def read_question(line: bytes) -> NumberedMessage:
    """Parse a watcher's line and validate its number only. Raises `MessageError`."""
    value = parsed(line)
    number = _convert(value, _WithId).id
    return NumberedMessage(number, cast("Mapping[str, object]", value))


class _WithId(msgspec.Struct):
    id: int


class _WithVersion(msgspec.Struct):
    v: int


def read_said(line: bytes) -> EngineLine:
    """Parse an engine's line. Raises `MessageError`."""
    return read(parsed(line), EngineLine)


def parsed(line: bytes | str) -> object:
    """Parse JSON that may be anything, even nested too deeply. Raises `MessageError`."""
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a line is not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def read(value: object, kind: type[T]) -> T:
    """Validate a parsed value as `kind`. Raises `MessageError`."""
    converted: T = _convert(value, kind)
    return converted


def _convert(value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=_from_text)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessageError(_shortened(str(error))) from error


def _shortened(fault: str) -> str:
    """Cut in the middle, because the end says where the fault is."""
    half = LONGEST_FAULT // 2
    return fault if len(fault) <= LONGEST_FAULT else f"{fault[:half]} … {fault[-half:]}"


def _from_text(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError
