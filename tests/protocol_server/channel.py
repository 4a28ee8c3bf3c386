"""Writes one answer onto a connection, down to the ways in which a connection can break."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""Linger for no time at all: closing then sends RST instead of FIN."""

_PHRASES: Final[Mapping[int, str]] = {one.value: one.phrase for one in HTTPStatus}


class Channel:
    """One answer's way to the client."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held: list[bytes] = []
        self.on_end: Callable[[], None] = lambda: None
        """Called right before the last bytes go out: whoever has received them finds them
        counted."""
        self.bytes_out = 0
        self.reusable = False
        """Whether the connection is fit for another request: the answer ended as HTTP wants it."""

    @property
    def client_port(self) -> int:
        """Of the client's end of the connection; 0 where there is none."""
        peer: tuple[str, int] | None = self._transport.get_extra_info("peername")
        return peer[1] if peer else 0

    def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A whole answer at once."""
        self._held.append(_head(status, {**headers, "content-length": str(len(body))}) + body)
        self._finish()

    def begin(self, headers: Mapping[str, str]) -> None:
        """Status 200 and the headers of an answer whose length is not known yet."""
        self._held.append(_head(200, {**headers, "transfer-encoding": "chunked"}))

    def send(self, parts: Iterable[bytes]) -> None:
        self._held.extend([b"%x\r\n%b\r\n" % (len(part), part) for part in parts])

    def end(self) -> None:
        self._held.append(b"0\r\n\r\n")
        self._finish()

    def flush(self) -> None:
        self.write(self.taken())

    def taken(self) -> bytes:
        """What was held back so far, for someone who sends it in a way of their own."""
        data = b"".join(self._held)
        self._held.clear()
        return data

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        if data and not self._transport.is_closing():
            self.bytes_out += len(data)
            self._transport.write(data)

    def cut(self) -> None:
        """Close the connection as if all had been said."""
        self.flush()
        self.on_end()
        self._transport.close()

    def reset(self) -> None:
        """Break the connection; what was flushed before still arrives."""
        self.on_end()
        sock: socket.socket | None = self._transport.get_extra_info("socket")
        if sock is not None and not self._transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    def _finish(self) -> None:
        data = self.taken()
        self.reusable = True
        self.bytes_out += len(data)
        self.on_end()
        if not self._transport.is_closing():
            self._transport.write(data)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, 'Overloaded')}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
