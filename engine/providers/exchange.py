"""Sends one request and reads its reply under deadlines, or finds out why there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from engine.kill_points import KillPoint, reached
from engine.providers.attempts import (
    LONGEST_REFUSAL,
    body_in,
    failure_in,
    is_error,
    status_failure,
)
from engine.providers.failures import Cause, Failure
from engine.providers.http.transport import ConnectionFailedError, OnBody, Transport
from engine.providers.model import Finish, OnText
from engine.providers.protocols.application import ApplicationReplyParser
from engine.providers.protocols.base import (
    BrokenStreamError,
    EventDecoder,
    InStreamError,
    OversizedError,
    ReplyParser,
    ThoughtSplitter,
    split_unopened_thought,
)
from engine.providers.retry import RetryPolicy
from engine.providers.served_model import NO_ROUTE, ExpectedModel, GatewayRoute, other_of, route_of

LONGEST_REPLY: Final = 4 * 1024 * 1024
"""Characters; as many again of reasoning."""
LONGEST_DOCUMENT: Final = 16 * 1024 * 1024
"""Bytes of a reply in a single document, including everything around it."""
LONGEST_NAME: Final = 128
"""Characters of the server's id of a request."""

_WELL: Final = frozenset({200, 201})
_DOCUMENT_TYPE: Final = "application/json"
_NO_STREAM_TYPES: Final = (_DOCUMENT_TYPE, "text/html", "application/problem")
_EVENTS: Final = (b"data:", b"event:", b":")
"""How a stream begins."""


@dataclass(slots=True)
class ReplyBuffer:
    """Collects a reply: passes text on as it comes, and keeps reasoning apart."""

    on_text: OnText | None
    clock: Callable[[], float]
    splitter: ThoughtSplitter = field(default_factory=ThoughtSplitter)
    spoken: list[str] = field(default_factory=list)
    size: int = 0
    """The number of characters so far, including reasoning within the text."""
    first_token_at: float | None = None
    _half: str = ""
    """The first half of a surrogate pair whose second half comes with the next piece."""

    def add(self, piece: str) -> None:
        """Add a piece, which is empty if the model advanced without any text."""
        if self.first_token_at is None:
            self.first_token_at = self.clock()
            reached(KillPoint.FIRST_WORD)
        if piece:
            self.size += len(piece)
            if self.size > LONGEST_REPLY:
                raise OversizedError("the reply is longer than any model's")
            self._emit_text(self.splitter.feed(piece))

    def pass_on(self, words: str) -> None:
        """Add text that another buffer has processed."""
        self.size += len(words)
        self._emit_text(words)

    def ended(self) -> None:
        """Complete the reply. If there is a closing tag of reasoning without an opening one, the
        text before it is taken back."""
        self._emit_text(self.splitter.close())
        if self._half:
            self._half = ""
            self._emit_text("\ufffd")
        parts = split_unopened_thought("".join(self.spoken))
        if parts is not None:
            thought, words = parts
            self.splitter.thoughts.append(thought)
            self.discard()
            self._emit_text(words)

    def replace_by(self, text: str) -> None:
        """Take back the text so far: this is what was meant."""
        self.discard()
        self.splitter = ThoughtSplitter()
        self._emit_text(self.splitter.feed(text))

    def discard(self) -> None:
        """Discard the text so far."""
        if self.spoken and self.on_text is not None:
            self.on_text(None)
        self.spoken.clear()
        self._half = ""

    def _emit_text(self, words: str) -> None:
        if self._half or not words.isascii():
            words = self._whole_characters(words)
        if not words:
            return
        self.spoken.append(words)
        if self.on_text is not None:
            self.on_text(words)

    def _whole_characters(self, words: str) -> str:
        """Join surrogate pairs that a server has split, as a half cannot be encoded."""
        words, self._half = self._half + words, ""
        if words and "\ud800" <= words[-1] <= "\udbff":
            words, self._half = words[:-1], words[-1]
        return _join_surrogates(words)


