"""The question to a proxy whether it opens a way to a host."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Final

from engine.providers.attempts import Cause, Failure
from engine.providers.connection import CLOSED, LARGEST_HEAD, reason
from engine.providers.line import ConnectionFailedError

_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([2-5]\d\d)[ \r]")


class Tunnel(asyncio.Protocol):
    """Hears whether there is a way. After a yes the connection is for whoever takes it over."""

    def __init__(self) -> None:
        self._head = b""
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def dig(
        self, transport: asyncio.WriteTransport, place: str, password: Mapping[str, str]
    ) -> None:
        """Raises `ConnectionFailedError`."""
        headers = {"Host": place, "User-Agent": "crosswind", **password}
        lines = [f"CONNECT {place} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        transport.write("\r\n".join([*lines, "", ""]).encode())
        match = _STATUS.match(await self._answer)
        if match is None:
            raise ConnectionFailedError(Failure(Cause.BROKEN))
        if match[1] != b"200":
            failure = Failure(Cause.PROXY, status=int(match[1]))
            raise ConnectionFailedError(failure)

    def data_received(self, data: bytes) -> None:
        self._head += data
        whole = b"\r\n\r\n" in self._head or len(self._head) > LARGEST_HEAD
        if whole and not self._answer.done():
            self._answer.set_result(self._head)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._answer.done():
            failure = CLOSED if exc is None else Failure(Cause.BROKEN, reason(exc))
            self._answer.set_exception(ConnectionFailedError(failure))
