"""Bytes of every kind come in over a real connection, and what is heard of them is right."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Mapping
from random import Random
from typing import Final

import pytest

from engine.providers.failures import Cause, Failure
from engine.providers.http.connection import (
    DECODED_AT_ONCE,
    LARGEST_HEAD,
    READ_AT_ONCE,
)
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import CLOSED, ConnectionFailedError, OnBody
from tests.engine.providers.answers import (
    ALL,
    BROKEN,
    CHUNKED,
    NOT_HTTP,
    NOT_WHOLE,
    RESET,
    SEGMENTATIONS,
    UNTIL_CLOSED,
    WHOLE,
    Outcome,
    outcomes,
    packed,
    stale_answers,
)
from tests.engine.providers.loopback import (
    HEAD,
    WORDS,
    Answer,
    Ear,
    Served,
    Visit,
    chunked,
    chunks,
    heard,
    run,
    saying,
    serving,
    sized,
)
from tests.waiting import PATIENCE_S


async def asked(answer: Answer, times: int = 1) -> tuple[Served, list[Ear | Failure]]:
    """Ask so often, one time after the other."""
    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        results: list[Ear | Failure] = []
        for _ in range(times):
            try:
                results.append(await heard(connections))
            except ConnectionFailedError as error:
                results.append(error.failure)
        await connections.close()
    return served, results


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("in_bytes", [False, True], ids=["at once", "byte by byte"])
def test_an_answer_is_heard_to_its_end_however_it_is_framed(name: str, in_bytes: bool) -> None:
    answer = WHOLE[name]
    close = name in UNTIL_CLOSED
    parts = [answer[n : n + 1] for n in range(len(answer))] if in_bytes else [answer]
    _, [ear] = asyncio.run(asked(saying(*parts, close=close)))
    assert isinstance(ear, Ear)
    assert (ear.status, ear.body) == (200, WORDS)


def test_headers_are_known_by_their_names_in_lower_case_and_put_together() -> None:
    headers = b"X-Request-ID: req_1\r\nX-Twice: a\r\nx-twice: b\r\n"
    early = b"HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n"
    _, [ear] = asyncio.run(asked(saying(early + sized(headers=headers))))
    assert isinstance(ear, Ear)
    assert ear.headers["x-request-id"] == "req_1"
    assert ear.headers["x-twice"] == "a, b"
    assert "x-early" not in ear.headers


@pytest.mark.parametrize("name", NOT_WHOLE)
def test_what_is_no_whole_answer_is_a_broken_connection(name: str) -> None:
    answer, failure = NOT_WHOLE[name]

    async def then_good(visit: Visit) -> None:
        first = visit.connection == 1
        await saying(answer if first else sized(), close=first)(visit)

    served, [broken, good] = asyncio.run(asked(then_good, times=2))
    assert broken == failure
    assert isinstance(good, Ear)
    assert good.body == WORDS
    assert served.connections == 2


@pytest.mark.parametrize(
    ("answer", "failure"),
    [(b"", RESET), (HEAD[:20], RESET), (CHUNKED + chunks(WORDS), BROKEN)],
    ids=["at once", "in the head", "in the body"],
)
async def test_a_reset_is_told_by_its_name_where_nothing_was_answered(
    answer: bytes, failure: Failure
) -> None:
    ear = Ear()

    async def then_reset(visit: Visit) -> None:
        await visit.say(answer)
        if answer.startswith(CHUNKED):
            await ear.begun.wait()  # what has not been read yet would be lost
        visit.reset()

    async with serving(then_reset) as served:
        connections = ConnectionPool(served.address())
        with pytest.raises(ConnectionFailedError) as caught:
            await connections.post({}, b"{}", ear.answered)
        await connections.close()
    assert caught.value.failure == failure


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "whole", [sized(), chunked(WORDS[:20], WORDS[20:])], ids=["content-length", "chunked"]
)
async def test_wherever_a_connection_ends_what_was_heard_is_a_beginning(whole: bytes) -> None:
    cuts = iter(range(len(whole)))

    async def cut(visit: Visit) -> None:
        await saying(whole[: next(cuts)], close=True)(visit)

    async with serving(cut) as served:
        connections = ConnectionPool(served.address())
        for _ in range(len(whole)):
            ear = Ear()
            with pytest.raises(ConnectionFailedError) as caught:
                await connections.post({}, b"{}", ear.answered)
            assert caught.value.failure == (CLOSED if ear.status is None else BROKEN)
            assert WORDS.startswith(ear.body)
        await connections.close()
    assert served.connections == len(whole)


@pytest.mark.exhaustive
def test_bytes_changed_at_random_are_an_answer_or_a_broken_connection() -> None:
    random = Random(7)
    good = [sized(), chunked(WORDS), packed(b"gzip", gzip.compress(WORDS)), HEAD + b"\r\n" + WORDS]

    def changed() -> bytes:
        answer = bytearray(random.choice(good))
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(answer))
            answer[place : place + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
        return bytes(answer)

    async def garbled(visit: Visit) -> None:
        await saying(changed(), close=True)(visit)

    _, results = asyncio.run(asked(garbled, times=400))
    failures = [result for result in results if isinstance(result, Failure)]
    assert {failure.cause for failure in failures} == {Cause.BROKEN, Cause.NOT_HTTP}
    assert 50 < len(failures) < 350


EARLY: Final = b"HTTP/1.1 102 Processing\r\nX: "
BEHIND: Final = CHUNKED + b"0\r\nX: "
ENDLESS: Final = {
    "headers": (EARLY, b"\r\nX-Header: %b" % (b"a" * 900)),
    "one header": (EARLY, b"a" * 900),
    "answers": (EARLY, b"\r\n\r\nHTTP/1.1 102 Processing\r\nX-More: 1"),
    "trailers": (BEHIND, b"\r\nX-Header: %b" % (b"a" * 900)),
    "one trailer": (BEHIND, b"a" * 900),
    "an extension of a chunk": (CHUNKED + b"5;name=", b"a" * 900),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_never_comes_to_a_body_is_given_up(name: str) -> None:
    begun, part = ENDLESS[name]

    async def test() -> None:
        said = 0

        async def endless(visit: Visit) -> None:
            nonlocal said
            await visit.say(begun)
            while True:
                await visit.say(part)
                said += len(part)

        async with serving(endless) as served:
            connections = ConnectionPool(served.address())
            with pytest.raises(ConnectionFailedError) as caught:
                await heard(connections)
            await connections.close()
        assert caught.value.failure == NOT_HTTP
        # and what was still on its way
        assert said < LARGEST_HEAD + READ_AT_ONCE + 8 * 1024 * 1024

    run(test())


async def test_what_stands_between_the_words_of_a_long_reply_may_add_up() -> None:
    """Such as the sizes of many small chunks, each read by itself."""
    ear = Ear()
    pieces = 4

    async def answer(visit: Visit) -> None:
        await visit.say(CHUNKED)
        for _ in range(pieces):
            await visit.say(b"1;name=%b" % (b"a" * (LARGEST_HEAD // 2)))
            for _ in range(10):
                await asyncio.sleep(0)  # so that it is read before the word is there
            ear.begun.clear()
            await visit.say(b"\r\nx\r\n")
            await ear.begun.wait()
        await visit.say(b"0\r\n\r\n")

    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        await connections.post({}, b"{}", ear.answered)
        await connections.close()
    assert ear.body == b"x" * pieces


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_few_bytes_that_hold_very_many_are_heard_bit_by_bit(coding: str) -> None:
    pack = gzip.compress if coding == "gzip" else zlib.compress
    bomb = packed(coding.encode(), pack(bytes(32 * 1024 * 1024)))
    async with serving(saying(bomb)) as served:
        connections = ConnectionPool(served.address())
        ear = Ear(error=OverflowError("enough"))
        with pytest.raises(OverflowError, match="enough"):
            await connections.post({}, b"{}", ear.answered)
        assert [len(piece) for piece in ear.pieces] == [DECODED_AT_ONCE]
        whole = await heard(connections)
        assert sum(len(piece) for piece in whole.pieces) == 32 * 1024 * 1024
        assert max(len(piece) for piece in whole.pieces) == DECODED_AT_ONCE
        await connections.close()


async def test_what_the_hearer_raises_reaches_its_caller_and_ends_the_connection() -> None:
    gone = asyncio.Event()

    async def speaking(visit: Visit) -> None:
        await visit.say(CHUNKED + chunks(WORDS))
        await visit.until_gone()
        gone.set()

    async with serving(speaking) as served:
        connections = ConnectionPool(served.address())
        ear = Ear(error=KeyError("a bug"))
        with pytest.raises(KeyError, match="a bug"):
            await connections.post({}, b"{}", ear.answered)
        await gone.wait()
        await connections.close()


async def test_no_task_is_woken_to_hear_a_piece() -> None:
    tasks: list[asyncio.Task[object] | None] = []

    def hear(piece: bytes) -> None:
        tasks.append(asyncio.current_task())

    async with serving(saying(sized())) as served:
        connections = ConnectionPool(served.address())
        await connections.post({}, b"{}", lambda status, headers: hear)
        await connections.close()
    assert tasks == [None]


async def test_an_answer_that_comes_before_the_request_is_sent_is_heard() -> None:
    """As of a server that refuses a request for its size. It reads no more, so the rest of the
    request is in the way of any other."""
    large = bytes(32 * 1024 * 1024)

    async def refuse(visit: Visit) -> None:
        await visit.say(sized(b"{}", status=b"413 Content Too Large"))
        await visit.until_gone()

    async with serving(refuse, early=True) as served:
        connections = ConnectionPool(served.address())
        for _ in range(2):
            assert (await heard(connections, large)).status == 413
        await connections.close()
        assert served.connections == 2


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_few_bytes_hold_is_heard_over_many_turns_of_the_loop(coding: str) -> None:
    """Others are let through in between, and nothing of it is lost or heard twice."""
    body = bytes(range(256)) * 40_000
    small = gzip.compress(body) if coding == "gzip" else zlib.compress(body)
    pieces: list[int] = []
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def test() -> None:
        async with serving(saying(packed(coding.encode(), small))) as served:
            connections = ConnectionPool(served.address())
            counting = asyncio.create_task(count_turns())
            for _ in range(2):
                got = bytearray()

                def hear(piece: bytes, got: bytearray = got) -> None:
                    pieces.append(turns)
                    got.extend(piece)

                def answered(
                    _status: int, _headers: Mapping[str, str], hear: OnBody = hear
                ) -> OnBody:
                    return hear

                await connections.post({}, b"{}", answered)
                assert bytes(got) == body
            counting.cancel()
            assert served.connections == 1
            await connections.close()

    run(test())
    assert len(pieces) == len(set(pieces)) == 2 * -(-len(body) // DECODED_AT_ONCE)


def test_members_that_hold_nothing_are_passed_over() -> None:
    members = gzip.compress(b"") * 50 + gzip.compress(WORDS) + gzip.compress(b"")
    _, [ear] = asyncio.run(asked(saying(packed(b"gzip", members))))
    assert isinstance(ear, Ear)
    assert ear.body == WORDS


@pytest.mark.exhaustive
def test_every_answer_is_read_to_its_end_or_refused_in_whatever_pieces_it_comes() -> None:
    found = asyncio.run(outcomes(ConnectionPool, PATIENCE_S))
    assert len(found) == len(ALL) * len(SEGMENTATIONS)
    assert {case: outcome for case, outcome in found.items() if outcome is not Outcome.RIGHT} == {}


@pytest.mark.parametrize("idle", [True, False], ids=["idle", "at once"])
def test_an_answer_to_nothing_is_never_taken_for_that_to_the_next_request(idle: bool) -> None:
    assert asyncio.run(stale_answers(ConnectionPool, 50, idle=idle)) == 0
