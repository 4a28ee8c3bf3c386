"""A key is in nothing that anybody can see, whatever goes wrong."""

from __future__ import annotations

import asyncio
import base64
import logging
import traceback
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote

import pytest

from engine.providers.retry import RetryPolicy
from tests.approval import approve
from tests.engine.providers.conftest import CANARY, Bench, Call, call
from tests.protocol_server.faults import Detail, Fault
from tests.protocol_server.settings import Settings

HEADER = "header-canary-9876543210"
BRIEF = RetryPolicy(tries=2, stalls=1, refused_s=0)
IMPATIENT = replace(BRIEF, first_token_s=0.2, between_s=0.2)
SPELLINGS = [
    spelled
    for secret in (CANARY, HEADER)
    for spelled in (
        secret,
        secret[:12],
        secret[-8:],
        quote(secret, safe=""),
        base64.b64encode(secret.encode()).decode()[4:24],
        secret.encode().hex(),
    )
]


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.DEBUG):
        yield caplog


def seen_of(done: Call) -> str:
    """All that is left of a call: its error as a log or a crash would print it, and its rows."""
    error = done.error
    lines = [repr(done.attempts), repr(done.reply), repr(error), str(error)]
    if error is not None:
        lines += traceback.format_exception(error)
        while error is not None:
            lines += [repr(error), repr(error.args), repr(vars(error))]
            error = error.__cause__ or error.__context__  # type: ignore[assignment]  # (any exception)
    return "\n".join(lines)


def assert_clean(text: str) -> None:
    assert [spelled for spelled in SPELLINGS if spelled in text] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_no_fault_shows_the_key(
    bench: Bench, fault: Fault, everything_logged: pytest.LogCaptureFixture
) -> None:
    bench.server.plan(fault, detail=Detail(every_ms=10))
    bench.retry_policy = IMPATIENT if fault.value.startswith(("stall", "drip")) else BRIEF
    bench.headers = {"x-own-key": HEADER}

    async def run() -> str:
        accounts = bench.accounts()
        model = bench.open(accounts)
        done = await call(model)
        account = accounts.at(model.endpoint.wire, model.endpoint.base_url)[0]
        shown = [seen_of(done), repr(model), repr(model.sender), repr(account), repr(accounts)]
        shown += [str(model.parked()), str(model.held()), str(vars(accounts))]
        await accounts.close()
        return "\n".join(shown)

    shown = asyncio.run(run(), debug=True)
    assert bench.server.requests[0].headers["authorization"] == f"Bearer {CANARY}"
    assert bench.server.requests[0].headers["x-own-key"] == HEADER
    assert_clean(shown)
    assert_clean("\n".join([*bench.notes, everything_logged.text]))


def test_a_wrong_key_is_told_in_the_server_s_own_words_without_the_key(bench: Bench) -> None:
    bench.server.settings = Settings(key="sk-another")
    done = bench.call()
    approve(str(done.error))


@pytest.mark.parametrize("bad", [f"{CANARY}\nX-Evil: 1", f"{CANARY}é", "\x00" + CANARY, ""])
def test_a_key_that_cannot_be_sent_fails_before_anything_is_sent(bench: Bench, bad: str) -> None:
    bench.key = bad
    done = bench.call()
    assert str(done.error).startswith("target x: the key ")
    assert not bench.server.requests
    assert_clean(seen_of(done))


def test_no_server_shows_the_key(bench: Bench) -> None:
    bench.server.refuse()
    done = bench.call()
    assert "no connection" in str(done.error)
    assert_clean(seen_of(done))
    bench.server.accept()


def test_a_redirect_carries_neither_key_nor_messages_elsewhere(bench: Bench) -> None:
    bench.server.plan(Fault.REDIRECT)
    bench.call()
    assert len(bench.server.requests) == 1
