"""Bodies that come compressed although nobody asked for it, as the errors of what stands in front
of a server sometimes do."""

from __future__ import annotations

import zlib
from typing import Final

from engine.providers.attempts import Cause, Failure
from engine.providers.line import ConnectionFailedError, OnBody

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
