"""What a server can do at its worst, in both protocols, and servers that do it."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, Final

_STREAM: Final = b"Content-Type: text/event-stream\r\n"
_GZIP: Final = _STREAM + b"Content-Encoding: gzip\r\n"
_HUGE: Final = (
    b"4611686018427387904",
    b"9223372036854775808",
    b"9" * 4000,
    b"-1",
    b"NaN",
    b"1e999",
)


def answer(body: bytes, headers: bytes = _STREAM, status: int = 200) -> bytes:
    return b"HTTP/1.1 %d X\r\n%bContent-Length: %d\r\n\r\n%b" % (status, headers, len(body), body)


def _event(data: Mapping[str, Any] | bytes) -> bytes:
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return b"data: " + text + b"\n\n"


def _openai(words: str, *, thought: str = "", thoughts: int = 0, usage: bytes = b"1") -> bytes:
    told = b'{"choices":[],"usage":{"prompt_tokens":%b,"completion_tokens":%b,"cost":%b}}'
    return (
        _event({"choices": [{"delta": {"reasoning": thought}}]}) * thoughts
        + _event({"choices": [{"delta": {"content": words}, "finish_reason": "stop"}]})
        + _event(told % (usage, usage, usage))
        + _event(b"[DONE]")
    )


def _anthropic(words: str, *, thought: str = "", thoughts: int = 0, usage: bytes = b"1") -> bytes:
    begin = b'{"type":"message_start","message":{"usage":{"input_tokens":%b,"output_tokens":1}}}'
    end = (
        b'{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":%b}}'
    )
    said = {"type": "thinking_delta", "thinking": thought}
    spoken = {"type": "text_delta", "text": words}
    return (
        _event(begin % usage)
        + _event({"type": "content_block_delta", "index": 0, "delta": said}) * thoughts
        + _event({"type": "content_block_delta", "index": 1, "delta": spoken})
        + _event(end % usage)
        + _event({"type": "message_stop"})
    )


_REPLIES: Final = {"openai": _openai, "anthropic": _anthropic}


def _error(error: Any, status: int = 400, headers: bytes = b"") -> bytes:
    body = json.dumps({"type": "error", "error": error}).encode()
    return answer(body, b"Content-Type: application/json\r\n" + headers, status)


def _in_stream(error: Any) -> bytes:
    return answer(_event({"type": "error", "error": error}))


def failing(source: str) -> Mapping[str, bytes]:
    """What no row can come of, by what it is."""
    reply = _REPLIES[source]
    return {
        "long-word": _error({"message": "a" * 60_000}),
        "long-word-in-stream": _in_stream({"message": "a" * 200_000}),
        "code-no-digit": _in_stream({"code": "²", "type": "²"}),
        "code-4301-digits": _in_stream({"code": "4" * 4301}),
        "message-list": _error({"message": [{"loc": 5, "msg": [1]}]}),
        "error-list": _error([[["a"] * 100]]),
        "error-deep": answer(b"[" * 60_000, b"Content-Type: application/json\r\n", 400),
        "error-screen": _error({"message": "\x1b[2J\x1b]0;title\x07\u202e\x00 \ud800"}),
        "titles": answer(b"<title" * 10_000, b"Content-Type: text/html\r\n", 502),
        "line-feeds-packed": answer(gzip.compress(b"\n" * (16 << 20)), _GZIP),
        "events-packed": answer(gzip.compress(b"data: {}\n\n" * 800_000), _GZIP),
        "thoughts": answer(reply("x", thought="x" * 60_000, thoughts=80)),
        "nested": answer(b"data: " + b"[" * 100_000 + b"\n\n"),
        "no-utf-8": answer(reply("x").replace(b'"x"', b'"\xff\xfe"')),
        "no-gzip": answer(b"\x1f\x8b" + b"\xff" * 1000, _GZIP),
        "odd-types": answer(_event(b'{"choices":{"a":[]},"usage":[1],"type":["x"],"delta":5}')),
        "status-999": answer(b"?" * 60_000, b"", 999),
        "head-without-end": b"HTTP/1.1 200 X\r\n" + b"x-a: " + b"a" * 300_000,
        "heads-without-end": b"HTTP/1.1 100 Continue\r\n\r\n" * 8_000,
        "chunk-too-large": b"HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n" + b"f" * 100,
        "retry-after-digits": _error({}, 500, b"Retry-After: " + b"9" * 4000 + b"\r\n"),
    }


def answering(source: str) -> Mapping[str, bytes]:
    """What a row comes of all the same."""
    reply = _REPLIES[source]
    return {
        **{f"usage-{n}": answer(reply("x", usage=number)) for n, number in enumerate(_HUGE)},
        "screen": answer(reply("x \x1b[2J\x1b]0;title\x07\u202e\x00 \ud800")),
        "long-reply": answer(reply("`" * 200_000)),
        "long-id": answer(reply("x"), _STREAM + b"x-request-id: " + b"i" * 30_000 + b"\r\n"),
    }


@contextmanager
def hostile(said: Sequence[bytes]) -> Iterator[Sequence[str]]:
    """Each is said to whoever asks anything at its base URL; these."""
    server = socket.create_server(("127.0.0.1", 0), backlog=256)

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError, ValueError, IndexError):
            while head := _request(client):
                client.sendall(said[int(head.split(b"/")[1])])

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with closing(server):
        port = server.getsockname()[1]
        yield [f"http://127.0.0.1:{port}/{number}" for number in range(len(said))]
        server.shutdown(socket.SHUT_RDWR)


def _request(client: socket.socket) -> bytes:
    """The head of one; what follows it is read and passed over."""
    got = b""
    while b"\r\n\r\n" not in got:
        piece = client.recv(1 << 20)
        if not piece:
            return b""
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    told = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    left = int(told[0].split(b":")[1]) - len(body) if told else 0
    while left > 0 and (piece := client.recv(1 << 20)):
        left -= len(piece)
    return head
