"""One provider that does its worst beside one that is sound: the sound one's rows are all done."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

import pytest

from engine.benchmark import Stage, State
from tests.engine.wire.workplace import Workplace, metric, scenario

_STREAM: Final = b"Content-Type: text/event-stream\r\n"
_GZIP: Final = _STREAM + b"Content-Encoding: gzip\r\n"
_FINISH: Final = b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'


def answer(body: bytes, headers: bytes = _STREAM, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


def usage(number: bytes) -> bytes:
    told = b'data: {"choices":[],"usage":{"prompt_tokens":%b,"completion_tokens":%b}}\n\n'
    return answer(_FINISH + told % (number, number) + b"data: [DONE]\n\n")


def error(body: bytes, status: int = 400) -> bytes:
    return answer(body, b"Content-Type: application/json\r\n", status)


FAILING: Final = {
    "a long word in an error": error(b'{"error":{"message":"' + b"a" * 60_000 + b'"}}'),
    "a long word in a stream": answer(b'data: {"error":{"message":"' + b"a" * 200_000 + b'"}}\n\n'),
    "a code of no digit": answer('data: {"error":{"code":"²"}}\n\n'.encode()),
    "a code of many digits": answer(b'data: {"error":{"code":"' + b"4" * 4301 + b'"}}\n\n'),
    "a message that is a list": error(b'{"error":{"message":[{"loc":5,"msg":[1]}]}}'),
    "titles without end": answer(b"<title" * 10_000, b"Content-Type: text/html\r\n", 502),
    "line feeds packed tight": answer(gzip.compress(b"\n" * (16 << 20)), _GZIP),
    "events packed tight": answer(gzip.compress(b"data: {}\n\n" * 800_000), _GZIP),
    "thoughts without end": answer(
        (b'data: {"choices":[{"delta":{"reasoning":"' + b"x" * 60_000 + b'"}}]}\n\n') * 80
    ),
    "nested without end": answer(b"data: " + b"[" * 100_000 + b"\n\n"),
}
ANSWERING: Final = {
    f"usage of {number[:8].decode()}": usage(number)
    for number in (b"4611686018427387904", b"9223372036854775808", b"9" * 4000, b"-1", b"NaN")
}


@contextmanager
def hostile(said: bytes) -> Iterator[str]:
    """Says this to whoever asks anything; its base URL."""
    server = socket.create_server(("127.0.0.1", 0), backlog=64)

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            while client.recv(1 << 20):
                client.sendall(said)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(server):
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("name", [*FAILING, *ANSWERING])
@pytest.mark.parametrize("place", ["openai"], indirect=True)
def test_one_provider_never_harms_the_other(place: Workplace, name: str) -> None:
    fails = name in FAILING
    with hostile(FAILING[name] if fails else ANSWERING[name]) as url:
        good = {"id": "good", **place.model("words-5")}
        bad = {"id": "bad", **place.model("words-6"), "base_url": url}
        place.configure([good, bad])
        place.define("side-by-side", "Whether one harms the other.", [metric(1, "It holds.")])
        place.stage("side-by-side", [scenario(1)])
        result = place.run("side-by-side")
    with place.reader() as reader:
        units = reader.units("side-by-side", Stage.SIMULATE)
        states = {key.rsplit("__", 1)[-1]: unit for key, unit in units.items()}
        assert states["good"].state is State.DONE
        assert states["bad"].state is (State.FAILED if fails else State.DONE)
        assert result.failed == fails
        if fails:
            assert states["bad"].reason
            assert "a bug" not in states["bad"].reason
        reader.usage("side-by-side", Stage.SIMULATE)
        reader.snapshot()
