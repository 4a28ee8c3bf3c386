"""One connection that speaks HTTP/1.1: requests go out, one after the other, and each answer is
heard at the moment in which its bytes come in."""

from __future__ import annotations

import asyncio
import errno
import select
import ssl
import time
import zlib
from collections.abc import Callable
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from engine.providers.attempts import SPEAKS_TLS, Cause, Failure
from engine.providers.http.base import ConnectionFailedError, OnAnswer, OnBody

UNPACKED_AT_ONCE: Final = 64 * 1024
"""Few bytes can hold very many: so many of them are heard in one turn of the event loop."""
MOST_MEMBERS: Final = 10_000
"""What comes out has its hearer's limit; this is for what never comes to anything."""

_GZIP: Final = zlib.MAX_WBITS | 16
_MEMBERS_AT_ONCE: Final = 16


def unpacked(coding: str, hear: OnBody) -> Unpacking | None:
    """What to give a body of this coding to, so that it is heard as it was meant; None where it
    need not be unpacked. Raises `ConnectionFailedError`, now or then, for what cannot be read."""
    match coding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return Unpacking(hear, gzip=True)
        case "deflate":
            return Unpacking(hear, gzip=False)
        case _:
            raise ConnectionFailedError(Failure(Cause.BROKEN))


class Unpacking:
    """One body."""

    def __init__(self, hear: OnBody, *, gzip: bool) -> None:
        self._hear = hear
        self._gzip = gzip
        self._inflate = zlib.decompressobj(_GZIP) if gzip else None
        self._held = b""
        """What has come and is not unpacked yet."""
        self._members = 1
        self.pending = False
        """Whether there is more to hear of what has come: call `go_on` then, in a later turn."""

    def feed(self, packed: bytes) -> None:
        """Hear the beginning of it. Nothing more may be fed while something is pending."""
        self._held += packed
        self.go_on()

    def go_on(self) -> None:
        """Hear as much more as one turn has time for."""
        room = UNPACKED_AT_ONCE
        for _ in range(_MEMBERS_AT_ONCE):
            inflate = self._begun()
            if inflate is None:
                return
            try:
                body = inflate.decompress(self._held, room)
            except zlib.error:
                raise ConnectionFailedError(Failure(Cause.BROKEN)) from None
            room -= len(body)
            self._held = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            self.pending = bool(self._held) or not room
            if body:
                self._hear(body)
            if not (self.pending and room):
                return

    def _begun(self) -> zlib._Decompress | None:
        """For what is held; None where nothing of it is to be heard."""
        if self._inflate is not None and self._inflate.eof:
            # a gzip file may be several, one behind the other, with zeros between them
            self._held = self._held.lstrip(b"\0") if self._gzip else b""
            self.pending = False
            if not self._held.startswith(b"\x1f"):
                self._held = b""
                return None
            self._members += 1
            if self._members > MOST_MEMBERS:
                raise ConnectionFailedError(Failure(Cause.BROKEN))
            self._inflate = zlib.decompressobj(_GZIP)
        if self._inflate is None:
            # some write a header in front of it, and some do not
            headed = self._held[0] & 0x0F == 8
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)
        return self._inflate


READ_AT_ONCE: Final = 64 * 1024
LARGEST_HEAD: Final = 64 * 1024
"""Bytes that may come without any of a body among them: of a head, or of heads in front of it, or
of what stands around and behind the pieces of a body."""

_TLS_ALERT: Final = 0x15
"""What TLS begins with that says that something else was expected. HTTP begins with a letter."""
LONG_S: Final = 0.005
"""What takes longer to hear than this is no reply that is being spoken."""
REST: Final = 4
"""So many times as long as it took the others get before more of such an answer is read."""

CLOSED: Final = Failure(Cause.BROKEN, "the server closed it")


class UnansweredError(ConnectionFailedError):
    """A connection that had carried another request ended before a byte of this one's answer."""


