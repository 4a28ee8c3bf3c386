"""What both protocols share: a request in our words, what is heard of its reply, and thoughts that
a model writes into it between `<think>` marks, told from the reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any, Final, Protocol, runtime_checkable

from engine.providers.attempts import Failure
from engine.providers.capabilities import (
    FOLDED_SYSTEM,
    ModelCapabilities,
    Step,
    form_in_words,
    in_words,
)
from engine.providers.endpoint import RequestParams
from engine.providers.model import Finish, JsonSchema, Message, MessageRole
from engine.providers.protocols.sse import BrokenStreamError
from engine.providers.served import ExpectedModel, ServedNames


class PromptCache(StrEnum):
    """Which part of a request will come again, and so pays to be kept by the provider."""

    LAST = "last"
    """All of it: the next request begins with this one, as a target's does."""
    HISTORY = "history"
    """All but the last message, which is for this turn only, as with a user model."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request."""

    model: str
    messages: tuple[Message, ...]
    params: RequestParams = field(default_factory=RequestParams)
    schema: JsonSchema | None = None
    seed: int = 0
    """Already mixed from the model's and the call's."""
    cache: PromptCache | None = None
    learned: ModelCapabilities = field(default_factory=ModelCapabilities)
    first_party: bool = False
    """Whether it goes to those who made the protocol, and not to a server compatible with it."""
    meant: ExpectedModel | None = None
    """Whose replies are taken for the model's; None where only its name on the wire is known."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """What a person wants in the body beside what is said here."""
    session: str = ""
    """What the conversation is called, where the other side has to know."""

    @property
    def means(self) -> ExpectedModel:
        return self.meant or ExpectedModel(self.model)

    def takes(self, name: str) -> bool:
        """Whether the model takes a parameter of this name, as far as it is known."""
        return name not in self.learned.dropped


@dataclass(slots=True)
class Tokens:
    """What the provider reports. None is not reported."""

    input: int | None = None
    """All of it, whether cached or not."""
    cached: int | None = None
    cache_written: int | None = None
    output: int | None = None
    """Thoughts included."""
    cost_usd: float | None = None
    """What it says that this request costs."""


class InStreamError(Exception):
    """The server reported an error after it had begun to answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.cause)
        self.failure = failure


def schema_without(
    schema: JsonSchema,
    taken: Callable[[str, object], bool],
    inner: Callable[[JsonSchema], dict[str, Any]],
) -> dict[str, Any]:
    """The schema with the words that are `taken`, its parts as `inner` has them; an object with no
    key but its own."""
    plain: dict[str, Any] = {}
    for name, value in schema.items():
        if name in {"properties", "$defs"} and isinstance(value, Mapping):
            plain[name] = {key: inner(part) for key, part in value.items()}
        elif isinstance(value, Mapping):
            plain[name] = inner(value)
        elif isinstance(value, list):
            plain[name] = [inner(part) if isinstance(part, Mapping) else part for part in value]
        elif taken(name, value):
            plain[name] = value
    if isinstance(plain.get("properties"), dict):
        plain["additionalProperties"] = False
    return plain


class ReplyParser(Protocol):
    """Takes the events of one stream in, and holds what they said."""

    tokens: Tokens
    finish: Finish | None
    """How the reply ended; None before it said so."""
    ended: bool
    """Whether nothing more will come."""
    thoughts: list[str]
    named: ServedNames
    """The models that it names as whose reply this is."""
    provider: str | None
    """Who serves the model, where a gateway says it."""

    @property
    def whole(self) -> bool:
        """Whether all that says that a reply is whole has come."""
        ...

    def feed(self, data: str) -> str | None:
        """The words in it, which are empty where it moved the reply without a word (a thought, a
        beginning), and None where it did not move it (a ping).

        Raises `BrokenStreamError` and `InStreamError`.
        """
        ...


@runtime_checkable
class AnyAnswerParser(ReplyParser, Protocol):
    """One that takes what the chat protocols do not have: a reply in one document, and a stream
    whose end is the end of the answer."""

    @property
    def takes_document(self) -> bool: ...

    @property
    def streams(self) -> bool: ...

    session: str | None
    """What the other side calls the conversation, where it has said so."""

    def hear_headers(self, headers: Mapping[str, str]) -> None:
        """Of a whole answer. By names in lower case."""
        ...

    def feed_document(self, data: str) -> str:
        """The words of a reply that came whole. Raises `InStreamError`."""
        ...

    def close(self) -> None:
        """The answer came to its end, and nothing is missing of what was announced."""
        ...


class Dialect(Protocol):
    """One protocol: how a request is written in it, and how a reply is heard."""

    @property
    def fills_template(self) -> bool:
        """Whether `body` is made of what a person wrote, and is all that is sent."""
        ...

    @property
    def steps(self) -> tuple[Step, ...]: ...

    def headers(self, ask: ChatRequest) -> Mapping[str, str]:
        """Beside those of the address and those that a person wrote."""
        ...

    def body(self, ask: ChatRequest) -> dict[str, Any]: ...

    def sent(self, body: Mapping[str, Any]) -> frozenset[str]:
        """The parameters in the body, by the names under which they are configured."""
        ...

    def parser(self) -> ReplyParser:
        """A new one for each reply."""
        ...


