"""One connection that speaks HTTP/1.1: requests go out, one after the other, and each response is
handled at the moment in which its bytes come in, decompressed where it comes compressed unasked."""

from __future__ import annotations

import asyncio
import select
import time
import zlib
from collections.abc import Callable
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from engine.providers.http.transport import (
    CLOSED,
    SPEAKS_TLS,
    ConnectionFailedError,
    Fault,
    OnBody,
    OnResponse,
    TransportFailure,
    error_name,
)

DECODED_AT_ONCE: Final = 64 * 1024
"""Bytes. A few compressed ones can hold very many: so many are decoded in one turn of the event
loop."""
MOST_MEMBERS: Final = 10_000
"""What comes out has its handler's limit; this is for gzip members that hold nothing."""

_GZIP: Final = zlib.MAX_WBITS | 16
_MEMBERS_AT_ONCE: Final = 16
_BROKEN: Final = TransportFailure(Fault.BROKEN)


def decoder_for(coding: str, on_body: OnBody) -> Decoder | None:
    """What to feed a body of this coding to; None where it needs no decoding. Raises
    `ConnectionFailedError`, here or when it is fed, for what cannot be decoded."""
    match coding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return Decoder(on_body, gzip=True)
        case "deflate":
            return Decoder(on_body, gzip=False)
        case _:
            raise ConnectionFailedError(_BROKEN)


class Decoder:
    """Takes one compressed body in and passes it on plain."""

    def __init__(self, on_body: OnBody, *, gzip: bool) -> None:
        self._on_body = on_body
        self._gzip = gzip
        # for deflate its first byte decides
        self._inflate = zlib.decompressobj(_GZIP) if gzip else None
        self._received = b""
        """What is not decoded yet."""
        self._members = 1
        self.pending = False
        """Whether what has come is not all decoded: call `resume` then, in a later turn."""

    def feed(self, compressed: bytes) -> None:
        """Decode the beginning of it. Nothing more may be fed while something is pending."""
        self._received += compressed
        self.resume()

    def resume(self) -> None:
        """Decode as much more as one turn has time for."""
        room = DECODED_AT_ONCE
        for _ in range(_MEMBERS_AT_ONCE):
            inflate = self._current()
            if inflate is None:
                return
            try:
                body = inflate.decompress(self._received, room)
            except zlib.error:
                raise ConnectionFailedError(_BROKEN) from None
            room -= len(body)
            self._received = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            # no room left: zlib may hold back more that it has decoded already, without any input
            # that is unread
            self.pending = bool(self._received) or not room
            if body:
                self._on_body(body)
            if not (self.pending and room):
                return

    def _current(self) -> zlib._Decompress | None:
        """For what was received; None where nothing of it belongs to the body."""
        if self._inflate is not None and self._inflate.eof:
            # a gzip file may be several, one behind the other, with zeros between them
            self._received = self._received.lstrip(b"\0") if self._gzip else b""
            self.pending = False
            if not self._received.startswith(b"\x1f"):
                self._received = b""
                return None
            self._members += 1
            if self._members > MOST_MEMBERS:
                raise ConnectionFailedError(_BROKEN)
            self._inflate = zlib.decompressobj(_GZIP)
        if self._inflate is None:
            # some write a header in front of deflate, and some do not
            # RFC 9110 means the zlib format (8 is its method), but servers that send raw deflate
            # are old and many
            headed = self._received[0] & 0x0F == 8
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)
        return self._inflate


READ_AT_ONCE: Final = 64 * 1024
LARGEST_HEAD: Final = 64 * 1024
"""Bytes that may come without any of a body among them: of a head, or of heads in front of it, or
of what stands around and behind the chunks of a body."""

_TLS_ALERT: Final = 0x15
"""What TLS begins with that says that something else was expected. HTTP begins with a letter."""
_LONG_S: Final = 0.005
"""What takes longer to handle than this is no reply that is being streamed."""
_PAUSE: Final = 4
"""So many times as long as it took the others get before more of such a response is read."""


