"""What a watcher and an engine say to each other: one JSON object a line, asked and answered.

A watcher asks `{"v": 1, "id": 7, "ask": "board"}` and hears `{"id": 7, "ok": …}`, or
`{"id": 7, "error": "…"}` where it asked for what cannot be. Answers may come in another order than
they were asked for. The engine speaks unasked only to take its leave: `{"id": 0, "goodbye": …}`
with its last board. Fields that are not known are ignored.

What goes over the link has the fields of its class, by their names; only a conversation's key and a
row of work are arrays, for there may be tens of thousands in one line. The standard library reads
and writes the text, because msgspec takes no half of a character, which a model may well send;
msgspec checks what was read against the classes.
"""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast

import msgspec

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, Identity, Request

VERSION: Final = 1
"""Rises when one side begins to say what the other must not ignore."""
LONGEST_LINE: Final = 4 * 1024 * 1024
"""In bytes. Whoever sends a longer one is not understood."""
LONGEST_TEXT: Final = 256 * 1024
"""In bytes as sent: what one answer holds of a message, at most; the rest is asked for next."""
LONGEST_FAULT: Final = 300
"""In characters: what is said of a value that is refused, which may hold the value."""

T = TypeVar("T")


class MessageError(ValueError):
    """A line is not what it should be. Says what was found, where, and what was expected."""


class HelloAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="hello"):
    """Asks which version of the link the engine speaks, and which engine it is."""


class BoardAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="board"):
    seen: int = 0
    """The `number` of the board that the watcher has; 0 where it has none."""


class TextAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="text"):
    benchmark: str
    key: ConversationKey
    cursor: Annotated[int, msgspec.Meta(ge=0)] = 0
    speech: Speech | None = None
    """The message that the cursor belongs to; None where it begins."""


class CommandAsked(msgspec.Struct, frozen=True, tag_field="ask", tag="command"):
    request: Request


WatcherMessage = HelloAsked | BoardAsked | TextAsked | CommandAsked


class Hello(msgspec.Struct, frozen=True):
    """Who the engine is."""

    version: int
    engine: Identity | None


class EngineLine(msgspec.Struct, frozen=True):
    """A line of the engine's."""

    id: int
    ok: Any = None
    """Of the kind that was asked for, still to be read."""
    error: str | None = None
    goodbye: Board | None = None


class NumberedBoard(msgspec.Struct, frozen=True):
    number: int
    board: Board | None
    """None where it is still the one that the watcher has."""


class SomeText(msgspec.Struct, frozen=True):
    """A piece of what is being said."""

    speech: Speech
    text: str
    cursor: int
    """The engine's, behind the piece."""
    more: bool
    """Whether more was said than fits into one answer."""
    start: int
    """The cursor at which it begins."""

    @classmethod
    def of(cls, heard: LiveText) -> SomeText:
        """As much of it as one answer holds."""
        text = heard.text[:LONGEST_TEXT]
        # as sent: a character beyond ASCII is six bytes of escapes, or twelve
        while len(encode_value(text)) > LONGEST_TEXT:
            text = text[: len(text) // 2]
        start = heard.cursor - len(heard.text)
        more = len(text) < len(heard.text)
        return cls(heard.speech, text, start + len(text), more, start)

    @property
    def heard(self) -> LiveText:
        return LiveText(self.speech, self.text, self.cursor)


class NumberedMessage(msgspec.Struct, frozen=True):
    """A line of a watcher's, of which only its `id` is known to be sound."""

    id: int
    fields: Mapping[str, object]

    def read(self) -> WatcherMessage:
        """Raises `MessageError`."""
        version = _checked(self.fields, _Versioned).v
        if version != VERSION:
            raise MessageError(
                f"this engine speaks version {VERSION} of the link and the watcher version "
                f"{version}: start both from one version of Crosswind"
            )
        asked: WatcherMessage = _checked(_changed(self.fields, _FROM_ARRAYS), WatcherMessage)
        return asked


# Writing


def encode_asked(number: int, asked: WatcherMessage) -> bytes:
    """A watcher's line, with its end."""
    return _dumped({"v": VERSION, "id": number, **_plain(asked)}) + b"\n"


def encode_ok(number: int, value: object) -> bytes:
    """The engine's line that answers line `number`, with its end."""
    return encode_ok_of(number, encode_value(value))


def encode_ok_of(number: int, value: bytes) -> bytes:
    """As `encode_ok`, for a value that was made into JSON before."""
    return b'{"id":%d,"ok":%s}\n' % (number, value)


def encode_error(number: int, error: str) -> bytes:
    """The line that refuses line `number`; 0 is the connection as a whole."""
    return _dumped({"id": number, "error": error}) + b"\n"


def encode_goodbye(board: Board) -> bytes:
    """The line that ends a connection, with the last board."""
    return b'{"id":0,"goodbye":%s}\n' % encode_value(board)


def encode_value(value: object) -> bytes:
    """JSON without an end of line."""
    return _dumped(_plain(value))


def _dumped(plain: object) -> bytes:
    """Escapes all but ASCII, so that halves of a character that a model sent survive."""
    return _ENCODER.encode(plain).encode("ascii")


# NaN would be a line that the other side refuses as a whole
_ENCODER: Final = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, default=datetime.isoformat
)


