"""Decodes server-sent events incrementally."""

from __future__ import annotations

from typing import Final

LARGEST_EVENT: Final = 1024 * 1024
LARGEST_STREAM: Final = 64 * 1024 * 1024
"""Bytes after decompression. A token takes about 300; the text has a limit of its own."""
MOST_LINES: Final = 1_500_000
"""Two or three for each event, most of which are one token: enough for half a million tokens."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class BrokenStreamError(Exception):
    """The data violates the protocol."""


class OversizedError(Exception):
    """There is more data than any model sends."""


class EventDecoder:
    """Returns the data of each complete event. Names, ids and comments are ignored, as the data
    says what it is."""

    __slots__ = ("_data", "_event_size", "_held", "_largest_event", "_lines", "_room", "_tail")

    def __init__(
        self, *, largest_event: int = LARGEST_EVENT, largest_stream: int = LARGEST_STREAM
    ) -> None:
        self._largest_event = largest_event
        self._room = largest_stream
        self._lines = MOST_LINES
        self._tail: list[bytes] = []
        self._held = False
        """Whether the last byte was a carriage return that a line feed may follow."""
        self._data: list[bytes] = []
        self._event_size = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Return the events that a chunk completes. Raises `BrokenStreamError` for data that is not
        UTF-8, and `OversizedError` beyond a limit."""
        self._room -= len(chunk)
        self._event_size += len(chunk)
        if self._room < 0:
            raise OversizedError("the reply is larger than any model's")
        if self._held:
            chunk, self._held = b"\r" + chunk, False
        if b"\r" in chunk:
            # CR, LF and CRLF all end a line: whether this is a CRLF shows with the next chunk
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
            # kept in pieces: joining at each chunk would copy an event once per chunk
            self._tail.append(tail)
        events = self._events(lines)
        self._check_size()
        return events

    def close(self) -> list[str]:
        """Return the last event if its lines are complete but the final empty line is missing."""
        last = [b"".join(self._tail)] if self._held else []
        return self._events([*last, b""])

    def _events(self, lines: list[bytes]) -> list[str]:
        events: list[str] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data: "):  # the usual case
                data.append(line[6:])
                continue
            # some servers begin a stream with a BOM, which would hide the first field
            field = line.removeprefix(_BYTE_ORDER_MARK)
            if field.startswith(b"data:"):
                # one blank after the colon belongs to the syntax, others to the data
                data.append(field[6:] if field[5:6] == b" " else field[5:])
            elif not field:
                if len(data) == 1 and data[0]:  # the usual case
                    events.append(self._text(data[0]))
                else:
                    # an event without data is none, as the standard says
                    events += [self._text(part) for part in _separate(data) if part]
                data.clear()
                self._event_size = 0
            elif field == b"data":
                data.append(b"")
            elif field.startswith(b"error:"):
                # llama.cpp's name for the data of an error
                data.append(field[6:].strip())
        return events

    def _text(self, data: bytes) -> str:
        self._event_size = max(self._event_size, len(data))
        self._check_size()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise BrokenStreamError("the stream holds bytes that are not UTF-8") from None

    def _check_size(self) -> None:
        if self._event_size > self._largest_event:
            raise OversizedError("one event of the stream is larger than any model's")


def _separate(lines: list[bytes]) -> list[bytes]:
    """Return the data of the events in these lines: one, unless the empty lines between several are
    missing, as each line is then an object of its own."""
    whole = (line.startswith(b"{") and line.endswith(b"}") for line in lines if line != b"[DONE]")
    return list(lines) if all(whole) else [b"\n".join(lines)]
