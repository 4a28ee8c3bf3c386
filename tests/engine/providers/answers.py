"""What servers say, good and bad, in pieces of every size: the corpus that HTTP clients are
compared by."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Final

from engine.providers.failures import Cause, Failure
from engine.providers.http.transport import CLOSED, SPEAKS_TLS, Address, OnBody, Transport
from tests.engine.providers.loopback import HEAD, WORDS, Ear, Visit, chunked, chunks, serving, sized

BROKEN: Final = Failure(Cause.BROKEN)
NOT_HTTP: Final = Failure(Cause.NOT_HTTP)
NOT_DECODED: Final = Failure(Cause.NOT_HTTP, "its body cannot be decompressed")
RESET: Final = Failure(Cause.BROKEN, "econnreset")
CHUNKED: Final = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def packed(coding: bytes, body: bytes) -> bytes:
    return sized(body, b"Content-Encoding: %b\r\n" % coding)


WHOLE: Final = {
    "content-length": sized(),
    "chunked": chunked(WORDS),
    "chunk for chunk": chunked(*(WORDS[n : n + 1] for n in range(len(WORDS)))),
    "chunk extension": CHUNKED + b"%x;name=value\r\n%b\r\n0\r\n\r\n" % (len(WORDS), WORDS),
    "trailer": CHUNKED + chunks(WORDS) + b"0\r\nX-Trailer: 1\r\n\r\n",
    "100": b"HTTP/1.1 100 Continue\r\n\r\n" + sized(),
    "103": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + chunked(WORDS),
    "line feeds alone": sized().replace(b"\r\n", b"\n"),
    "empty line before it": b"\r\n" + sized(),
    "no reason": sized(status=b"200"),
    "header that is not ASCII": sized(headers=b"X-Name: \xe9\xff\r\n"),
    "many headers": sized(headers=b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(500))),
    "identity": packed(b"identity", WORDS),
    "gzip": packed(b"gzip", gzip.compress(WORDS)),
    "gzip of several members": packed(
        b"gzip", b"".join(gzip.compress(WORDS[n : n + 7]) for n in range(0, len(WORDS), 7))
    ),
    "gzip with zeros and something else behind": packed(
        b"gzip", gzip.compress(WORDS[:9]) + gzip.compress(WORDS[9:]) + bytes(600) + b"end"
    ),
    "gzip of empty members": packed(
        b"gzip", gzip.compress(b"") * 500 + gzip.compress(WORDS) + gzip.compress(b"") * 500
    ),
    "deflate": packed(b"deflate", zlib.compress(WORDS)),
    "until it closes": HEAD + b"\r\n" + WORDS,
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + WORDS,
}


UNTIL_CLOSED: Final = frozenset({"until it closes", "HTTP/1.0"})

NOT_WHOLE: Final = {
    "nothing": (b"", CLOSED),
    "half a first line": (b"HTTP/1.1 200 O", CLOSED),
    "half a head": (HEAD, CLOSED),
    "a head alone": (CHUNKED, BROKEN),
    "half of the chunks": (CHUNKED + chunks(WORDS), BROKEN),
    "a byte less than it said": (sized()[:-1], BROKEN),
    "a chunk without a size": (CHUNKED + b"no number\r\n", NOT_HTTP),
    "a chunk of any size": (CHUNKED + b"f" * 20 + b"\r\n", NOT_HTTP),
    "something else": (b"hello\r\n\r\n", NOT_HTTP),
    "TLS": (b"\x15\x03\x01\x00\x02\x02\x46", Failure(Cause.TLS, SPEAKS_TLS)),
    "HTTP/2": (b"HTTP/2 200\r\n\r\n", NOT_HTTP),
    "status 000": (b"HTTP/1.1 000 Fine\r\nContent-Length: 2\r\n\r\n{}", NOT_HTTP),
    "a header without a colon": (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", NOT_HTTP),
    "less than nothing": (HEAD + b"Content-Length: -5\r\n\r\n", NOT_HTTP),
    "two lengths": (HEAD + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde", NOT_HTTP),
    "two ends": (CHUNKED.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\nabc"), NOT_HTTP),
    "another protocol": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        NOT_HTTP,
    ),
    "no gzip": (packed(b"gzip", WORDS), NOT_DECODED),
    "an unknown coding": (packed(b"br", WORDS), NOT_DECODED),
}


def _coded() -> Mapping[str, tuple[bytes, bool]]:
    """Every framing with every coding behind every kind of beginning, and whether it ends with the
    connection."""
    codings = {
        "identity": WORDS,
        "gzip": gzip.compress(WORDS),
        "deflate": zlib.compress(WORDS),
    }
    before = {
        "": b"",
        "100 ": b"HTTP/1.1 100 Continue\r\n\r\n",
        "103 ": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
        "100 103 ": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
    }
    found: dict[str, tuple[bytes, bool]] = {}
    for coding, body in codings.items():
        head = HEAD + b"Content-Encoding: %b\r\n" % coding.encode()
        trunk = head + b"Transfer-Encoding: chunked\r\n\r\n"
        framings = {
            "sized": (head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body), False),
            "one chunk": (trunk + chunks(body) + b"0\r\n\r\n", False),
            "two chunks": (trunk + chunks(body[:9], body[9:]) + b"0\r\n\r\n", False),
            "trailer": (trunk + chunks(body) + b"0\r\nX-Trailer: 1\r\n\r\n", False),
            "sized, last": (
                head + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body),
                True,
            ),
            "until it closes": (head + b"\r\n" + body, True),
        }
        for framing, (answer, close) in framings.items():
            found |= {
                f"{early}{framing} {coding}": (said + answer, close)
                for early, said in before.items()
            }
    return found


GOOD: Final[Mapping[str, tuple[bytes, bool]]] = {
    **{name: (answer, name in UNTIL_CLOSED) for name, answer in WHOLE.items()},
    **_coded(),
}
"""Answers that all say `WORDS`, and whether the connection ends behind them."""
BAD: Final[Mapping[str, tuple[bytes, bool]]] = {
    name: (answer, True) for name, (answer, _) in NOT_WHOLE.items()
}
ALL: Final = {**GOOD, **BAD}


def _every(size: int) -> Callable[[bytes], list[bytes]]:
    return lambda said: [said[n : n + size] for n in range(0, len(said), size)]


def _at_random(said: bytes) -> list[bytes]:
    cuts = sorted(Random(len(said)).sample(range(len(said) + 1), min(6, len(said))))
    return [said[a:b] for a, b in zip([0, *cuts], [*cuts, len(said)], strict=True)]


def _behind_the_head(said: bytes) -> list[bytes]:
    head, gap, body = said.partition(b"\r\n\r\n")
    return [head + gap, body]


SEGMENTATIONS: Final[Mapping[str, Callable[[bytes], Sequence[bytes]]]] = {
    "at once": lambda said: [said],
    "byte by byte": _every(1),
    "seven bytes": _every(7),
    "behind the head": _behind_the_head,
    "at random": _at_random,
}


class Outcome(StrEnum):
    """What a client makes of an answer."""

    RIGHT = "right"
    """The body of a good one, or the refusal of a bad one."""
    REFUSED = "refused"
    """A good one is not taken."""
    ACCEPTED = "accepted"
    """A bad one is taken for a whole one."""
    WRONG = "wrong"
    """A whole answer with another body."""
    HANGS = "hangs"


LONGEST_S: Final = 4.0
"""Seconds; one of them comes in 26,000 pieces."""


async def outcomes(
    open_transport: Callable[[Address], Transport], longest_s: float = LONGEST_S
) -> Mapping[tuple[str, str], Outcome]:
    """By answer and segmentation, all asked for over one transport."""
    found = {}

    async def answer(visit: Visit) -> None:
        name, how = _header(visit.head).split("|")
        said, close = ALL[name]
        await visit.say(*(part for part in SEGMENTATIONS[how](said) if part))
        if close:
            visit.close()

    async with serving(answer) as served:
        transport = open_transport(served.address())
        for how in SEGMENTATIONS:
            for name in ALL:
                found[name, how] = await _outcome(transport, name, how, longest_s)
        await transport.close()
    return found


async def _outcome(transport: Transport, name: str, how: str, longest_s: float) -> Outcome:
    ear = Ear()
    try:
        async with asyncio.timeout(longest_s):
            await transport.post({"X-Case": f"{name}|{how}"}, b"{}", ear.answered)
    except TimeoutError:
        return Outcome.HANGS
    except Exception:  # noqa: BLE001  (each client has errors of its own)
        return Outcome.REFUSED if name in GOOD else Outcome.RIGHT
    if name in BAD:
        return Outcome.ACCEPTED
    return Outcome.RIGHT if ear.body == WORDS else Outcome.WRONG


def _header(head: bytes) -> str:
    lines = head.decode("latin-1").split("\r\n")
    return next(line[8:] for line in lines if line.lower().startswith("x-case: "))


STALE: Final = sized(b"an answer to nothing")


async def stale_answers(
    open_transport: Callable[[Address], Transport], times: int, *, idle: bool
) -> int:
    """How often an answer that nobody asked for is taken for that to the next request, which comes
    when it lies there (`idle`) or while it may be on its way."""
    wrong = 0
    said = asyncio.Event()

    async def answer(visit: Visit) -> None:
        all_said = said  # of this round
        if idle:
            await visit.say(sized())
            await asyncio.sleep(0.002)
            await visit.say(STALE)
        else:
            await visit.say(sized() + STALE)
        all_said.set()

    async with serving(answer) as served:
        for _ in range(times):
            transport = open_transport(served.address())
            said = asyncio.Event()
            ears = Ear(), Ear()
            for ear in ears:
                async with asyncio.timeout(LONGEST_S):
                    try:
                        await transport.post({}, b"{}", ear.answered)
                    except Exception:  # noqa: BLE001  (each client has errors of its own)
                        break
                if idle:
                    await said.wait()
                    await asyncio.sleep(0.001)
            wrong += ears[1].body not in {b"", WORDS}
            await transport.close()
    return wrong


def unheard(status: int, headers: Mapping[str, str]) -> OnBody:
    """A response handler that looks at nothing."""
    del status, headers
    return lambda body: None
