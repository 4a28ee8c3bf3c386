"""Writes one answer onto a connection, at a pace, down to the ways in which a connection can
break."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from tests.protocol_server.settings import Settings

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


OnSpoken = Callable[[int], None]
"""Told how many pieces have gone out in all."""


@dataclass(frozen=True, slots=True)
class Pace:
    """When the pieces of one answer are due."""

    first: float
    """When the first is, by the loop's clock."""
    seconds_each: float | None
    """From one to the next; None sends them all with the first."""
    flush_each: bool

    @classmethod
    def from_now(cls, settings: Settings) -> Pace:
        per_second = settings.tokens_per_second
        return cls(
            asyncio.get_running_loop().time() + settings.latency_ms / 1000,
            None if per_second is None else 1 / per_second,
            settings.flush_each,
        )

    async def until_first(self) -> None:
        await self._until(self.first)

    async def until_last(self, pieces: int) -> None:
        await self._until(self.first + (self.seconds_each or 0.0) * max(0, pieces - 1))

    async def _until(self, deadline: float) -> None:
        left = deadline - asyncio.get_running_loop().time()
        if left > 0:
            await asyncio.sleep(left)


async def speak(channel: Channel, pieces: Sequence[bytes], pace: Pace, on_spoken: OnSpoken) -> None:
    """Send the pieces; the last of them may still be held by the channel afterwards."""
    await pace.until_first()
    if pace.seconds_each is not None and pieces:
        await _Speech(channel, pieces, pace.first, pace.seconds_each, on_spoken).spoken()
    elif pace.flush_each:
        for number, piece in enumerate(pieces, start=1):
            channel.send((piece,))
            channel.flush()
            on_spoken(number)
            await asyncio.sleep(0)
    else:
        channel.send(pieces)
        on_spoken(len(pieces))


class _Speech:
    """One answer being spoken by bare timers: a thousand at once need no task switches.

    A timer that comes late sends all pieces that are due by then in one write.
    """

    def __init__(
        self,
        channel: Channel,
        pieces: Sequence[bytes],
        start: float,
        seconds: float,
        on_spoken: OnSpoken,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._channel = channel
        self._pieces = pieces
        self._start = start
        self._seconds = seconds
        self._on_spoken = on_spoken
        self._sent = 0
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def spoken(self) -> None:
        self._tick()
        try:
            await self._done
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _tick(self) -> None:
        if self._done.done():
            return  # the client went away in this same turn of the loop
        passed = self._loop.time() - self._start
        # a timer may fire a hair before its time, and must not be set for the same piece again
        due = max(self._sent + 1, int(passed / self._seconds) + 1)
        self._channel.send(self._pieces[self._sent : due])
        self._sent = min(due, len(self._pieces))
        self._on_spoken(self._sent)
        if self._sent == len(self._pieces):
            self._done.set_result(None)
            return
        self._channel.flush()
        self._timer = self._loop.call_at(self._start + self._sent * self._seconds, self._tick)
