"""What all protocols share: a request, the parser of a reply, and separating the reasoning that
some models put between `<think>` tags."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from typing import Any, ClassVar, Final

from engine.display import one_line
from engine.providers.attempts import Meaning, failure_in, is_error
from engine.providers.capabilities import (
    BOUNDS,
    FOLDED_SYSTEM,
    ModelCapabilities,
    Step,
    form_in_words,
    in_words,
)
from engine.providers.endpoint import RequestParams
from engine.providers.failures import Cause, Failure
from engine.providers.model import Finish, JsonSchema, Message, MessageRole
from engine.providers.served_model import LONGEST_NAME, ExpectedModel, ServedNames

LARGEST_EVENT: Final = 1024 * 1024
LARGEST_STREAM: Final = 64 * 1024 * 1024
"""Bytes after decompression. A token takes about 300; the text has a limit of its own."""
MOST_LINES: Final = 1_500_000
"""Two or three for each event, most of which are one token: enough for half a million tokens."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class BrokenStreamError(Exception):
    """The data violates the protocol."""


class OversizedError(Exception):
    """There is more data than any model sends."""


class EventDecoder:
    """Returns the data of each complete event. Names, ids and comments are ignored, as the data
    says what it is."""

    __slots__ = ("_data", "_event_size", "_held", "_largest_event", "_lines", "_room", "_tail")

    def __init__(
        self, *, largest_event: int = LARGEST_EVENT, largest_stream: int = LARGEST_STREAM
    ) -> None:
        self._largest_event = largest_event
        self._room = largest_stream
        self._lines = MOST_LINES
        self._tail: list[bytes] = []
        self._held = False
        """Whether the last byte was a carriage return that a line feed may follow."""
        self._data: list[bytes] = []
        self._event_size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that a chunk completes. Raises `BrokenStreamError` for data that is not
        UTF-8, and `OversizedError` beyond a limit."""
        self._room -= len(chunk)
        self._event_size += len(chunk)
        if self._room < 0:
            raise OversizedError("the reply is larger than any model's")
        if self._held:
            chunk, self._held = b"\r" + chunk, False
        if b"\r" in chunk:
            # CR, LF and CRLF all end a line: whether this is a CRLF shows with the next chunk
            if chunk.endswith(b"\r"):
                chunk, self._held = chunk[:-1], True
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, tail = chunk.split(b"\n")
        self._lines -= len(lines)
        if self._lines < 0:
            raise OversizedError("the reply has more events than any model's")
        if lines and self._tail:
            lines[0] = b"".join([*self._tail, lines[0]])
            self._tail.clear()
        if tail:
            # kept in pieces: joining at each chunk would copy an event once per chunk
            self._tail.append(tail)
        events = self._events(lines)
        self._check_size()
        return events

    def close(self) -> list[str]:
        """Return the last event if its lines are complete but the final empty line is missing."""
        last = [b"".join(self._tail)] if self._held else []
        return self._events([*last, b""])

    def _events(self, lines: list[bytes]) -> list[str]:
        events: list[str] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data: "):  # the usual case
                data.append(line[6:])
                continue
            # some servers begin a stream with a BOM, which would hide the first field
            field = line.removeprefix(_BYTE_ORDER_MARK)
            if field.startswith(b"data:"):
                # one blank after the colon belongs to the syntax, others to the data
                data.append(field[6:] if field[5:6] == b" " else field[5:])
            elif not field:
                if len(data) == 1 and data[0]:  # the usual case
                    events.append(self._text(data[0]))
                else:
                    # an event without data is none, as the standard says
                    events += [self._text(part) for part in _separate(data) if part]
                data.clear()
                self._event_size = 0
            elif field == b"data":
                data.append(b"")
            elif field.startswith(b"error:"):
                # llama.cpp's name for the data of an error
                data.append(field[6:].strip())
        return events

    def _text(self, data: bytes) -> str:
        self._event_size = max(self._event_size, len(data))
        self._check_size()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise BrokenStreamError("the stream holds bytes that are not UTF-8") from None

    def _check_size(self) -> None:
        if self._event_size > self._largest_event:
            raise OversizedError("one event of the stream is larger than any model's")


def _separate(lines: list[bytes]) -> list[bytes]:
    """Return the data of the events in these lines: one, unless the empty lines between several are
    missing, as each line is then an object of its own."""
    whole = (line.startswith(b"{") and line.endswith(b"}") for line in lines if line != b"[DONE]")
    return list(lines) if all(whole) else [b"\n".join(lines)]


class PromptCache(StrEnum):
    """Which prefix of a request comes again, and so is worth caching by the provider."""

    LAST = "last"
    """All of it: the next request begins with this one, as with a target."""
    HISTORY = "history"
    """All but the last message, which is for this turn only, as with a user model."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A request, independent of the protocol."""

    model: str
    messages: tuple[Message, ...]
    params: RequestParams = field(default_factory=RequestParams)
    schema: JsonSchema | None = None
    seed: int = 0
    """Already mixed from the model's seed and the call's."""
    cache: PromptCache | None = None
    learned: ModelCapabilities = field(default_factory=ModelCapabilities)
    first_party: bool = False
    """Whether it goes to the protocol's own provider, not to a compatible server."""
    meant: ExpectedModel | None = None
    """Which replies are the model's; None if only its name on the wire is known."""
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """What a person adds to the body."""
    session: str = ""
    """The conversation's name, if the other side needs it."""

    @property
    def means(self) -> ExpectedModel:
        return self.meant or ExpectedModel(self.model)

    def takes(self, name: str) -> bool:
        """Whether the model accepts this parameter, as far as known."""
        return name not in self.learned.dropped


