"""A connection that is used again answers what it was asked, or is given up for a fresh one."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress

import pytest

from engine.providers.http import pool
from engine.providers.http.pool import ConnectionPool
from engine.providers.http.transport import Address, ConnectionFailedError
from tests.approval import approve
from tests.engine.providers.loopback import HEAD, WORDS, Visit, heard, run, serving, sized
from tests.waiting import PATIENCE_S

STALE = sized(b"an answer to nothing")


def reset(visit: Visit) -> None:
    visit.reset()


def close(visit: Visit) -> None:
    visit.close()


@pytest.mark.parametrize("end", [reset, close])
async def test_what_ends_before_a_byte_of_an_answer_is_sent_again_on_a_fresh_one(
    end: Callable[[Visit], None],
) -> None:
    async def answer(visit: Visit) -> None:
        seen.append(visit)
        if visit.connection == 1 and len(seen) == 2:
            end(visit)
        else:
            await visit.say(sized())

    seen: list[Visit] = []
    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        for _ in range(3):
            assert (await heard(connections)).body == WORDS
        await connections.close()
    assert [visit.connection for visit in seen] == [1, 1, 2, 2]
    assert seen[1].body == seen[2].body


async def test_it_is_sent_again_once() -> None:
    async def answer(visit: Visit) -> None:
        if len(heads) == 0:
            await visit.say(sized())
        else:
            visit.close()
        heads.append(visit.head)

    heads: list[bytes] = []
    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        await heard(connections)
        with pytest.raises(ConnectionFailedError) as caught:
            await heard(connections)
        approve(caught.value.failure)
        await connections.close()
    assert len(heads) == 3


@pytest.mark.parametrize("beginning", [b"H", HEAD, b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_what_ends_after_a_byte_of_an_answer_is_not_sent_again(beginning: bytes) -> None:
    async def answer(visit: Visit) -> None:
        heads.append(visit.head)
        await visit.say(sized() if len(heads) == 1 else beginning)
        if len(heads) > 1:
            visit.close()

    heads: list[bytes] = []
    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        await heard(connections)
        with pytest.raises(ConnectionFailedError):
            await heard(connections)
        await connections.close()
    assert len(heads) == 2


async def test_an_idle_connection_of_another_event_loop_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer(visit: Visit) -> None:
        await visit.say(sized())

    async def may_send(address: Address) -> bool:
        return ConnectionPool(address).waits_for() is None

    monkeypatch.setattr(pool, "most_connections", lambda: 1)
    async with serving(answer) as served:
        connections = ConnectionPool(served.address())
        await heard(connections)
        assert not await asyncio.to_thread(asyncio.run, may_send(served.address()))
        await heard(connections)
        assert [visit.connection for visit in served.visits] == [1, 1]
        assert await may_send(served.address())  # here it makes way
        assert connections.open == 0
        await connections.close()


@pytest.mark.parametrize("unannounced", [b"", STALE, b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
def test_what_lies_unread_before_a_request_is_never_its_answer(unannounced: bytes) -> None:
    """The loop has not turned since it came, so that only a look at the socket can tell."""

    async def test() -> None:
        connections = ConnectionPool(Address(f"http://127.0.0.1:{port}/v1", {}))
        assert (await heard(connections)).body == WORDS
        [kept] = connections._open
        assert kept._transport is not None
        client: socket.socket = kept._transport.get_extra_info("socket")
        says_more.set()
        assert select.select([client], [], [], 10)[0]
        assert (await heard(connections)).body == WORDS
        assert kept not in connections._open
        await connections.close()

    says_more = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        thread = threading.Thread(target=serve_two, args=(server, says_more, unannounced))
        thread.start()
        run(test())
        thread.join(10)


def serve_two(server: socket.socket, says_more: threading.Event, unannounced: bytes) -> None:
    """The first connection is told more than it asked for, or closed; the second is sound."""
    for number in (1, 2):
        client, _ = server.accept()
        with client, suppress(ConnectionError):  # which the client has given up
            client.recv(65536)
            client.sendall(sized())
            if number == 1:
                says_more.wait(PATIENCE_S)
                if unannounced:
                    client.sendall(unannounced)
                    client.recv(1)
            else:
                client.recv(1)


async def test_bytes_that_come_while_the_request_still_goes_out_are_not_its_answer() -> None:
    async def answer(visit: Visit) -> None:
        heads.append(visit.connection)
        right = visit.connection == 2 or len(heads) == 1
        await visit.say(sized() if right else STALE)
        if len(heads) > 1:
            await visit.until_gone()

    heads: list[int] = []
    async with serving(answer, early=True) as served:
        connections = ConnectionPool(served.address())
        assert (await heard(connections)).body == WORDS
        large = bytes(64 * 1024 * 1024)
        assert (await heard(connections, large)).body == WORDS
        await connections.close()
    assert heads == [1, 1, 2]