def _plain(value: object) -> Any:
    """What JSON has a form for, of what it has none for."""
    return _changed(
        msgspec.to_builtins(value, builtin_types=(datetime,), enc_hook=os.fspath), _TO_ARRAYS
    )


# Reading


def read_question(line: bytes) -> NumberedMessage:
    """A watcher's line, of which its number alone is read yet. Raises `MessageError`."""
    value = parsed(line)
    number = _checked(value, _Numbered).id
    return NumberedMessage(number, cast("Mapping[str, object]", value))


class _Numbered(msgspec.Struct):
    id: int


class _Versioned(msgspec.Struct):
    v: int


def read_said(line: bytes) -> EngineLine:
    """A line of the engine's. Raises `MessageError`."""
    return read(parsed(line), EngineLine)


def parsed(line: bytes | str) -> object:
    """Raises `MessageError`: what comes over a socket may be anything, also too deep to be read."""
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a line is not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")


def read(value: object, kind: type[T]) -> T:
    """What was parsed, as one of `kind`. Raises `MessageError`."""
    found: T = _checked(_changed(value, _FROM_ARRAYS), kind)
    return found


def _checked(value: object, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, dec_hook=_from_text)
    except (msgspec.ValidationError, RecursionError) as error:
        raise MessageError(_bounded(str(error))) from error


def _bounded(fault: str) -> str:
    """Its end says where it is."""
    half = LONGEST_FAULT // 2
    return fault if len(fault) <= LONGEST_FAULT else f"{fault[:half]} … {fault[-half:]}"


def _from_text(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError


# Keys and rows, as arrays and back. No deeper than messages go, whatever comes.

Change = Callable[[Any], object]


def _changed(value: Any, changes: Mapping[str, Change]) -> Any:
    """An object with some of its fields changed, where it has them."""
    if not isinstance(value, dict):
        return value
    there = [name for name in changes.keys() & value.keys() if value[name] is not None]
    return value | {name: changes[name](value[name]) for name in there}


def _each(value: Any, change: Change) -> Any:
    return [change(one) for one in value] if isinstance(value, list | tuple) else value


def _changes(key: Change, row: Change) -> Mapping[str, Change]:
    """By the name of the field, which means the same in whatever is said."""

    def keys_by_benchmark(value: Any) -> object:
        if not isinstance(value, dict):
            return value
        return {name: _each(keys, key) for name, keys in value.items()}

    def speech(value: Any) -> object:
        return _changed(value, {"key": key})

    of_board: dict[str, Change] = {"speaking": lambda value: _each(value, speech)}
    of_order: dict[str, Change] = {"again": keys_by_benchmark}
    of_request: dict[str, Change] = {
        "rows": lambda value: _each(value, row),
        "order": lambda value: _changed(value, of_order),
    }
    return {
        "key": key,
        "speech": speech,
        "request": lambda value: _changed(value, of_request),
        "board": lambda value: _changed(value, of_board),
        "goodbye": lambda value: _changed(value, of_board),
        **of_board,
        **of_request,
        **of_order,
    }


def _array(value: dict[str, object]) -> object:
    return list(value.values())


def _object(*names: str) -> Change:
    def change(value: object) -> object:
        if isinstance(value, list) and len(value) == len(names):
            return dict(zip(names, value, strict=True))
        raise MessageError(_bounded(f"expected [{', '.join(names)}], got {reprlib.repr(value)}"))

    return change


_TO_ARRAYS: Final = _changes(_array, _array)
_FROM_ARRAYS: Final = _changes(
    key=_object("scenario_id", "target_id", "sample"), row=_object("benchmark", "unit")
)