def left_out(ask: ChatRequest) -> tuple[str, ...]:
    """What a person asked for and this request lacks, after a refusal: parameters by their names in
    the configuration, the role of a system prompt, and the strictness of a form."""
    learned = ask.learned
    if not learned.dropped and learned.step is Step.JSON_SCHEMA:
        return ()
    names = [
        name
        for name in ("temperature", "top_p", "seed", "reasoning_effort")
        if getattr(ask.params, name) is not None and not ask.takes(name)
    ]
    if ask.params.max_tokens and {"max_tokens", "max_completion_tokens"} <= learned.dropped:
        names.append("max_tokens")
    if any(message.role is MessageRole.SYSTEM for message in ask.messages):
        names += ["system_role"] if FOLDED_SYSTEM in learned.dropped else []
    if ask.schema is not None:
        names += ["counts_in_schema"] if BOUNDS in learned.dropped else []
        names += [str(step) for step in list(Step)[: list(Step).index(learned.step)]]
    return tuple(names)


@dataclass(slots=True)
class Tokens:
    """Token counts of the provider; None is not reported."""

    input: int | None = None
    """All input, cached or not."""
    cached: int | None = None
    cache_written: int | None = None
    output: int | None = None
    """Including reasoning."""
    cost_usd: float | None = None
    """The cost of this request in US dollars, if the provider reports it."""
    tier: str | None = None
    """The service tier that the prices depend on, such as `flex`; None is not known."""


FINISHES: Final[Mapping[Meaning, Finish]] = {
    Meaning.CUT: Finish.LENGTH,
    Meaning.REFUSED: Finish.REFUSAL,
    Meaning.FILTERED: Finish.CONTENT_FILTER,
    Meaning.CONTEXT_FULL: Finish.CONTEXT_FULL,
}
"""Any other meaning is that the model ended by itself, whatever a server calls it."""


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
    """Return the schema with only the keywords that `taken` accepts; `inner` converts its parts.
    Objects allow no additional keys."""
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


COUNTS: Final = frozenset({"minItems", "maxItems"})
"""Sent to every server until it refuses them: without them, small models write lists without
end."""


