"""Where no more files may be open, calls wait for one, and say so."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from engine.providers.accounts import Accounts
from engine.providers.failures import Cause
from engine.providers.http import pool
from engine.providers.http.connection import HttpConnection
from engine.providers.http.connector import Connector, failure_of
from engine.providers.http.transport import ConnectionFailedError
from engine.providers.real import RealModel
from tests.engine.providers.conftest import Bench, call
from tests.protocol_server.settings import Settings


@contextmanager
def none_left() -> Iterator[None]:
    """Everything that this process may have open is open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        first = os.open(os.devnull, os.O_RDONLY)
        os.close(first)
        resource.setrlimit(resource.RLIMIT_NOFILE, (first, hard))
        yield


def test_a_call_waits_while_none_is_left_and_says_so(bench: Bench) -> None:
    async def run(accounts: Accounts, model: RealModel) -> None:
        await accounts.account(model.endpoint.wire, model.endpoint.base_url, model.endpoint.key())
        with none_left():
            asked = asyncio.create_task(call(model))
            for _ in range(100):
                await asyncio.sleep(0)  # it has come as far as it can by then
            held = model.held()
            assert held is not None
            assert held.why.startswith("out of open files (the limit is ")
            assert "ulimit -n" in held.why
            assert (held.seconds, held.calls) == (None, 1)
        done = await asked
        assert done.reply is not None, done.error
        assert done.outcomes == ["answer"]
        assert model.held() is None

    bench.play(run)


def test_a_connection_that_failed_for_want_of_one_is_no_try(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may be left when a call looks, and be gone when it connects."""
    connect, failures = Connector.connect, [errno.EMFILE, errno.ENFILE] * 10

    async def failing(way: Connector, make: Callable[[], HttpConnection]) -> HttpConnection:
        if failures:
            raise ConnectionFailedError(failure_of(OSError(failures.pop(), "-")))
        return await connect(way, make)

    monkeypatch.setattr(Connector, "connect", failing)
    done = bench.call()
    assert done.reply is not None, done.error
    assert done.outcomes == ["answer"]
    assert failures == []


def test_a_name_that_nobody_can_look_up_for_want_of_one_is_not_unknown() -> None:
    unknown = socket.gaierror(socket.EAI_NONAME, "-")
    assert failure_of(unknown).cause is Cause.UNKNOWN_HOST
    with none_left():
        found = failure_of(unknown)
    assert found.cause is Cause.NO_FILES


def test_all_accounts_together_keep_below_the_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections that nobody uses make way for those that somebody needs."""
    monkeypatch.setattr(pool, "most_connections", lambda: 4)
    bench.server.settings = Settings(latency_ms=5)

    async def run(accounts: Accounts, _model: RealModel) -> None:
        models = [bench.open(accounts), bench.open(accounts, source="anthropic")]
        for model in (*models, *models):
            done = await asyncio.gather(*(call(model) for _ in range(20)))
            assert {one.outcomes == ["answer"] for one in done} == {True}

    bench.play(run)
    assert bench.server.counters.concurrent_max <= 4