class Connection(asyncio.BufferedProtocol):
    """Belongs to one event loop. Whatever comes when no answer is due ends it."""

    def __init__(self, buffer: memoryview, on_lost: Callable[[Connection], None]) -> None:
        self._buffer = buffer
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        self._parser = HttpResponseParser(self)
        # what servers written by hand get wrong, and what is dangerous only to who passes it on
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._asked: asyncio.Future[None] | None = None
        """Done when the answer is over; none where nothing was asked."""
        self._on_answer: OnAnswer | None = None
        self._on_piece: OnBody | None = None
        """Hears the body; none before there is an answer."""
        self._headers: dict[str, str] = {}
        self._head_complete = False
        self._complete = False
        self._reusable = True
        """Whether it may carry another request after this one."""
        self._until_close = False
        """Whether nothing but the connection's end says where the body ends."""
        self._begun = False
        """Whether anything of an answer has come."""
        self._bodiless = 0
        """Bytes since the last of a body."""
        self._used = False
        """Whether it has carried a request before this one."""
        self._unpacking: Unpacking | None = None
        self._resting: asyncio.Handle | None = None
        """Goes on with what is not read meanwhile."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when nothing of it is left."""

    @property
    def fit(self) -> bool:
        """Whether it can carry a request now."""
        transport = self._transport
        open_ = transport is not None and not transport.is_closing()
        return open_ and self._reusable and self._asked is None

    @property
    def quiet(self) -> bool:
        """Whether nothing has come since the last answer, not even the connection's end. Both may
        lie there unread: servers close what has waited without a word, and some say why first."""
        transport = self._transport
        if transport is None:
            return False
        looking = select.poll()
        looking.register(transport.get_extra_info("socket"), select.POLLIN)
        return not looking.poll(0)

    async def ask(self, request: bytes, on_answer: OnAnswer) -> None:
        """Send it and have its answer heard. Raises `ConnectionFailedError`, and what the hearer
        raises; `UnansweredError` where the request is worth a fresh connection. Afterwards this
        one is either `fit` or closing."""
        transport = self._transport
        if transport is None or not self.fit:
            raise ConnectionFailedError(CLOSED)
        self._on_answer = on_answer
        self._headers = {}
        self._head_complete = self._complete = self._until_close = self._reusable = False
        self._bodiless = 0
        self._begun = False
        self._unpacking = None
        self._asked = asyncio.get_running_loop().create_future()
        try:
            transport.write(request)
            await self._asked
        finally:
            self._asked = self._on_answer = self._on_piece = None
            self._used = True
            # an answer that came before all was sent leaves the rest of it in the way
            if not self._reusable or self._resting or transport.get_write_buffer_size():
                self.abort()

    def abort(self) -> None:
        """End it, whatever it is in the middle of."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        asked = self._asked
        if asked is None or asked.done():
            # nobody asked for it, and it must not be taken for the answer to what is asked next
            self.abort()
            return
        if not self._begun and self._is_stale:
            self._fail(UnansweredError(CLOSED))
            return
        began = time.thread_time()
        try:
            self._hear(nbytes)
        except Exception as error:  # noqa: BLE001  (whatever a hearer raises is its caller's)
            self._fail(error)
        else:
            self._heard(asked, time.thread_time() - began)

    def _heard(self, asked: asyncio.Future[None], took: float) -> None:
        """It is over; or there is more, for which others may have to be let through first."""
        if asked.done():
            return
        pending = self._unpacking is not None and self._unpacking.pending
        if self._complete and not pending:
            asked.set_result(None)
        elif (pending or took > LONG_S) and self._transport is not None:
            self._transport.pause_reading()
            loop = asyncio.get_running_loop()
            self._resting = loop.call_later(REST * took, self._go_on, asked)

    def _go_on(self, asked: asyncio.Future[None]) -> None:
        self._resting = None
        if asked.done() or self._transport is None:
            return  # and it is closing
        began = time.thread_time()
        self._transport.resume_reading()
        try:
            if self._unpacking is not None and self._unpacking.pending:
                self._unpacking.go_on()
        except Exception as error:  # noqa: BLE001  (whatever a hearer raises is its caller's)
            self._fail(error)
        else:
            self._heard(asked, time.thread_time() - began)

    def eof_received(self) -> None:
        asked = self._asked
        if self._until_close and asked is not None and not asked.done():
            self._complete = True
            asked.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        unanswered = self._used and not self._begun
        kind = UnansweredError if unanswered else ConnectionFailedError
        self._fail(kind(self._end(exc)))
        self._on_lost(self)
        if not self.lost.done():
            self.lost.set_result(None)

    # Called by the parser

    def on_message_begin(self) -> None:
        if self._complete:
            raise ValueError("a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_complete:
            field, text = name.decode("latin-1").lower(), value.decode("latin-1")
            known = self._headers.get(field)
            self._headers[field] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._headers.clear()
        else:
            self._head_complete = True

    def on_message_complete(self) -> None:
        if self._head_complete:
            self._complete = True
            self._reusable = self._parser.should_keep_alive()

    # Hearing

    @property
    def _is_stale(self) -> bool:
        """Whether what comes first was on its way before the request was: a part of that is still
        here. On a fresh connection it is an answer that could not wait."""
        transport = self._transport
        return self._used and transport is not None and transport.get_write_buffer_size() > 0

    def _hear(self, nbytes: int) -> None:
        if not self._begun:
            self._begun = True
            if self._buffer[0] == _TLS_ALERT:
                raise ConnectionFailedError(Failure(Cause.TLS, SPEAKS_TLS))
        sound = self._parsed(nbytes)
        # what was good before a fault counts: the reply may be whole by then
        if self._head_complete and self._on_piece is None and self._on_answer is not None:
            self._on_piece = self._answered(self._on_answer)
        pieces = self._pieces
        if pieces and self._on_piece is not None:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            self._bodiless = 0
            self._on_piece(body)
        else:
            self._bodiless += nbytes
        if not sound:
            self._reusable = False
        if not (self._complete or sound) or self._bodiless > LARGEST_HEAD:
            raise ConnectionFailedError(Failure(Cause.BROKEN))

    def _parsed(self, nbytes: int) -> bool:
        """Whether it is HTTP."""
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except (HttpParserError, HttpParserUpgrade):
            return False
        return True

    def _answered(self, on_answer: OnAnswer) -> OnBody:
        headers, status = self._headers, self._parser.get_status_code()
        chunked = headers.get("transfer-encoding", "").lower().endswith("chunked")
        framed = chunked or "content-length" in headers or status in {204, 304}
        self._until_close = not framed
        hear = on_answer(status, headers)
        self._unpacking = unpacked(headers.get("content-encoding", ""), hear)
        return hear if self._unpacking is None else self._unpacking.feed

    def _fail(self, error: Exception) -> None:
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(error)
            self.abort()

    def _end(self, exc: Exception | None) -> Failure:
        if self._on_piece is not None:
            return Failure(Cause.BROKEN)
        return CLOSED if exc is None else Failure(Cause.BROKEN, reason(exc))


def reason(error: Exception) -> str:
    """The system's short name for it, where it has one. The numbers of TLS are its own."""
    if isinstance(error, ssl.SSLError):
        return str(getattr(error, "reason", None) or "tls").lower().replace("_", " ")
    number = error.errno if isinstance(error, OSError) else None
    return "" if number is None else errno.errorcode.get(number, "").lower()