class UnansweredError(ConnectionFailedError):
    """A connection that had carried another request ended before a byte of this one's response."""


class HttpConnection(asyncio.BufferedProtocol):
    """Belongs to one event loop. Whatever comes when no response is due ends it."""

    def __init__(self, buffer: memoryview, on_lost: Callable[[HttpConnection], None]) -> None:
        self._buffer = buffer
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append
        """Called by the parser."""
        self._parser = HttpResponseParser(self)
        # what servers written by hand get wrong, and what is dangerous only to who passes it on
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._response: asyncio.Future[None] | None = None
        """Done when the response is over; none where nothing was requested."""
        self._on_response: OnResponse | None = None
        self._on_body: OnBody | None = None
        """Told of the body; none before there is a response."""
        self._headers: dict[str, str] = {}
        self._head_complete = False
        self._complete = False
        self._reusable = True
        """Whether it may carry another request after this one."""
        self._until_close = False
        """Whether nothing but the connection's end says where the body ends."""
        self._begun = False
        """Whether anything of a response has come."""
        self._bodiless = 0
        """Bytes since the last of a body."""
        self._used = False
        """Whether it has carried a request before this one."""
        self._decoder: Decoder | None = None
        self._paused: asyncio.Handle | None = None
        """Resumes what is not read meanwhile."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when nothing of it is left."""

    @property
    def available(self) -> bool:
        """Whether it can carry a request now."""
        transport = self._transport
        # asyncio tells of a closed connection a turn of the loop later; `is_closing` knows at once
        open_ = transport is not None and not transport.is_closing()
        return open_ and self._reusable and self._response is None

    @property
    def nothing_unread(self) -> bool:
        """Whether nothing has come since the last response, not even the connection's end. Both may
        lie in the socket: servers close what has waited without a word, and some say why first."""
        transport = self._transport
        if transport is None:
            return False
        # `select` would refuse descriptors above 1,023, of which a process with many connections
        # has some
        poll = select.poll()
        poll.register(transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)

    async def request(self, request: bytes, on_response: OnResponse) -> None:
        """Send it and have its response handled. Raises `ConnectionFailedError`, and what the
        handler raises; `UnansweredError` where the request is worth a fresh connection. Afterwards
        this one is either `available` or closing."""
        transport = self._transport
        if transport is None or not self.available:
            raise ConnectionFailedError(CLOSED)
        self._on_response = on_response
        self._headers = {}
        self._head_complete = self._complete = self._until_close = self._reusable = False
        self._bodiless = 0
        self._begun = False
        self._decoder = None
        self._response = asyncio.get_running_loop().create_future()
        try:
            # one write: the head and the body of a request in two segments wait for each other
            # under Nagle's algorithm and delayed acknowledgements
            transport.write(request)
            await self._response
        finally:
            self._response = self._on_response = self._on_body = None
            self._used = True
            # a response that came before all was sent leaves the rest of it in the way
            if not self._reusable or self._paused or transport.get_write_buffer_size():
                self.abort()

    def abort(self) -> None:
        """End it, whatever it is in the middle of."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """By the event loop, as the four below."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """The pool's one buffer: what is read into it is handled before anything else is read."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have come into the buffer."""
        response = self._response
        if response is None or response.done():
            # nobody asked for it, and it must not be taken for the response to the next request
            self.abort()
        elif not self._begun and self._is_stale:
            self._fail(UnansweredError(CLOSED))
        else:
            self._timed(response, lambda: self._received(nbytes))

    def _timed(self, response: asyncio.Future[None], handle: Callable[[], None]) -> None:
        """Handle what has come. What takes long pauses this connection, so that one response does
        not hold up all others."""
        # of this thread's CPU: on a busy machine the wall clock would pause connections for what
        # others took
        began = time.thread_time()
        try:
            handle()
        except Exception as error:  # noqa: BLE001  (whatever a handler raises is its caller's)
            self._fail(error)
            return
        took = time.thread_time() - began
        if response.done():
            return
        pending = self._decoder is not None and self._decoder.pending
        if self._complete and not pending:
            response.set_result(None)
        elif (pending or took > _LONG_S) and self._transport is not None:
            self._transport.pause_reading()
            loop = asyncio.get_running_loop()
            self._paused = loop.call_later(_PAUSE * took, self._resume, response)

    def _resume(self, response: asyncio.Future[None]) -> None:
        self._paused = None
        if response.done() or self._transport is None:
            return  # and it is closing
        self._transport.resume_reading()
        decoder = self._decoder
        pending = decoder is not None and decoder.pending
        self._timed(response, decoder.resume if decoder and pending else lambda: None)

    def eof_received(self) -> None:
        """The server sends no more. That is the end of a body which has no other."""
        response = self._response
        if self._until_close and response is not None and not response.done():
            self._complete = True
            response.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing can be sent or received any more."""
        self._transport = None
        unanswered = self._used and not self._begun
        kind = UnansweredError if unanswered else ConnectionFailedError
        if self._on_body is not None:
            failure = TransportFailure(Fault.BROKEN)
        else:
            failure = CLOSED if exc is None else TransportFailure(Fault.BROKEN, error_name(exc))
        self._fail(kind(failure))
        self._on_lost(self)
        if not self.lost.done():
            self.lost.set_result(None)

    # Called by the parser

    def on_message_begin(self) -> None:
        """By the parser, as the three below."""
        if self._complete:
            # comes out of the parser as its own error, and so ends the connection: whatever follows
            # a whole response was asked for by nobody
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is passed over: what it says comes too late to be used."""
        if not self._head_complete:
            field, text = name.decode("latin-1").lower(), value.decode("latin-1")
            known = self._headers.get(field)
            # as RFC 9110, 5.3 joins lines of one name
            self._headers[field] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """The head is whole; one with a status below 200 announces another."""
        # 100 and 103 come in front of the answer (RFC 9110, 15.2); their headers are not the
        # answer's
        if self._parser.get_status_code() < 200:
            self._headers.clear()
        else:
            self._head_complete = True

    def on_message_complete(self) -> None:
        """The body is whole, if it was not that of an announcement."""
        if self._head_complete:
            self._complete = True
            # by version and `Connection`, and never where the body ends with the connection
            self._reusable = self._parser.should_keep_alive()

    # The response

    @property
    def _is_stale(self) -> bool:
        """Whether what comes first was on its way before the request was: a part of that is still
        here. On a fresh connection it is a response that could not wait."""
        transport = self._transport
        return self._used and transport is not None and transport.get_write_buffer_size() > 0

    def _received(self, nbytes: int) -> None:
        if not self._begun:
            self._begun = True
            if self._buffer[0] == _TLS_ALERT:
                raise ConnectionFailedError(TransportFailure(Fault.TLS, SPEAKS_TLS))
        is_http = self._parse(nbytes)
        # what was good before a fault counts: the reply may be whole by then
        if self._head_complete and self._on_body is None and self._on_response is not None:
            self._on_body = self._body_handler(self._on_response)
        parts = self._body_parts
        if parts and self._on_body is not None:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            self._bodiless = 0
            self._on_body(body)
        else:
            self._bodiless += nbytes
        if not is_http:
            self._reusable = False
        if not (self._complete or is_http) or self._bodiless > LARGEST_HEAD:
            raise ConnectionFailedError(TransportFailure(Fault.BROKEN))

    def _parse(self, nbytes: int) -> bool:
        """Whether it is HTTP."""
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (HttpParserError, HttpParserUpgrade):
            return False
        return True

    def _body_handler(self, on_response: OnResponse) -> OnBody:
        headers, status = self._headers, self._parser.get_status_code()
        chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        framed = chunked or "content-length" in headers or status in {204, 304}
        self._until_close = not framed
        on_body = on_response(status, headers)
        self._decoder = decoder_for(headers.get("content-encoding", ""), on_body)
        return on_body if self._decoder is None else self._decoder.feed

    def _fail(self, error: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
            self.abort()
