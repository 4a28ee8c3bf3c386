"""Server-sent events out of bytes, as they trickle in."""

from __future__ import annotations

from typing import Final

LARGEST_EVENT: Final = 1024 * 1024
LARGEST_STREAM: Final = 64 * 1024 * 1024
"""Of bytes, unpacked where they came packed. A token takes some 300; the text has its own cap."""
MOST_LINES: Final = 1_500_000
"""Two or three for each event, of which most tokens are one: half a million of them at least."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class BrokenStreamError(Exception):
    """What came is not what the protocol says."""


class OversizedError(Exception):
    """More came than any model says."""


class EventDecoder:
    """Gives the data of each event that is complete. Names, ids and comments are passed over: both
    protocols say in the data what it is."""

    __slots__ = ("_data", "_event_size", "_held", "_largest_event", "_lines", "_room", "_tail")

    def __init__(
        self, *, largest_event: int = LARGEST_EVENT, largest_stream: int = LARGEST_STREAM
    ) -> None:
        self._largest_event = largest_event
        self._room = largest_stream
        self._lines = MOST_LINES
        self._tail: list[bytes] = []
        self._held = False
        """Whether the last byte was a carriage return whose line feed may still come."""
        self._data: list[bytes] = []
        self._event_size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Raises `BrokenStreamError` for what is not UTF-8, `OversizedError` beyond a cap."""
        self._room -= len(chunk)
        self._event_size += len(chunk)
        if self._room < 0:
            raise OversizedError("the reply is larger than any model's")
        if self._held:
            chunk, self._held = b"\r" + chunk, False
        if b"\r" in chunk:
            # CR, LF and CRLF all end a line (the standard's grammar): whether this one is a CRLF
            # shows with the next chunk
            if chunk.endswith(b"\r"):
                chunk, self._held = chunk[:-1], True
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, tail = chunk.split(b"\n")
        self._lines -= len(lines)
        if self._lines < 0:
            raise OversizedError("the reply has more events than any model's")
        if lines and self._tail:
            lines[0] = b"".join([*self._tail, lines[0]])
            self._tail.clear()
        if tail:
            # kept in pieces: to add each to one string would copy an event as often as it has
            # chunks
            self._tail.append(tail)
        events = self._events(lines)
        self._check_size()
        return events

    def close(self) -> list[str]:
        """The last event, where its lines are whole but the empty one behind it never came."""
        last = [b"".join(self._tail)] if self._held else []
        return self._events([*last, b""])

    def _events(self, lines: list[bytes]) -> list[str]:
        events = []
        data = self._data
        for line in lines:
            if line.startswith(b"data: "):  # as nearly all do that are not empty
                data.append(line[6:])
                continue
            # some servers begin a stream with one, which would hide the first field
            field = line.removeprefix(_BYTE_ORDER_MARK)
            if field.startswith(b"data:"):
                # one blank behind the colon belongs to the syntax, further ones to the data
                data.append(field[6:] if field[5:6] == b" " else field[5:])
            elif not field:
                if data:
                    events.append(self._text())
                    data.clear()
                self._event_size = 0
            elif field == b"data":
                data.append(b"")
        return events

    def _text(self) -> str:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._event_size = max(self._event_size, len(data))
        self._check_size()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise BrokenStreamError("the stream holds bytes that are not UTF-8") from None

    def _check_size(self) -> None:
        if self._event_size > self._largest_event:
            raise OversizedError("one event of the stream is larger than any model's")
