"""One request and its reply, read to its end under deadlines, or what became of it instead."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from engine.kill_points import KillPoint, reached
from engine.providers.attempts import (
    LONGEST_REFUSAL,
    Cause,
    Failure,
    failure_in,
    status_failure,
    transport_failure,
)
from engine.providers.http.transport import ConnectionFailedError, Fault, OnBody, Transport
from engine.providers.model import Finish, OnText
from engine.providers.protocols.base import (
    AnyAnswerParser,
    InStreamError,
    ReplyParser,
    ThoughtSplitter,
    unopened,
)
from engine.providers.protocols.sse import BrokenStreamError, EventDecoder, OversizedError
from engine.providers.retry import RetryPolicy
from engine.providers.served import NO_ROUTE, ExpectedModel, GatewayRoute, other_of, route_of

LONGEST_REPLY: Final = 4 * 1024 * 1024
"""Characters; of what was thought beside it as many again."""
LONGEST_DOCUMENT: Final = 16 * 1024 * 1024
"""Bytes of a reply that comes in one document, all that stands around it included."""
LONGEST_NAME: Final = 128
"""Characters of what a server calls a request."""

_WELL: Final = frozenset({200, 201})
_NO_STREAM_TYPES: Final = ("application/json", "text/html", "application/problem")


@dataclass(slots=True)
class ReplyBuffer:
    """The reply as it is spoken: passed on word by word, thoughts kept apart."""

    on_text: OnText | None
    clock: Callable[[], float]
    splitter: ThoughtSplitter = field(default_factory=ThoughtSplitter)
    spoken: list[str] = field(default_factory=list)
    size: int = 0
    """Of what was said, thoughts among the words included."""
    first_token_at: float | None = None
    _half: str = ""
    """The first half of a character whose second half comes with the next piece."""

    def add(self, piece: str) -> None:
        """One piece, which is empty where the model moved without a word."""
        if self.first_token_at is None:
            self.first_token_at = self.clock()
            reached(KillPoint.FIRST_WORD)
        if piece:
            self.size += len(piece)
            if self.size > LONGEST_REPLY:
                raise OversizedError("the reply is longer than any model's")
            self._say(self.splitter.feed(piece))

    def pass_on(self, words: str) -> None:
        """What another buffer has made of a reply."""
        self.size += len(words)
        self._say(words)

    def ended(self) -> None:
        """Nothing more comes. Where a mark ends a thought that none began, the words before it are
        taken back."""
        self._say(self.splitter.close())
        if self._half:
            self._half = ""
            self._say("\ufffd")
        found = unopened("".join(self.spoken))
        if found is not None:
            thought, words = found
            self.splitter.thoughts.append(thought)
            self.void()
            self._say(words)

    def void(self) -> None:
        """What was said does not count."""
        if self.spoken and self.on_text is not None:
            self.on_text(None)
        self.spoken.clear()
        self._half = ""

    def _say(self, words: str) -> None:
        if self._half or not words.isascii():
            words = self._whole_characters(words)
        if not words:
            return
        self.spoken.append(words)
        if self.on_text is not None:
            self.on_text(words)

    def _whole_characters(self, words: str) -> str:
        """Some servers cut an escaped character in two, and a half cannot be written anywhere."""
        words, self._half = self._half + words, ""
        if words and "\ud800" <= words[-1] <= "\udbff":
            words, self._half = words[:-1], words[-1]
        return _mended(words)


def _mended(words: str) -> str:
    """With halves of characters put together, and those that are alone replaced."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Deadlines:
    """The deadlines of one request. Only words and thoughts move them: what servers send to keep a
    connection alive would keep it alive for ever."""

    __slots__ = ("_ending", "_moves_at", "_now", "_retry_policy", "_spoken", "_whole_at", "alarm")

    def __init__(self, retry_policy: RetryPolicy) -> None:
        # the loop's clock and not one that is given in: alarms are the loop's own
        self._now = asyncio.get_running_loop().time
        self._retry_policy = retry_policy
        began = self._now()
        self._whole_at = began + retry_policy.whole_s
        self._moves_at = began
        self._spoken = False
        self._ending = False
        self.alarm = asyncio.timeout_at(min(began + retry_policy.first_token_s, self._whole_at))

    def moved(self) -> None:
        """A word or a thought has come."""
        now = self._now()
        # moving an alarm costs as much as decoding a word, so it is moved now and then
        if now >= self._moves_at and not self._ending:
            self._spoken = True
            self._moves_at = now + self._retry_policy.between_s / 16
            self.alarm.reschedule(min(now + self._retry_policy.between_s, self._whole_at))

    def ends(self) -> None:
        """The reply is whole: what is left are formalities."""
        if not self._ending:
            self._ending = True
            self.alarm.reschedule(min(self._now() + self._retry_policy.ending_s, self._whole_at))

    @property
    def words(self) -> str:
        """Which of the deadlines has passed, for a message."""
        if self._now() >= self._whole_at:
            return f"not finished within {self._retry_policy.whole_s:g} s"
        if self._spoken:
            return f"no further word within {self._retry_policy.between_s:g} s"
        return f"no first word within {self._retry_policy.first_token_s:g} s"