def has_counts(form: object) -> bool:
    """Whether a form of answer in a request limits the length of a list."""
    written = json.dumps(form)
    return any(f'"{word}": ' in written for word in COUNTS)


_MOST_TOOLS: Final = 3
CALLS_A_TOOL: Final = "calls a tool"


def note_tool(tools: list[str], name: object) -> None:
    """Keep the name of a tool that a model calls."""
    if isinstance(name, str) and name and len(tools) < _MOST_TOOLS:
        tools.append(one_line(name, LONGEST_NAME))


def tool_words(tools: Sequence[str]) -> str | None:
    """Say which tools were called; None if none were."""
    return f"{CALLS_A_TOOL} that nobody offered ({', '.join(tools)})" if tools else None


class ReplyParser(ABC):
    """Parses the events of one stream and holds the results."""

    __slots__ = (
        *("ended", "finish", "instead", "named", "oddity", "provider", "settled", "thoughts"),
        *("tokens", "tools", "unexplained"),
    )

    def __init__(self) -> None:
        self.tokens = Tokens()
        self.finish: Finish | None = None
        """How the reply ended; None before that is known."""
        self.ended = False
        """Whether nothing more will come."""
        self.settled = False
        """Whether the reply is complete if a short silence follows: its reason to end came behind
        its words."""
        self.thoughts: list[str] = []
        self.oddity: str | None = None
        """What a person should know about how this server answers."""
        self.instead: str | None = None
        """The whole text, if the pieces were not what they should be."""
        self.unexplained = False
        """Whether the end was marked without a reason."""
        self.named = ServedNames()
        """The models that the reply names as its author."""
        self.provider: str | None = None
        """The provider of the model, if a gateway names it."""
        self.tools: list[str] = []
        """Names of tools that it called, in pieces."""

    @property
    def whole(self) -> bool:
        """Whether the reply is complete if the stream ends here."""
        return self.ended or self.finish is not None

    @property
    def closing(self) -> bool:
        """Whether a reason to end was given, so that a short silence ends the reply."""
        return self.finish is not None

    @property
    def sure(self) -> bool:
        """Whether the reply is complete even if the stream breaks off here."""
        return self.ended or self.settled

    @abstractmethod
    def feed(self, data: str) -> str | None:
        """Return the text in an event; empty if it advanced the reply without any text (reasoning,
        a beginning), None if it did not (a ping).

        Raises `BrokenStreamError` and `InStreamError`.
        """

    @abstractmethod
    def feed_document(self, data: str) -> str:
        """Return the reply in a response that is one document. Raises `InStreamError`."""


class Dialect(ABC):
    """A protocol: how requests are written and replies are parsed."""

    __slots__ = ()
    fills_template: ClassVar[bool] = False
    """Whether `body` is made from a person's template, and nothing is added to it."""
    steps: ClassVar[tuple[Step, ...]] = tuple(Step)

    def headers(self, ask: ChatRequest) -> Mapping[str, str]:
        """Return headers in addition to those of the address and those of a person."""
        del ask
        return {}

    @abstractmethod
    def body(self, ask: ChatRequest) -> dict[str, Any]: ...

    @abstractmethod
    def sent(self, body: Mapping[str, Any]) -> frozenset[str]:
        """Return the parameters in the body, by their names in the configuration."""

    @abstractmethod
    def parser(self) -> ReplyParser:
        """Return a new parser, for one reply."""


