"""An HTTP/1.1 connection: sends one request at a time and passes each response to a handler as its
bytes arrive, decompressing it if the server compressed it unasked."""

from __future__ import annotations

import asyncio
import select
import time
import zlib
from collections.abc import Callable
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from engine.providers.failures import Cause, Failure
from engine.providers.http.transport import (
    CLOSED,
    SPEAKS_TLS,
    ConnectionFailedError,
    OnBody,
    OnResponse,
    error_name,
)

DECODED_AT_ONCE: Final = 64 * 1024
"""Bytes of output that are decompressed in one turn of the event loop, as a few compressed bytes
can expand to very many."""
_ANY_FORMAT: Final = zlib.MAX_WBITS | 32
_GZIP_MARK: Final = b"\x1f\x8b"
_CODINGS: Final = frozenset({"gzip", "x-gzip", "deflate"})
_NOT_DECODED: Final = Failure(Cause.NOT_HTTP, "its body cannot be decompressed")


class Decoder:
    """Decompresses one body, of gzip or of zlib's format, and passes it on."""

    def __init__(self, on_body: OnBody) -> None:
        self._on_body = on_body
        self._inflate = zlib.decompressobj(_ANY_FORMAT)
        self._received = b""
        """Bytes that are not decoded yet."""
        self.pending = False
        """Whether received bytes remain to be decoded: then call `resume` in a later turn."""

    def feed(self, compressed: bytes) -> None:
        """Decode the beginning of new bytes. Must not be called while anything is pending."""
        self._received += compressed
        self.resume()

    def resume(self) -> None:
        """Decode as much more as one turn allows. Raises `ConnectionFailedError` for bad data."""
        try:
            if self._inflate.eof and self._received.startswith(_GZIP_MARK):
                # a body of gzip may consist of several members; one in a turn, as all may be empty
                self._inflate = zlib.decompressobj(_ANY_FORMAT)
            body = self._inflate.decompress(self._received, DECODED_AT_ONCE)
        except zlib.error:
            raise ConnectionFailedError(_NOT_DECODED) from None
        over = self._inflate.eof
        self._received = self._inflate.unused_data if over else self._inflate.unconsumed_tail
        # with all room used, zlib may hold back output although all input was consumed
        more = self._received.startswith(_GZIP_MARK) if over else bool(self._received)
        self.pending = more or (not over and len(body) == DECODED_AT_ONCE)
        if body:
            self._on_body(body)


READ_AT_ONCE: Final = 64 * 1024
LARGEST_HEAD: Final = 64 * 1024
"""Bytes that may come without any of a body: in heads, or around and after the chunks of a body."""

_TLS_ALERT: Final = 0x15
"""The first byte of a TLS alert, as from a server that got no TLS. HTTP begins with a letter."""
_LONG_S: Final = 0.005
"""Seconds of handling, beyond which a piece is not part of a streamed reply."""
_PAUSE: Final = 4
"""Reading such a response pauses for this many times the time that handling took."""


class UnansweredError(ConnectionFailedError):
    """A reused connection ended before the first byte of the response."""


