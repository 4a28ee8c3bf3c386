"""A server that answers each model in another odd way that is known of some provider."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

STREAM: Final = "text/event-stream"
JSON: Final = "application/json"
REPLY: Final = "I still see a risk in it."


@dataclass(frozen=True)
class Odd:
    """An answer of such a server."""

    pieces: Iterable[str | float] = ()
    """What is written; a number is a pause in seconds."""
    status: int = 200
    kind: str = STREAM
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[dict[str, Any]], Odd]
"""Given the body of a request."""


def event(data: object) -> str:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


def chunk(text: str | None = None, finish: str | None = None, **delta: Any) -> str:
    said = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": {**said, **delta}, "finish_reason": finish}
    return event({"object": "chat.completion.chunk", "choices": [choice]})


STOP: Final = chunk(finish="stop") + event("[DONE]")


def says(text: str, *, finish: str = "stop") -> Odd:
    return Odd([chunk(text), chunk(finish=finish), event("[DONE]")])


def refuses(status: int, body: object, headers: Mapping[str, str] | None = None) -> Odd:
    return Odd([json.dumps(body)], status, JSON, headers or {})


def error(status: int, message: str, **more: Any) -> Odd:
    return refuses(status, {"error": {"message": message, **more}})


def streams(*events: str) -> Odd:
    return Odd(events)


def turn(body: Mapping[str, Any]) -> int:
    """The turn that is asked for, also where empty replies were left out."""
    said = [row["content"] for row in body["messages"] if row["role"] == "user"]
    return sum("\n\n".join(said).count(f"number {n} ") > 0 for n in range(1, 9)) or len(said)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answers: Mapping[str, Answer]

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name it has)
        pass

    def do_GET(self) -> None:
        self._write(refuses(404, {"error": "no"}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._write(self.answers[body["model"]](body))

    def _write(self, odd: Odd) -> None:
        self.send_response(odd.status)
        for name, value in {"Content-Type": odd.kind, **odd.headers}.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in odd.pieces:
            if isinstance(piece, float):
                time.sleep(piece)
            elif piece:
                raw = piece.encode()
                self.wfile.write(b"%x\r\n%b\r\n" % (len(raw), raw))
        self.wfile.write(b"0\r\n\r\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no fault here."""


@contextmanager
def odd_provider(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Serve a model for each name; yields the address."""
    handler = type("_Odd", (_Handler,), {"answers": answers})
    with _Server(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
