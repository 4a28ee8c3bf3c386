"""A server on this machine is sent no more calls at once than it writes replies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from time import sleep

import pytest

from engine.providers.accounts import Accounts
from engine.providers.endpoint import Endpoint
from engine.providers.model import Message, MessageRole
from engine.providers.real import real_model

HELLO = (Message(MessageRole.USER, "Hello"),)
CALLS = 8


class SlottedServer(ThreadingHTTPServer):
    says = "llama.cpp"
    at_once = 0
    most = 0
    asked = 0

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = Lock()


class _Handler(BaseHTTPRequestHandler):
    server: SlottedServer

    def version_string(self) -> str:
        return self.server.says

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.at_once += 1
            self.server.most = max(self.server.most, self.server.at_once)
        sleep(0.02)  # long enough for calls that do not wait to meet
        with self.server.lock:
            self.server.at_once -= 1
        self._answer({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    def do_GET(self) -> None:
        assert self.path == "/props"
        assert self.headers["Authorization"] == "Bearer sk-of-this-machine"
        self.server.asked += 1
        self._answer({"total_slots": 2})

    def _answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[SlottedServer]:
    with SlottedServer() as running:
        thread = Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def most_at_once(server: SlottedServer, slots: int | None) -> int:
    """Of many calls, after a first one."""

    async def run() -> None:
        accounts = Accounts()
        spec = Endpoint(
            model="m",
            source="llamacpp",
            base_url=f"http://127.0.0.1:{server.server_port}/v1",
            key=lambda: "sk-of-this-machine",
            slots=slots,
        )
        model = real_model(spec, accounts)
        try:
            await model.reply(HELLO)
            await asyncio.gather(*(model.reply(HELLO) for _ in range(CALLS)))
        finally:
            await accounts.close()

    asyncio.run(run())
    return server.most


def test_a_llama_server_is_asked_once_for_its_slots(server: SlottedServer) -> None:
    assert most_at_once(server, None) == 2
    assert server.asked == 1


@pytest.mark.parametrize("slots", [1, 3])
def test_slots_that_are_configured_are_kept_to_and_nothing_is_asked(
    server: SlottedServer, slots: int
) -> None:
    assert most_at_once(server, slots) == slots
    assert server.asked == 0


def test_another_server_is_not_asked(server: SlottedServer) -> None:
    server.says = "uvicorn"
    assert most_at_once(server, None) > 2
    assert server.asked == 0