def _join_surrogates(words: str) -> str:
    """Join surrogate pairs, and replace lone surrogates."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Deadlines:
    """The deadlines of one request. Only text and reasoning move them: what servers send to keep a
    connection alive would move them for ever."""

    __slots__ = ("_ending", "_moves_at", "_now", "_retry_policy", "_spoken", "_whole_at", "alarm")

    def __init__(self, retry_policy: RetryPolicy) -> None:
        # the loop's clock, not an injected one: timeouts are the loop's
        self._now = asyncio.get_running_loop().time
        self._retry_policy = retry_policy
        began = self._now()
        self._whole_at = began + retry_policy.whole_s
        self._moves_at = began
        self._spoken = False
        self._ending = False
        self.alarm = asyncio.timeout_at(min(began + retry_policy.first_token_s, self._whole_at))

    def progressed(self) -> None:
        """Note that text or reasoning has come."""
        now = self._now()
        # rescheduling costs as much as decoding a word, so it is done now and then
        if now >= self._moves_at or self._ending:
            self._spoken, self._ending = True, False
            self._moves_at = now + self._retry_policy.between_s / 16
            self.alarm.reschedule(min(now + self._retry_policy.between_s, self._whole_at))

    def finishing(self) -> None:
        """Note that there is a reason to end, so that only the end of the stream is missing."""
        if not self._ending:
            self._ending = True
            self.alarm.reschedule(min(self._now() + self._retry_policy.ending_s, self._whole_at))

    @property
    def was_silent(self) -> bool:
        """Whether a deadline has passed because nothing came, and not because too much did."""
        return self._now() < self._whole_at

    @property
    def words(self) -> str:
        """Which deadline has passed, for a message."""
        if self._now() >= self._whole_at:
            return f"not finished within {self._retry_policy.whole_s:g} s"
        if self._ending:
            return f"no word within {self._retry_policy.ending_s:g} s of an early reason to end"
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
    """The server's id of the request."""
    failure: Failure | None = None
    meant: ExpectedModel | None = None
    """Whose reply is wanted; None for anybody's."""
    route: GatewayRoute = NO_ROUTE
    server: str = ""
    """What serves, as its answer says."""
    session: str | None = None
    """The other side's name for the conversation, if it gave one."""
    _thoughts: int = 0
    """The pieces of reasoning that were counted."""
    _thought_size: int = 0

    @property
    def served(self) -> str | None:
        """The model that answered, as the server says; if it names two, the unexpected one."""
        named = self.parser.named.models
        return self.other or (named[-1] if named else None)

    @property
    def other(self) -> str | None:
        """The model that answered instead of the one that was asked; None if none did."""
        if self.meant is None:
            return None
        return other_of(self.meant, self.parser.named.models, self.route)

    def count_thoughts(self) -> None:
        """Count the reasoning so far. Raises `OversizedError` beyond `LONGEST_REPLY` characters."""
        thoughts = self.parser.thoughts
        while self._thoughts < len(thoughts):
            self._thought_size += len(thoughts[self._thoughts])
            self._thoughts += 1
        if self._thought_size > LONGEST_REPLY:
            raise OversizedError("the model thinks for longer than any model")

    @property
    def text(self) -> str:
        """The text of the reply so far, without reasoning."""
        return "".join(self.reply.spoken)

    @property
    def reasoning(self) -> str | None:
        """The reasoning, whether sent separately or within tags; None if there is none."""
        thoughts = "".join([*self.parser.thoughts, *self.reply.splitter.thoughts]).strip()
        return _join_surrogates(thoughts) or None

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
    """Send a request and read its reply, or its `failure`, into `result`. `accepted` is called when
    the server begins to answer."""
    deadlines = Deadlines(retry_policy)
    handler = _ResponseHandler(result, deadlines, accepted)
    reached(KillPoint.SENDING)
    try:
        async with deadlines.alarm:
            await transport.post(headers, body, handler.on_response)
            handler.ended(now())
    # raised by our handler to stop reading a long refusal; what was read is evaluated
    except _RefusalTooLongError:
        handler.ended(now())
    except TimeoutError:
        result.failure = Failure(Cause.STALLED, deadlines.words)
    except ConnectionFailedError as error:
        result.failure = error.failure
    except BrokenStreamError as error:
        result.failure = Failure(Cause.BROKEN, str(error))
    except OversizedError as error:
        result.failure = Failure(Cause.OVERSIZED, str(error))
    except InStreamError as error:
        result.failure = error.failure
    if result.failure is not None and _is_too_late(result, deadlines):
        result.failure = None
        handler.complete()


def _is_too_late(result: CallResult, deadlines: Deadlines) -> bool:
    """Whether a failure does not matter, as the reply was complete before it."""
    parser = result.parser
    match result.failure.cause if result.failure else None:
        case Cause.STALLED:
            return parser.sure or (parser.settled and deadlines.was_silent)
        case Cause.BROKEN | Cause.NOT_HTTP:
            return parser.sure
        case _:
            return False