def written_body(dialect: Dialect, ask: ChatRequest) -> bytes:
    """The body as it is sent."""
    # what is said here comes last: nothing that is written beside it takes its place
    beside = {} if dialect.fills_template else ask.extra_body
    whole = {**beside, **dialect.body(ask)}
    # half a character that a model left behind would not encode
    # as UTF-8 and not escaped: two or three bytes in place of six for most scripts
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Messages of one speaker in a row."""

    role: MessageRole
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        return BREAK.join(self.texts)


_DECODER: Final = json.JSONDecoder()
BREAK: Final = "\n\n"
"""Stands between messages that become one."""


def turns(ask: ChatRequest) -> list[MessageGroup]:
    """The messages with the same role in a row put together, as many templates insist on it, and
    with the shape in words: all of it where the model cannot be held to it otherwise."""
    found: list[MessageGroup] = []
    for message in _messages(ask):
        if found and found[-1].role is message.role:
            found[-1] = MessageGroup(message.role, (*found[-1].texts, message.text))
        else:
            found.append(MessageGroup(message.role, (message.text,)))
    return found


def _messages(ask: ChatRequest) -> Sequence[Message]:
    messages = list(ask.messages)
    if ask.schema is not None:
        place = next(
            (n for n, said in enumerate(messages) if said.role is MessageRole.SYSTEM), None
        )
        # with a schema the server holds the model to it, and words name the fields alone; else the
        # whole shape is said
        held = ask.learned.step is Step.JSON_SCHEMA
        words = form_in_words(ask.schema) if held else in_words(ask.schema)
        if place is None:
            messages.insert(0, Message(MessageRole.SYSTEM, words))
        else:
            system = f"{messages[place].text}{BREAK}{words}"
            messages[place] = Message(MessageRole.SYSTEM, system)
    if not ask.takes(FOLDED_SYSTEM):
        messages = [
            Message(MessageRole.USER, said.text) if said.role is MessageRole.SYSTEM else said
            for said in messages
        ]
    return messages


def parsed(data: str) -> dict[str, Any]:
    """The JSON object of one event. Raises `BrokenStreamError` for anything else."""
    try:
        event = _value(data)
    except (ValueError, RecursionError):
        raise BrokenStreamError("an event of the stream is not JSON") from None
    if not isinstance(event, dict):
        raise BrokenStreamError("an event of the stream is not an object")
    return event


def _value(data: str) -> object:
    """What `json.loads` gives, for half of its price where nothing stands around an object, as in
    the event of each word."""
    if data.startswith("{"):
        value, end = _DECODER.raw_decode(data)
        if end == len(data):
            return value
    return json.loads(data)


MOST_COUNTED: Final = 10**9
"""Tokens of one call, a thousand times what the longest context holds."""


def count(value: object) -> int | None:
    """A number of tokens, which some write with a point; None for anything that is none, and for
    more than a call can use."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and 0 <= value <= MOST_COUNTED else None


_OPEN: Final = "<think>"
_CLOSE: Final = "</think>"


class _Place(Enum):
    BEFORE = auto()
    """Nothing but white space, or a part of the opening mark, has come."""
    INSIDE = auto()
    BETWEEN = auto()
    """Behind the closing mark, where the reply has not begun."""
    REPLY = auto()


class ThoughtSplitter:
    """Fed with pieces of a reply. Only marks at its very beginning count: later ones are quoted."""

    __slots__ = ("_held", "_place", "thoughts")

    def __init__(self) -> None:
        self._place = _Place.BEFORE
        self._held = ""
        self.thoughts: list[str] = []

    def feed(self, piece: str) -> str:
        """The part of it that is the reply."""
        match self._place:
            case _Place.REPLY:
                return piece
            case _Place.BEFORE:
                return self._before(self._held + piece)
            case _Place.INSIDE:
                return self._inside(self._held + piece)
            case _Place.BETWEEN:
                return self._between(piece)

    def close(self) -> str:
        """What was held back and turned out to be the reply."""
        held, self._held = self._held, ""
        if self._place is _Place.INSIDE:
            self.thoughts.append(held)
            return ""
        return held

    def _before(self, text: str) -> str:
        begun = text.lstrip()
        if begun.startswith(_OPEN):
            self._place, self._held = _Place.INSIDE, ""
            return self._inside(begun.removeprefix(_OPEN))
        # it may still become a mark: shown now, it could not be taken back
        if _OPEN.startswith(begun):
            self._held = text
            return ""
        self._place, self._held = _Place.REPLY, ""
        return text

    def _inside(self, text: str) -> str:
        thought, mark, rest = text.partition(_CLOSE)
        if mark:
            self.thoughts.append(thought)
            self._place, self._held = _Place.BETWEEN, ""
            return self._between(rest)
        # the longest end of it that the closing mark could begin with
        # a mark may come in pieces, as tokens have their own borders
        keep = next((n for n in range(len(_CLOSE) - 1, 0, -1) if text.endswith(_CLOSE[:n])), 0)
        self.thoughts.append(text[: len(text) - keep])
        self._held = text[len(text) - keep :]
        return ""

    def _between(self, text: str) -> str:
        begun = text.lstrip()
        if begun:
            self._place = _Place.REPLY
        return begun


def unopened(text: str) -> tuple[str, str] | None:
    """Thoughts and reply, where a server's template wrote the opening mark itself so that only the
    closing one is in the text; None where that is not so."""
    thought, mark, rest = text.partition(_CLOSE)
    return (thought, rest.lstrip()) if mark and _OPEN not in thought else None
