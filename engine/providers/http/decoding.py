"""Bodies that come compressed although nobody asked for it."""

from __future__ import annotations

import zlib
from typing import Final

from engine.providers.http.transport import ConnectionFailedError, Fault, OnBody, TransportFailure

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
            headed = self._received[0] & 0x0F == 8
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)
        return self._inflate
