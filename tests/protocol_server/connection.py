"""One client's connection: requests in, one answer after the other out."""

from __future__ import annotations

import asyncio

from tests.protocol_server.batches import Batches
from tests.protocol_server.channel import Channel
from tests.protocol_server.exchange import serve
from tests.protocol_server.parsing import RequestReader, UnreadableRequestError
from tests.protocol_server.request import Request
from tests.protocol_server.service import Service


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
        self._reader.feed(data)
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
        channel = Channel(self._transport)
        try:
            request = self._reader.next_request()
        except UnreadableRequestError as error:
            channel.respond(400, {"connection": "close"}, f"This is {error}.\n".encode())
            self._transport.close()
            return
        if request is not None:
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