@dataclass(slots=True)
class CallResult:
    """What is known of a request when it is over."""

    parser: ReplyParser
    reply: ReplyBuffer
    status: int | None = None
    request_id: str | None = None
    """The server's own name for it."""
    failure: Failure | None = None
    meant: ExpectedModel | None = None
    """Whose reply is wanted; None where anybody's is."""
    route: GatewayRoute = NO_ROUTE
    session: str | None = None
    """What the other side calls the conversation, where it has said so."""
    _thoughts: int = 0
    """How many pieces of thought are counted."""
    _thought_size: int = 0

    @property
    def served(self) -> str | None:
        """The model that the server says answered; the other one where it names two."""
        named = self.parser.named.models
        return self.other or (named[-1] if named else None)

    @property
    def other(self) -> str | None:
        """The model that answered in place of the one that was asked; None where none did."""
        if self.meant is None:
            return None
        return other_of(self.meant, self.parser.named.models, self.route)

    def count_thoughts(self) -> None:
        """Add up what was thought since the last call. Raises `OversizedError` beyond
        `LONGEST_REPLY`."""
        thoughts = self.parser.thoughts
        while self._thoughts < len(thoughts):
            self._thought_size += len(thoughts[self._thoughts])
            self._thoughts += 1
        if self._thought_size > LONGEST_REPLY:
            raise OversizedError("the model thinks for longer than any model")

    @property
    def text(self) -> str:
        """The words of the reply so far, without thoughts."""
        return "".join(self.reply.spoken)

    @property
    def reasoning(self) -> str | None:
        """What was thought, be it said apart or within marks; None where nothing was."""
        thoughts = "".join([*self.parser.thoughts, *self.reply.splitter.thoughts]).strip()
        return _mended(thoughts) or None

    @property
    def finish(self) -> Finish:
        return self.parser.finish or Finish.STOP


async def exchange(
    transport: Transport,
    headers: Mapping[str, str],
    body: bytes,
    result: CallResult,
    *,
    retry_policy: RetryPolicy,
    now: Callable[[], datetime],
    accepted: Callable[[], None],
) -> None:
    """Send the request and read its reply into `result`, with its `failure` where there is one.
    `accepted` is called when the server begins to answer."""
    deadlines = Deadlines(retry_policy)
    handler = _ResponseHandler(result, deadlines, accepted)
    reached(KillPoint.SENDING)
    try:
        async with deadlines.alarm:
            await transport.post(headers, body, handler.answered)
            handler.ended(now())
    # raised by our own handler to leave the rest of a long refusal unread; what was read is judged
    except _EnoughError:
        handler.ended(now())
    except TimeoutError:
        result.failure = Failure(Cause.STALLED, deadlines.words)
    except ConnectionFailedError as error:
        result.failure = transport_failure(error.failure)
    except BrokenStreamError as error:
        result.failure = Failure(Fault.BROKEN, str(error))
    except OversizedError as error:
        result.failure = Failure(Cause.OVERSIZED, str(error))
    except InStreamError as error:
        result.failure = error.failure
    if result.parser.whole and result.failure is not None and result.failure.cause in _TOO_LATE:
        result.failure = None
        result.reply.ended()


_TOO_LATE: Final = frozenset({Cause.STALLED, Fault.BROKEN})
"""Once a reply has said that it is whole, it does not matter how the connection ends."""


