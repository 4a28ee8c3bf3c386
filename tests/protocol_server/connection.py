"""One client's connection: requests in, one answer after the other out."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Final
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from tests.protocol_server.batches import Batches
from tests.protocol_server.channel import Channel
from tests.protocol_server.exchange import serve
from tests.protocol_server.request import Request
from tests.protocol_server.service import Service


class RequestReader:
    """Takes bytes in and gives whole requests out, one after the other."""

    def __init__(self) -> None:
        self.requests: deque[Request] = deque()
        self._parser = HttpRequestParser(self)
        self.feed = self._parser.feed_data
        self._url = self._body = b""
        self._headers: dict[str, str] = {}

    def on_message_begin(self) -> None:
        self._url = self._body = b""
        self._headers = {}

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        where = urlsplit(self._url.decode("latin-1"))
        path = _azure_path(where.path, where.query) or where.path
        method = self._parser.get_method().decode()
        self.requests.append(Request(method, path, self._headers, self._body))


_AZURE: Final = re.compile(r"/openai(?:/deployments/([^/]+)(?=/chat/completions))?(/.+)")


def _azure_path(path: str, query: str) -> str | None:
    """Where a request of Azure's protocol with a version would go at OpenAI; None for any other."""
    found = _AZURE.fullmatch(path)
    if found is None or not query.startswith("api-version=20"):
        return None
    return None if found[2] == "/chat/completions" and not found[1] else f"/v1{found[2]}"


class Connections:
    """All that are open, and what went wrong on them that was no fault on order."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.batches = Batches()
        self.open: set[Connection] = set()
        self.bugs: list[BaseException] = []

    def connect(self) -> Connection:
        return Connection(self)

    def close_idle(self) -> None:
        for connection in list(self.open):
            connection.close_when_idle()

    async def abort(self) -> None:
        """Break all connections, and wait until nothing is left of them."""
        ended = [connection.ended for connection in self.open]
        for connection in list(self.open):
            connection.abort()
        await asyncio.gather(*ended)


class Connection(asyncio.Protocol):
    """A client that goes away cancels what is being done for it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._service = connections.service
        self._transport: asyncio.Transport | None = None
        self._reader = RequestReader()
        self._task: asyncio.Task[None] | None = None
        self._last = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is gone and nothing works for it any more."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.open.add(self)
        with self._service.counting() as tally:
            tally.connections += 1
            tally.connections_made += 1

    def data_received(self, data: bytes) -> None:
        with self._service.counting() as tally:
            tally.bytes_in += len(data)
        try:
            self._reader.feed(data)
        except (HttpParserError, HttpParserUpgrade):
            if self._transport is not None:
                channel = Channel(self._transport)
                channel.respond(400, {"connection": "close"}, b"This is no request.\n")
                self._transport.close()
            return
        self._go_on()

    def eof_received(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        with self._service.counting() as tally:
            tally.connections -= 1
        if self._task is None:
            self._leave()
        else:
            self._task.cancel()

    def close_when_idle(self) -> None:
        """Close now, or after the answer that is being given."""
        self._last = True
        if self._task is None and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _go_on(self) -> None:
        if self._task is not None or self._transport is None or self._transport.is_closing():
            return
        if self._reader.requests:
            request, channel = self._reader.requests.popleft(), Channel(self._transport)
            self._task = asyncio.ensure_future(self._serve(request, channel))
            self._task.add_done_callback(self._served)

    async def _serve(self, request: Request, channel: Channel) -> None:
        batches = self._connections.batches
        if batches.are_asked(request):
            await batches.serve(self._service, request, channel)
        else:
            await serve(self._service, request, channel)
        goes_on = channel.reusable and request.headers.get("connection", "").lower() != "close"
        self._last = self._last or not goes_on

    def _served(self, task: asyncio.Task[None]) -> None:
        self._task = None
        bug = None if task.cancelled() else task.exception()
        if bug is not None:
            self._connections.bugs.append(bug)
        if self._transport is None:
            self._leave()
        elif bug is not None or task.cancelled():
            self._transport.abort()
        elif self._last:
            self._transport.close()
        else:
            self._go_on()

    def _leave(self) -> None:
        self._connections.open.discard(self)
        self.ended.set_result(None)
