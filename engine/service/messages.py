"""What a watcher and an engine say to each other: one JSON object a line, asked and answered.

A watcher asks `{"v": 1, "id": 7, "ask": "board"}` and hears `{"id": 7, "ok": …}`, or
`{"id": 7, "error": "…"}` where it asked for what cannot be. Answers may come in another order than
they were asked for. The engine speaks unasked only to take its leave: `{"id": 0, "goodbye": …}`
with its last board. Fields that are not known are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NoReturn, assert_never

from engine.benchmark import ConversationKey
from engine.facts import LiveText, Speech
from engine.link import Board, Identity, Request
from engine.service.codec import (
    Json,
    board_as_json,
    board_from_json,
    identity_as_json,
    identity_from_json,
    key_as_json,
    key_from_json,
    request_as_json,
    request_from_json,
    speech_as_json,
    speech_from_json,
)
from engine.service.fields import Fields, MessageError

VERSION: Final = 1
"""Rises when one side begins to say what the other must not ignore."""
LONGEST_LINE: Final = 4 * 1024 * 1024
"""In bytes. Whoever sends a longer one is not understood."""
LONGEST_TEXT: Final = 256 * 1024
"""In bytes as sent: what one answer holds of a message, at most; the rest is asked for next."""


@dataclass(frozen=True, slots=True)
class HelloAsked:
    """Who are you?"""


@dataclass(frozen=True, slots=True)
class BoardAsked:
    seen: int = 0
    """The `number` of the board that the watcher has; 0 where it has none."""


@dataclass(frozen=True, slots=True)
class TextAsked:
    benchmark: str
    key: ConversationKey
    cursor: int = 0
    speech: Speech | None = None
    """The message that the cursor belongs to; None where it begins."""


@dataclass(frozen=True, slots=True)
class CommandAsked:
    request: Request


Ask = HelloAsked | BoardAsked | TextAsked | CommandAsked


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the engine's."""

    id: int
    ok: object = None
    """Of the kind that was asked for, still to be read."""
    error: str | None = None
    goodbye: Board | None = None


@dataclass(frozen=True, slots=True)
class NumberedBoard:
    number: int
    board: Board | None
    """None where it is still the one that the watcher has."""


@dataclass(frozen=True, slots=True)
class SomeText:
    """A piece of what is being said."""

    heard: LiveText
    start: int
    """The cursor at which it begins."""
    more: bool
    """Whether more was said than fits into one answer."""


# What a watcher says


def encode_asked(number: int, asked: Ask) -> bytes:
    return _line({"v": VERSION, "id": number, **_asked_as_json(asked)})


def _asked_as_json(asked: Ask) -> Json:
    match asked:
        case HelloAsked():
            return {"ask": "hello"}
        case BoardAsked():
            return {"ask": "board", "seen": asked.seen}
        case TextAsked():
            return {
                "ask": "text",
                "benchmark": asked.benchmark,
                "key": key_as_json(asked.key),
                "cursor": asked.cursor,
                "speech": None if asked.speech is None else speech_as_json(asked.speech),
            }
        case CommandAsked():
            return {"ask": "command", "request": request_as_json(asked.request)}
        case _:
            assert_never(asked)


@dataclass(frozen=True, slots=True)
class Question:
    """A line of a watcher's, of which only its `id` is known to be sound."""

    id: int
    fields: Fields

    def read(self) -> Ask:
        """Raises `MessageError`."""
        version = self.fields.whole("v")
        if version != VERSION:
            raise MessageError(
                f"this engine speaks version {VERSION} of the link and the watcher version "
                f"{version}: start both from one version of Crosswind"
            )
        match asked := self.fields.text("ask"):
            case "hello":
                return HelloAsked()
            case "board":
                return BoardAsked(self.fields.whole_or_none("seen") or 0)
            case "text":
                return _text_asked(self.fields)
            case "command":
                return CommandAsked(request_from_json(self.fields.value("request")))
            case _:
                raise MessageError(
                    f"'ask' is {asked[:40]!r}: expected hello, board, text or command"
                )


def read_question(line: bytes) -> Question:
    """Raises `MessageError`."""
    fields = Fields(_parsed(line), "a question")
    return Question(fields.whole("id"), fields)


def _text_asked(fields: Fields) -> TextAsked:
    cursor = fields.whole_or_none("cursor") or 0
    if cursor < 0:
        raise MessageError(f"'cursor' is {cursor}: expected 0 or more")
    speech = fields.value("speech")
    return TextAsked(
        fields.text("benchmark"),
        key_from_json(fields.value("key")),
        cursor,
        None if speech is None else speech_from_json(speech),
    )


# What an engine says


def encode_ok(number: int, value: Json | None) -> bytes:
    return _line({"id": number, "ok": value})


def encode_ok_of(number: int, value: bytes) -> bytes:
    """The same for a value that was made into JSON before."""
    return b'{"id":%d,"ok":%s}\n' % (number, value)


def encode_error(number: int, error: str) -> bytes:
    return _line({"id": number, "error": error})


def encode_goodbye(board: Board) -> bytes:
    return _line({"id": 0, "goodbye": board_as_json(board)})


def encode_value(value: Json) -> bytes:
    return _dumped(value)


def read_said(line: bytes) -> Said:
    """Raises `MessageError`."""
    fields = Fields(_parsed(line), "an answer")
    goodbye = fields.value("goodbye")
    return Said(
        fields.whole("id"),
        fields.value("ok"),
        fields.text_or_none("error"),
        None if goodbye is None else board_from_json(goodbye),
    )


def hello_as_json(engine: Identity | None) -> Json:
    return {"version": VERSION, "engine": None if engine is None else identity_as_json(engine)}


def hello_from_json(value: object) -> Identity | None:
    engine = Fields(value, "a hello").value("engine")
    return None if engine is None else identity_from_json(engine)


def numbered_board_from_json(value: object) -> NumberedBoard:
    fields = Fields(value, "a board")
    board = fields.value("board")
    return NumberedBoard(fields.whole("number"), None if board is None else board_from_json(board))


def some_text_as_json(heard: LiveText) -> Json:
    """As much of it as one answer holds."""
    text = heard.text[:LONGEST_TEXT]
    while len(_dumped(text)) > LONGEST_TEXT:
        text = text[: len(text) // 2]
    return {
        "speech": speech_as_json(heard.speech),
        "text": text,
        "cursor": heard.cursor - len(heard.text) + len(text),
        "more": len(text) < len(heard.text),
        "start": heard.cursor - len(heard.text),
    }


def some_text_from_json(value: object) -> SomeText | None:
    """None where nothing is being said."""
    if value is None:
        return None
    fields = Fields(value, "a text")
    heard = LiveText(
        speech_from_json(fields.value("speech")), fields.text("text"), fields.whole("cursor")
    )
    return SomeText(heard, fields.whole("start"), more=fields.flag("more"))


def _line(value: Mapping[str, object]) -> bytes:
    return _dumped(value) + b"\n"


def _dumped(value: object) -> bytes:
    """Escapes all but ASCII, so that halves of a character that a model sent survive."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _parsed(line: bytes) -> object:
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a line is not JSON: {error}") from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number of JSON")