class _ResponseHandler:
    """Reads a response as its bytes come in."""

    def __init__(
        self, result: CallResult, deadlines: Deadlines, accepted: Callable[[], None]
    ) -> None:
        self._result = result
        self._deadlines = deadlines
        self._accepted = accepted
        parser = result.parser
        # once, as to compare with a protocol takes 30 µs
        self._any = parser if isinstance(parser, AnyAnswerParser) else None
        self._decoder = EventDecoder()
        self._any_event = False
        self._document: bytearray | None = None
        """The answer, where it comes as one document."""
        self._headers: Mapping[str, str] = {}
        self._refusal = bytearray()
        """What is said in place of a stream."""
        self._refuses = False
        self._named = 0
        """How many names of models have been looked at."""

    def answered(self, status: int, headers: Mapping[str, str]) -> OnBody:
        reached(KillPoint.SENT)
        self._result.status = status
        self._result.request_id = _request_id(headers)
        self._result.route = route_of(headers)
        if self._any is not None:
            self._any.hear_headers(headers)
        if self._is_document(status, headers):
            self._document = bytearray()
            self._accepted()
            return self._collected
        # a gateway that is down answers 200 with a page, and some servers answer 200 with an error
        # as JSON
        if status != 200 or _is_no_stream(headers):
            self._headers, self._refuses = headers, True
            return self._refused
        self._accepted()
        return self._spoken

    def _spoken(self, chunk: bytes) -> None:
        result = self._result
        if not result.parser.ended and (events := self._decoder.feed(chunk)):
            self._any_event = True
            _take_events(events, result, self._deadlines)
            self._refuse_other()

    def _is_document(self, status: int, headers: Mapping[str, str]) -> bool:
        parser = self._any
        if parser is None or status not in _WELL:
            return False
        return parser.takes_document and (not parser.streams or _is_no_stream(headers))

    def _collected(self, chunk: bytes) -> None:
        assert self._document is not None  # noqa: S101  (given out with it)
        # looked at behind each piece, so that no Content-Length has to be believed
        self._document += chunk
        if len(self._document) > LONGEST_DOCUMENT:
            raise OversizedError("the answer is larger than any reply")

    def _read_document(self, document: bytes) -> None:
        result = self._result
        assert self._any is not None  # noqa: S101  (looked at before)
        try:
            # some servers of Windows begin a document with a byte order mark, which JSON does not
            # allow
            text = document.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BrokenStreamError("the answer holds bytes that are not UTF-8") from None
        words = self._any.feed_document(text)
        result.session = self._any.session
        self._refuse_other()
        result.reply.add(words)
        result.reply.ended()

    def _refuse_other(self) -> None:
        """Cut a reply off that is not taken anyway: each further word of it would be paid for."""
        result = self._result
        named = len(result.parser.named.models)
        if result.meant is None or not result.meant.only or named == self._named:
            return
        self._named = named
        other = result.other
        if other is not None:
            # raised within the stream: leaving it closes the connection, which is what stops a
            # server from writing on
            words = f"{other} answered in place of {result.meant.model}"
            raise InStreamError(Failure(Cause.OTHER_MODEL, words))

    def _refused(self, chunk: bytes) -> None:
        self._refusal += chunk
        if len(self._refusal) >= LONGEST_REFUSAL:
            raise _EnoughError

    def ended(self, now: datetime) -> None:
        """Called when the body has come to its end: what is still missing is missed now."""
        result = self._result
        if self._document is not None:
            self._read_document(bytes(self._document))
            return
        if self._refuses:
            result.failure = _refusal(result.status or 0, self._headers, bytes(self._refusal), now)
            return
        if events := self._decoder.close():
            self._any_event = True
            _take_events(events, result, self._deadlines)
            self._refuse_other()
        if self._any is not None:
            self._any.close()
            result.session = self._any.session
        if not self._any_event:
            result.failure = Failure(Cause.NO_STREAM, "no event in it")
        elif not result.parser.whole:
            result.failure = Failure(Cause.UNFINISHED)
        reached(KillPoint.LAST_WORD)
        result.reply.ended()


class _EnoughError(Exception):
    """A refusal has been heard for long enough."""


def _take_events(events: Sequence[str], result: CallResult, deadlines: Deadlines) -> None:
    """What came together is passed on as one piece: the later this engine is, the less it has to
    do for each word."""
    parser = result.parser
    pieces: list[str] = []
    try:
        for data in events:
            if parser.ended:
                break
            piece = parser.feed(data)
            # an empty piece counts as life: the model moved, as where it thinks without saying
            # what
            if piece is not None:
                pieces.append(piece)
    finally:
        if pieces:
            deadlines.moved()
            result.count_thoughts()
            result.reply.add("".join(pieces))
        if parser.whole:
            deadlines.ends()


def _request_id(headers: Mapping[str, str]) -> str | None:
    # OpenAI's name for it first, then Anthropic's
    named = headers.get("x-request-id") or headers.get("request-id")
    return named[:LONGEST_NAME] if named else None


def _is_no_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").lower().startswith(_NO_STREAM_TYPES)


def _refusal(status: int, headers: Mapping[str, str], raw: bytes, now: datetime) -> Failure:
    """What the server says where it does not stream a reply."""
    text = raw[:LONGEST_REFUSAL].decode("utf-8", "replace")
    try:
        body: object = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    if status >= 300:
        return status_failure(status, headers, body, now=now)
    if isinstance(body, dict) and body.get("error"):
        return failure_in(body, Cause.IN_STREAM)
    kind = headers.get("content-type", "") or "nothing"
    return Failure(Cause.NO_STREAM, f"{kind.split(';')[0]} in place of a stream", status)
