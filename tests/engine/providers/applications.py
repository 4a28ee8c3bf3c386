"""An application on this machine that answers as a test says, and keeps what it was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class AppAnswer:
    """One response."""

    body: str
    """A lone surrogate is sent as the byte that is no UTF-8."""
    kind: str = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0
    """Bytes that are announced beyond those that come."""


def json_answer(value: object, **more: Any) -> AppAnswer:
    return AppAnswer(json.dumps(value), **more)


def events(*said: object) -> AppAnswer:
    lines = (one if isinstance(one, str) else json.dumps(one) for one in said)
    return AppAnswer("".join(f"data: {line}\n\n" for line in lines), "text/event-stream")


Answering = Callable[[dict[str, Any]], AppAnswer]


@dataclass
class RunningApp:
    """Where it is, and what came to it."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def running_app(answering: Answering) -> Iterator[RunningApp]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            app.paths.append(f"{self.command} {self.path}")
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
            app.bodies.append(body)
            app.headers.append(dict(self.headers))
            answer = answering(body)
            self.send_response(answer.status)
            raw = answer.body.encode("utf-8", "surrogateescape")
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(raw) + answer.missing))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

        def do_GET(self) -> None:
            if "?" in self.path:
                self.do_POST()
            else:
                self.send_error(404)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        app = RunningApp(f"http://127.0.0.1:{server.server_port}/chat")
        thread = Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield app
        finally:
            server.shutdown()
            thread.join()
