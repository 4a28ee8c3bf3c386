"""Events come out whole, however the bytes come in."""

from __future__ import annotations

import pytest

from engine.providers.protocols import base
from engine.providers.protocols.base import (
    BrokenStreamError,
    EventDecoder,
    OversizedError,
)

STREAM = (
    ": a comment\n"
    'data: {"a": "größer 🌍"}\n\n'
    "event: ping\ndata: {}\n\n"
    "id: 7\nretry: 10\ndata: two\ndata:lines\n\n"
    "data: [DONE]\n\n"
)
EVENTS = ['{"a": "größer 🌍"}', "{}", "two\nlines", "[DONE]"]


def feed_all(decoder: EventDecoder, chunks: list[bytes]) -> None:
    for chunk in chunks:
        decoder.feed(chunk)


def decode(*chunks: bytes) -> list[str]:
    decoder = EventDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.close()


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_however_lines_end_and_chunks_are_cut(ends: str, size: int) -> None:
    raw = STREAM.replace("\n", ends).encode()
    assert decode(*(raw[n : n + size] for n in range(0, len(raw), size))) == EVENTS


def test_a_byte_order_mark_is_no_part_of_the_first_event() -> None:
    assert decode(b"\xef\xbb\xbfdata: x\n\n") == ["x"]


def test_comments_and_empty_lines_are_no_events() -> None:
    assert decode(b": ping\n\n\n\n: ping\n\nevent: ping\n\n") == []


def test_a_last_event_counts_without_its_empty_line_and_not_without_its_own_end() -> None:
    assert decode(b"data: a\n\ndata: b\n") == ["a", "b"]
    assert decode(b"data: a\n\ndata: b\r") == ["a", "b"]
    assert decode(b'data: a\n\ndata: {"half"') == ["a"]


def test_data_without_a_space_or_a_value_is_data() -> None:
    assert decode(b"data:x\n\ndata\ndata:y\n\n") == ["x", "\ny"]


def test_bytes_that_are_not_utf8_break_the_stream() -> None:
    with pytest.raises(BrokenStreamError, match="UTF-8"):
        decode(b"data: \xff\xfe\n\n")


@pytest.mark.parametrize(
    "chunks",
    [
        [b"data: " + b"x" * 2000 + b"\n\n"],
        [b"data: "] + [b"x" * 100] * 20,
        [b"data: x\n"] * 300,
        [b": " + b"x" * 2000],
    ],
    ids=["in one chunk", "without an end", "in many lines", "a comment"],
)
def test_an_event_beyond_its_cap_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(OversizedError, match="one event"):
        feed_all(EventDecoder(largest_event=1000), chunks)


def test_a_stream_beyond_its_cap_is_refused_however_small_its_events() -> None:
    with pytest.raises(OversizedError):
        feed_all(EventDecoder(largest_stream=1000), [b": ping\n\n"] * 1000)


@pytest.mark.parametrize("piece", [b"\n", b":\n\n", b"data: {}\n\n"])
def test_a_stream_of_next_to_nothing_is_refused(
    piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MOST_LINES", 10_000)
    with pytest.raises(OversizedError, match="more events"):
        feed_all(EventDecoder(), [piece * 1_000] * 11)
