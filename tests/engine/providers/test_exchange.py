"""What is passed on of a reply while it is spoken, and what becomes of a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from engine.providers.attempts import LONGEST_REFUSAL
from engine.providers.exchange import (
    LONGEST_REPLY,
    CallResult,
    ReplyBuffer,
    exchange,
)
from engine.providers.failures import Cause, Failure
from engine.providers.http.transport import ConnectionFailedError, OnResponse
from engine.providers.protocols.base import OversizedError, ThoughtSplitter, split_unopened_thought
from engine.providers.protocols.openai import OpenAIReplyParser
from engine.providers.retry import RetryPolicy


def speak(*pieces: str) -> tuple[str, list[str | None]]:
    """The text in the end, and what a listener was told."""
    told: list[str | None] = []
    reply = ReplyBuffer(told.append, clock=lambda: 0.0)
    for piece in pieces:
        reply.add(piece)
    reply.ended()
    return "".join(reply.spoken), told


def test_pieces_are_passed_on_as_they_come() -> None:
    assert speak("Hel", "", "lo.") == ("Hello.", ["Hel", "lo."])


def test_thoughts_are_not_passed_on() -> None:
    assert speak("<thi", "nk>Hm.</th", "ink>\n", "Hello.") == ("Hello.", ["Hello."])


def test_thoughts_without_their_opening_mark_are_taken_back() -> None:
    assert speak("Hm.", "</think>", "Hello.") == (
        "Hello.",
        ["Hm.", "</think>", "Hello.", None, "Hello."],
    )


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["\ud83d\ude00"], "😀"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["a\ud83d"], "a\ufffd"),
        (["a\ude00b"], "a\ufffdb"),
        (["größer 🌍"], "größer 🌍"),
    ],
)
def test_half_a_character_waits_for_the_other(pieces: list[str], text: str) -> None:
    whole, told = speak(*pieces)
    assert whole == text
    assert "".join(piece for piece in told if piece) == text


def test_a_reply_has_a_largest_size() -> None:
    with pytest.raises(OversizedError):
        speak(*["x" * 65536] * (LONGEST_REPLY // 65536 + 1))


def test_thoughts_among_the_words_count_as_said() -> None:
    with pytest.raises(OversizedError):
        speak("<think>", *["x" * 65536] * (LONGEST_REPLY // 65536 + 1))


def test_thoughts_beside_the_words_have_a_largest_size() -> None:
    parser = OpenAIReplyParser()
    result = CallResult(parser, ReplyBuffer(None, clock=lambda: 0.0))
    parser.thoughts.extend(["x" * 65536] * (LONGEST_REPLY // 65536))
    result.count_thoughts()
    parser.thoughts.append("x")
    with pytest.raises(OversizedError):
        result.count_thoughts()


@dataclass
class Recorded:
    """A line on which one answer comes at once, piece by piece."""

    pieces: list[bytes]
    status: int = 200
    kind: str = "text/event-stream"
    end: Failure | None = None
    result: int = 0

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        hear = on_response(self.status, {"content-type": self.kind, "x-request-id": "req_1"})
        for piece in self.pieces:
            self.result += 1
            hear(piece)
        if self.end is not None:
            raise ConnectionFailedError(self.end)

    def waits_for(self) -> str | None:
        return None

    async def close(self) -> None: ...


def outcome(line: Recorded) -> CallResult:
    result = CallResult(OpenAIReplyParser(), ReplyBuffer(None, clock=lambda: 0.0))

    async def ask() -> None:
        await exchange(
            line,
            {},
            b"{}",
            result,
            retry_policy=RetryPolicy(),
            now=lambda: datetime(2026, 11, 1, tzinfo=UTC),
            accepted=lambda: None,
        )

    asyncio.run(ask())
    return result


def event(words: str, finish: str | None = None) -> bytes:
    choice = {"delta": {"content": words}, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"choices": [choice]}).encode()


WHOLE = event("Hello, ") + event("you.", "stop")
BARE = event("Hello, you.") + event("", "stop")


@pytest.mark.parametrize(
    "stream",
    [WHOLE, WHOLE + b"data: [DONE]\n\n", WHOLE[:-1], WHOLE.replace(b"\n", b"\r")],
    ids=["no farewell", "farewell", "no empty line at the end", "carriage returns"],
)
def test_a_reply_is_whole_however_its_stream_ends(stream: bytes) -> None:
    result = outcome(Recorded([stream[n : n + 7] for n in range(0, len(stream), 7)]))
    assert (result.text, result.failure, result.request_id) == ("Hello, you.", None, "req_1")


def test_once_a_reply_is_whole_it_does_not_matter_how_its_connection_ends() -> None:
    broken = Failure(Cause.BROKEN)
    assert outcome(Recorded([BARE], end=broken)).failure is None
    assert outcome(Recorded([BARE[:40]], end=broken)).failure == broken
    # beside text, a reason to end may stand in every piece
    assert outcome(Recorded([WHOLE], end=broken)).failure == broken
    usage = b'data: {"choices": [], "usage": {}}\n\n'
    assert outcome(Recorded([WHOLE + usage], end=broken)).failure is None


def test_nothing_that_comes_behind_the_farewell_is_heard() -> None:
    result = outcome(Recorded([WHOLE + b"data: [DONE]\n\n" + event("More."), b"data: {\n\n"]))
    assert (result.text, result.failure) == ("Hello, you.", None)


def test_a_refusal_is_not_listened_to_for_ever() -> None:
    line = Recorded([b"x" * 1024] * 1000, status=500, kind="text/plain")
    result = outcome(line)
    assert line.result == LONGEST_REFUSAL // 1024
    assert result.failure is not None
    assert (result.failure.cause, result.failure.status) == (Cause.STATUS, 500)


def split(text: str, size: int) -> tuple[str, str]:
    """What is said, and what is thought, where the text comes in pieces of this size."""
    splitter = ThoughtSplitter()
    said = "".join(splitter.feed(text[n : n + size]) for n in range(0, len(text), size))
    return said + splitter.close(), "".join(splitter.thoughts)


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("Hello.", "Hello.", ""),
        ("<think>Hm.</think>Hello.", "Hello.", "Hm."),
        ("\n<think>\nHm.\n</think>\n\nHello.\n", "Hello.\n", "\nHm.\n"),
        ("<think>a < b </thin k></think>x", "x", "a < b </thin k>"),
        ("<think>never ends", "", "never ends"),
        ("<think></think>Hello.", "Hello.", ""),
        ("<thinker> is a word", "<thinker> is a word", ""),
        ("<thin", "<thin", ""),
        ("  x", "  x", ""),
        ("Say <think>no</think>.", "Say <think>no</think>.", ""),
        ("<think>a</think>b<think>c</think>", "b<think>c</think>", "a"),
    ],
)
def test_only_thoughts_at_the_beginning_are_taken_out(
    text: str, said: str, thought: str, size: int
) -> None:
    assert split(text, size) == (said, thought)


def test_a_reply_whose_opening_mark_the_server_wrote_itself_is_cut_at_the_closing_one() -> None:
    assert split_unopened_thought("Let me see.</think>\nHello.") == ("Let me see.", "Hello.")
    assert split_unopened_thought("Hello.") is None
    assert split_unopened_thought("Say <think>no</think>.") is None