class HttpConnection(asyncio.BufferedProtocol):
    """A connection on one event loop. Data that comes when no response is due ends it."""

    def __init__(self, buffer: memoryview, on_lost: Callable[[HttpConnection], None]) -> None:
        self._buffer = buffer
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._body_parts: list[bytes] = []
        self.on_body = self._body_parts.append
        """Called by the parser."""
        self._parser = HttpResponseParser(self)
        # common faults of hand-written servers, dangerous only for programs that forward messages
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._response: asyncio.Future[None] | None = None
        """Done when the response is over; None while there is no request."""
        self._on_response: OnResponse | None = None
        self._on_body: OnBody | None = None
        """The handler of the body; None before the response begins."""
        self._headers: dict[str, str] = {}
        self._head_complete = False
        self._complete = False
        self._reusable = True
        """Whether it can carry another request after this one."""
        self._until_close = False
        """Whether the end of the connection is the end of the body."""
        self._begun = False
        """Whether anything of a response has come."""
        self._bodiless = 0
        """Bytes since the last part of a body."""
        self._used = False
        """Whether it has carried a request before."""
        self._decoder: Decoder | None = None
        self._paused: asyncio.Handle | None = None
        """Resumes reading."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is closed completely."""

    @property
    def available(self) -> bool:
        """Whether it can carry a request now."""
        transport = self._transport
        # asyncio reports a closed connection one turn later; `is_closing` knows at once
        open_ = transport is not None and not transport.is_closing()
        return open_ and self._reusable and self._response is None

    @property
    def nothing_unread(self) -> bool:
        """Whether nothing has come since the last response, not even the end of the connection.
        Either may be in the socket: servers close idle connections, some with a message first."""
        transport = self._transport
        if transport is None:
            return False
        # `select` refuses descriptors above 1,023, which a process with many connections has
        poll = select.poll()
        poll.register(transport.get_extra_info("socket"), select.POLLIN)
        return not poll.poll(0)

    async def request(self, request: bytes, on_response: OnResponse) -> None:
        """Send a request and wait until its response was handled.

        Raises `ConnectionFailedError`, and what the handler raises; `UnansweredError` if the
        request is worth a new connection. Afterwards this one is either `available` or closing.
        """
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
            # one write: with two segments, Nagle's algorithm would wait for a delayed
            # acknowledgement
            transport.write(request)
            await self._response
        finally:
            self._response = self._on_response = self._on_body = None
            self._used = True
            # after an early response, the unsent rest of this request would precede the next one
            if not self._reusable or self._paused or transport.get_write_buffer_size():
                self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop, like the next four."""
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the pool's buffer, which is handled before anything else is read into it."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the bytes that were read into the buffer."""
        response = self._response
        if response is None or response.done():
            # unsolicited, and must not be taken for the response to the next request
            self.abort()
        elif not self._begun and self._is_stale:
            self._fail(UnansweredError(CLOSED))
        else:
            self._handle_in_time(response, lambda: self._received(nbytes))

    def _handle_in_time(self, response: asyncio.Future[None], handle: Callable[[], None]) -> None:
        """Run `handle`, and pause this connection if that took long, so that one response does not
        hold up all others."""
        # CPU time of this thread: by the wall clock, a busy machine would pause connections for the
        # time of other processes
        began = time.thread_time()
        try:
            handle()
        except Exception as error:  # noqa: BLE001  (raised in the caller's request)
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
            return  # it is closing
        self._transport.resume_reading()
        decoder = self._decoder
        pending = decoder is not None and decoder.pending
        self._handle_in_time(response, decoder.resume if decoder and pending else lambda: None)

    def eof_received(self) -> None:
        """Handle the end of what the server sends, which ends a body that has no other end."""
        response = self._response
        if self._until_close and response is not None and not response.done():
            self._complete = True
            response.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request, and report that the connection is gone."""
        self._transport = None
        unanswered = self._used and not self._begun
        kind = UnansweredError if unanswered else ConnectionFailedError
        if self._on_body is not None:
            failure = Failure(Cause.BROKEN)
        else:
            failure = CLOSED if exc is None else Failure(Cause.BROKEN, error_name(exc))
        self._fail(kind(failure))
        self._on_lost(self)
        if not self.lost.done():
            self.lost.set_result(None)

    # Called by the parser

    def on_message_begin(self) -> None:
        """Called by the parser, like the next three."""
        if self._complete:
            # the parser turns it into its own error, which ends the connection: nothing may follow
            # a complete response
            raise ValueError("a second response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; trailers are ignored, as they come too late."""
        if not self._head_complete:
            field, text = name.decode("latin-1").lower(), value.decode("latin-1")
            known = self._headers.get(field)
            # joined as in RFC 9110, 5.3
            self._headers[field] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        status = self._parser.get_status_code()
        if status < 100:  # the parser takes 000, and no answer would follow
            raise ValueError("no status of HTTP")
        # 100 and 103 precede the answer (RFC 9110, 15.2); their headers are not the answer's
        if status < 200:
            self._headers.clear()
        else:
            self._head_complete = True

    def on_message_complete(self) -> None:
        """Note that the body is complete, unless it belongs to an interim response."""
        if self._head_complete:
            self._complete = True
            # by version and `Connection`; never if the body ends with the connection
            self._reusable = self._parser.should_keep_alive()

    # The response

    @property
    def _is_stale(self) -> bool:
        """Whether this response precedes the request, a part of which is not sent yet. On a new
        connection it is an early response instead."""
        transport = self._transport
        return self._used and transport is not None and transport.get_write_buffer_size() > 0

    def _received(self, nbytes: int) -> None:
        if not self._begun:
            self._begun = True
            if self._buffer[0] == _TLS_ALERT:
                raise ConnectionFailedError(Failure(Cause.TLS, SPEAKS_TLS))
        is_http = self._parse(nbytes)
        # data before a fault counts, as the reply may be complete by then
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
            raise ConnectionFailedError(Failure(Cause.NOT_HTTP))

    def _parse(self, nbytes: int) -> bool:
        """Feed the parser; return whether it is HTTP."""
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
        coding = headers.get("content-encoding", "").strip().lower()
        if coding in {"", "identity"}:
            return on_body
        if coding not in _CODINGS:
            raise ConnectionFailedError(_NOT_DECODED)
        self._decoder = Decoder(on_body)
        return self._decoder.feed

    def _fail(self, error: Exception) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(error)
            self.abort()
