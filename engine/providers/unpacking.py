"""Bodies that come compressed although nobody asked for it, as the errors of what stands in front
of a server sometimes do."""

from __future__ import annotations

import zlib
from typing import Final

from engine.providers.attempts import Cause, Failure
from engine.providers.line import ConnectionFailedError, OnBody

UNPACKED_AT_ONCE: Final = 256 * 1024
"""Few bytes can hold very many, so the hearer may end it in between."""

_GZIP: Final = zlib.MAX_WBITS | 16


def unpacked(coding: str, hear: OnBody) -> OnBody:
    """What to give a body of this coding to, so that it is heard as it was meant. Raises
    `ConnectionFailedError`, now or then, for what cannot be read."""
    match coding.strip().lower():
        case "" | "identity":
            return hear
        case "gzip" | "x-gzip":
            return _Unpacking(hear, zlib.decompressobj(_GZIP)).feed
        case "deflate":
            return _Unpacking(hear, None).feed
        case _:
            raise ConnectionFailedError(Failure(Cause.BROKEN))


class _Unpacking:
    """One body."""

    def __init__(self, hear: OnBody, inflate: zlib._Decompress | None) -> None:
        self._hear = hear
        self._inflate = inflate

    def feed(self, packed: bytes) -> None:
        if self._inflate is None:
            # some write a header in front of it, and some do not
            headed = packed[0] & 0x0F == 8
            self._inflate = zlib.decompressobj(zlib.MAX_WBITS if headed else -zlib.MAX_WBITS)
        more = not self._inflate.eof
        while more:
            try:
                body = self._inflate.decompress(packed, UNPACKED_AT_ONCE)
            except zlib.error:
                raise ConnectionFailedError(Failure(Cause.BROKEN)) from None
            packed = self._inflate.unconsumed_tail
            more = len(body) == UNPACKED_AT_ONCE
            if body:
                self._hear(body)