def written_body(dialect: Dialect, ask: ChatRequest) -> bytes:
    """Return the encoded body."""
    # our own values last, so that nothing that a person adds replaces them
    beside = {} if dialect.fills_template else ask.extra_body
    whole = {**beside, **dialect.body(ask)}
    # not escaped: two or three bytes instead of six for most scripts; "replace", as a lone
    # surrogate from a model cannot be encoded
    return json.dumps(whole, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Consecutive messages of one role."""

    role: MessageRole
    texts: tuple[str, ...]
    reasoning: str = ""
    """What the model thought before it said this."""

    @property
    def text(self) -> str:
        return BREAK.join(self.texts)


_DECODER: Final = json.JSONDecoder()
BREAK: Final = "\n\n"
"""Separates messages that are joined."""


def turns(ask: ChatRequest) -> list[MessageGroup]:
    """Return the messages, consecutive ones of a role joined, as many chat templates require it.
    The schema is described in the system message, completely if the server cannot enforce it."""
    return _grouped(_messages(ask))


def spoken_turns(ask: ChatRequest) -> list[MessageGroup]:
    """As `turns`, without messages that hold no text, such as a reply that a filter withheld: both
    chat protocols refuse these."""
    return _grouped(message for message in _messages(ask) if message.text.strip())


def _grouped(messages: Iterable[Message]) -> list[MessageGroup]:
    groups: list[MessageGroup] = []
    for message in messages:
        own, thought = (message.text,), message.reasoning or ""
        if groups and groups[-1].role is message.role:
            last = groups[-1]
            thought = BREAK.join(filter(None, (last.reasoning, thought)))
            groups[-1] = MessageGroup(message.role, last.texts + own, thought)
        else:
            groups.append(MessageGroup(message.role, own, thought))
    return groups


def _messages(ask: ChatRequest) -> Sequence[Message]:
    messages = list(ask.messages)
    if ask.schema is not None:
        place = next(
            (n for n, message in enumerate(messages) if message.role is MessageRole.SYSTEM), None
        )
        # a server that enforces the schema needs only the fields in words, others all of it
        has_schema = ask.learned.step is Step.JSON_SCHEMA
        words = form_in_words(ask.schema) if has_schema else in_words(ask.schema)
        if place is None:
            messages.insert(0, Message(MessageRole.SYSTEM, words))
        else:
            system = f"{messages[place].text}{BREAK}{words}"
            messages[place] = Message(MessageRole.SYSTEM, system)
    if not ask.takes(FOLDED_SYSTEM):
        messages = [
            Message(MessageRole.USER, message.text)
            if message.role is MessageRole.SYSTEM
            else message
            for message in messages
        ]
    return messages


_KEEPS_ALIVE: Final = frozenset({"", "ping"})
_DONE: Final = "[done]"


def is_end_mark(data: str) -> bool:
    """Whether an event is the one behind the last, in whatever case."""
    return not data.startswith("{") and data.strip().lower() == _DONE


def parsed(data: str) -> dict[str, Any]:
    """Return the JSON object in an event; an empty one for what only keeps a stream alive. Raises
    `BrokenStreamError` for anything else, and `InStreamError` for words, which are an error."""
    try:
        event = _value(data)
    except (ValueError, RecursionError):
        said = data.strip()
        if said in _KEEPS_ALIVE:
            return {}
        if said[0] not in '{["':
            words = f"an event that is not JSON: {said}"
            raise InStreamError(failure_in(words, Cause.IN_STREAM)) from None
        raise BrokenStreamError("an event of the stream is not JSON") from None
    if isinstance(event, dict):
        return event
    if event and event != "ping":
        raise BrokenStreamError("an event of the stream is not an object")
    return {}


def document(data: str) -> dict[str, Any]:
    """Return the JSON object in a response that is one document. Raises `InStreamError` for
    anything else, and for an error in it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise no_reply(data)
    return found


def no_reply(data: str) -> InStreamError:
    """The error for a document without a reply: its own, if it reports one."""
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
        if isinstance(found, dict) and is_error(found):
            return InStreamError(failure_in(found, Cause.IN_STREAM))
    return InStreamError(Failure(Cause.NO_STREAM, "a document without a reply, and no stream"))


def _value(data: str) -> object:
    """As `json.loads`, in half the time for an object without white space around it, as in the
    event of each word."""
    if data.startswith("{"):
        value, end = _DECODER.raw_decode(data)
        if end == len(data):
            return value
    return json.loads(data)


MOST_COUNTED: Final = 10**9
"""Tokens of one call; a thousand times the longest context."""


def count(value: object) -> int | None:
    """Return a number of tokens, which some servers write as a float; None for anything else, and
    for more than a call can use."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and 0 <= value <= MOST_COUNTED else None


_CHANNEL: Final = "<|channel|>"
_FINAL_CHANNEL: Final = "final<|message|>"
_TAGS: Final[Mapping[str, str]] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "[THINK]": "[/THINK]",
    # gpt-oss: what is on any channel but the final one is reasoning
    _CHANNEL: _FINAL_CHANNEL,
    f"<|start|>assistant{_CHANNEL}": _FINAL_CHANNEL,
}
"""What opens reasoning at the beginning of a reply, and what closes it."""
_CHANNEL_MARKS: Final = re.compile(r"(?:analysis|commentary|assistant)?<\|\w{1,20}\|>")


class _Place(Enum):
    BEFORE = auto()
    """Only white space, or a part of the opening tag, has come."""
    INSIDE = auto()
    BETWEEN = auto()
    """After the closing tag, before the reply begins."""
    REPLY = auto()


class ThoughtSplitter:
    """Separates reasoning from a streamed reply. Only tags at its very beginning count: later ones
    are quoted."""

    __slots__ = ("_close", "_held", "_place", "thoughts")

    def __init__(self) -> None:
        self._place = _Place.BEFORE
        self._close = ""
        self._held = ""
        self.thoughts: list[str] = []

    def feed(self, piece: str) -> str:
        """Return the part of a piece that belongs to the reply."""
        match self._place:
            case _Place.REPLY:
                return piece
            case _Place.BEFORE:
                return self._before_thought(self._held + piece)
            case _Place.INSIDE:
                return self._inside_thought(self._held + piece)
            case _Place.BETWEEN:
                return self._after_thought(piece)

    def close(self) -> str:
        """Return the text that was held back and belongs to the reply after all."""
        text, self._held = self._held, ""
        if self._place is _Place.INSIDE:
            self.thoughts.append(text)
            return ""
        return text

    def _before_thought(self, text: str) -> str:
        begun = text.lstrip()
        for tag, close in _TAGS.items():
            if begun.startswith(tag):
                self._place, self._held, self._close = _Place.INSIDE, "", close
                return self._inside_thought(begun.removeprefix(tag))
        # it may still become a tag, and text that was shown cannot be taken back
        if any(tag.startswith(begun) for tag in _TAGS):
            self._held = text
            return ""
        self._place, self._held = _Place.REPLY, ""
        return text

    def _inside_thought(self, text: str) -> str:
        thought, mark, rest = text.partition(self._close)
        if mark:
            self.thoughts.append(_CHANNEL_MARKS.sub("", thought))
            self._place, self._held = _Place.BETWEEN, ""
            return self._after_thought(rest)
        # keep the longest end with which the closing tag could begin: a tag may come in pieces
        close = self._close
        keep = next((n for n in range(len(close) - 1, 0, -1) if text.endswith(close[:n])), 0)
        self.thoughts.append(text[: len(text) - keep])
        self._held = text[len(text) - keep :]
        return ""

    def _after_thought(self, text: str) -> str:
        begun = text.lstrip()
        if begun:
            self._place = _Place.REPLY
        return begun


_CLOSED: Final = {tag: close for tag, close in _TAGS.items() if close != _FINAL_CHANNEL}


def split_unopened_thought(text: str) -> tuple[str, str] | None:
    """Split reasoning and reply if only the closing tag is in the text, as with servers whose
    template writes the opening tag itself; otherwise None."""
    for tag, close in _CLOSED.items():
        thought, mark, rest = text.partition(close)
        if mark and tag not in thought:
            return thought, rest.lstrip()
    return None