class _ResponseHandler:
    """Handles a response as its bytes arrive."""

    def __init__(
        self, result: CallResult, deadlines: Deadlines, accepted: Callable[[], None]
    ) -> None:
        self._result = result
        self._deadlines = deadlines
        self._accepted = accepted
        parser = result.parser
        self._app_parser = parser if isinstance(parser, ApplicationReplyParser) else None
        self._decoder = EventDecoder()
        self._had_event = False
        self._document: bytearray | None = None
        """The answer, if it is a single document."""
        self._headers: Mapping[str, str] = {}
        self._refusal = bytearray()
        """What came instead of a stream."""
        self._is_refusal = False
        self._names_checked = 0
        """How many names of models were checked."""

    def on_response(self, status: int, headers: Mapping[str, str]) -> OnBody:
        reached(KillPoint.SENT)
        self._result.status = status
        self._result.request_id = _request_id(headers)
        self._result.route = route_of(headers)
        self._result.server = headers.get("server", "")[:LONGEST_NAME]
        if self._app_parser is not None:
            self._app_parser.hear_headers(headers)
        if self._is_document(status, headers):
            self._document = bytearray()
            self._accepted()
            return self._on_document
        # a gateway that is down answers 200 with a page, some servers 200 with an error as JSON
        if status != 200 or _is_no_stream(headers):
            self._headers, self._is_refusal = headers, True
            return self._on_refusal
        self._accepted()
        return self._on_stream

    def _on_stream(self, chunk: bytes) -> None:
        result = self._result
        if not result.parser.ended and (events := self._decoder.feed(chunk)):
            self._had_event = True
            _take_events(events, result, self._deadlines)
            self._abort_other_model()

    def _is_document(self, status: int, headers: Mapping[str, str]) -> bool:
        if status not in _WELL:
            return False
        parser = self._app_parser
        if parser is None:
            return headers.get("content-type", "").lower().startswith(_DOCUMENT_TYPE)
        return parser.takes_document and (not parser.streams or _is_no_stream(headers))

    def _on_document(self, chunk: bytes) -> None:
        assert self._document is not None  # noqa: S101  (given out with it)
        # checked after each piece, so that Content-Length need not be trusted
        self._document += chunk
        if len(self._document) > LONGEST_DOCUMENT:
            raise OversizedError("the answer is larger than any reply")

    def _read_document(self, document: bytes) -> None:
        result = self._result
        try:
            # some servers on Windows begin with a byte order mark, which JSON does not allow
            text = document.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BrokenStreamError("the answer holds bytes that are not UTF-8") from None
        words = result.parser.feed_document(text)
        if self._app_parser is not None:
            result.session = self._app_parser.session
        self._abort_other_model()
        result.count_thoughts()
        result.reply.add(words)
        self.complete()

    def _abort_other_model(self) -> None:
        """Abort a reply that is refused anyway, as each further word would be paid for."""
        result = self._result
        named = len(result.parser.named.models)
        if result.meant is None or not result.meant.only or named == self._names_checked:
            return
        self._names_checked = named
        other = result.other
        if other is not None:
            # raised within the stream: that closes the connection, and so stops the server
            words = f"{other} answered in place of {result.meant.model or result.meant.also[0]}"
            raise InStreamError(Failure(Cause.OTHER_MODEL, words))

    def _on_refusal(self, chunk: bytes) -> None:
        self._refusal += chunk
        if len(self._refusal) >= LONGEST_REFUSAL:
            raise _RefusalTooLongError

    def ended(self, now: datetime) -> None:
        """Evaluate the response after its end."""
        result = self._result
        if self._document is not None and not self._document.lstrip().startswith(_EVENTS):
            self._read_document(bytes(self._document))
            return
        if self._document is not None:
            # a stream, whatever the server calls it
            self._on_stream(bytes(self._document))
        if self._is_refusal:
            result.failure = _refusal(result.status or 0, self._headers, bytes(self._refusal), now)
            return
        if events := self._decoder.close():
            self._had_event = True
            _take_events(events, result, self._deadlines)
            self._abort_other_model()
        if self._app_parser is not None:
            self._app_parser.close()
            result.session = self._app_parser.session
        if not self._had_event:
            result.failure = Failure(Cause.NO_STREAM, "no event in it")
        elif not result.parser.whole:
            result.failure = Failure(Cause.UNFINISHED)
        reached(KillPoint.LAST_WORD)
        self.complete()

    def complete(self) -> None:
        """Complete the reply with what has come."""
        result = self._result
        if result.parser.instead is not None:
            result.reply.replace_by(result.parser.instead)
        result.reply.ended()


class _RefusalTooLongError(Exception):
    """Enough of a refusal was read."""


def _take_events(events: Sequence[str], result: CallResult, deadlines: Deadlines) -> None:
    """Feed events to the parser, and pass on what arrived together as one piece: the more this
    engine lags, the less work each word is."""
    parser = result.parser
    pieces: list[str] = []
    try:
        for data in events:
            if parser.ended:
                break
            piece = parser.feed(data)
            # an empty piece counts as progress, such as reasoning that is not sent
            if piece is not None:
                pieces.append(piece)
    finally:
        if pieces:
            deadlines.progressed()
            result.count_thoughts()
            result.reply.add("".join(pieces))
        if parser.closing:
            deadlines.finishing()


def _request_id(headers: Mapping[str, str]) -> str | None:
    # OpenAI's name first, then Anthropic's
    named = headers.get("x-request-id") or headers.get("request-id")
    return named[:LONGEST_NAME] if named else None


def _is_no_stream(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").lower().startswith(_NO_STREAM_TYPES)


def _refusal(status: int, headers: Mapping[str, str], raw: bytes, now: datetime) -> Failure:
    """Return the failure of a response that is not a stream."""
    body = body_in(raw)
    if status >= 300:
        return status_failure(status, headers, body, now=now)
    if isinstance(body, dict) and is_error(body):
        return failure_in(body, Cause.IN_STREAM)
    kind = headers.get("content-type", "") or "nothing"
    return Failure(Cause.NO_STREAM, f"{kind.split(';')[0]} in place of a stream", status)
