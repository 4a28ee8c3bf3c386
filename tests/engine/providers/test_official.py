"""What the provider's own client says of answers and connections, in our words."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from engine.providers.failures import Cause, Failure
from engine.providers.http.official import LONGEST_REFUSAL, OfficialTransport
from engine.providers.http.transport import Address, ConnectionFailedError
from tests.engine.providers.loopback import Answer, Ear, saying, serving, sized

BODY: Final = b'{"model":"m","input":"hello"}'
KEY: Final = "sk-own-0123456789"
AZURE: Final = "/openai?api-version=2025-04-01"
DEPLOYMENT = "/openai/deployments/own?api-version=2025-04-01"


async def heard(
    answer: Answer, path: str = "", body: bytes = BODY
) -> tuple[Ear, Failure | None, bytes]:
    """What came of a request, and its head."""

    async with serving(answer) as served:
        where = Address(f"http://127.0.0.1:{served.port}{path}", {}, key=KEY)
        ear, failure = await asked(where, body)
        return ear, failure, served.visits[0].head


async def asked(where: Address, body: bytes = BODY) -> tuple[Ear, Failure | None]:
    ear, transport = Ear(), OfficialTransport(where)
    try:
        await transport.post({"X-Own": "1"}, body, ear.answered)
    except ConnectionFailedError as error:
        return ear, error.failure
    finally:
        await transport.close()
    return ear, None


@pytest.mark.parametrize(
    ("path", "body", "target", "shown"),
    [
        ("/v1", BODY, "/v1/responses", f"authorization: bearer {KEY}"),
        (AZURE, BODY, "/openai/responses?api-version=2025-04-01", f"api-key: {KEY}"),
        (
            AZURE,
            b'{"model":"gpt","messages":[]}',
            "/openai/deployments/gpt/chat/completions?api-version=2025-04-01",
            f"api-key: {KEY}",
        ),
        (DEPLOYMENT, BODY, "/openai/responses?api-version=2025-04-01", f"api-key: {KEY}"),
        (
            DEPLOYMENT,
            b'{"model":"gpt","messages":[]}',
            "/openai/deployments/own/chat/completions?api-version=2025-04-01",
            f"api-key: {KEY}",
        ),
    ],
)
def test_it_goes_where_the_client_sends_it_and_the_environment_adds_nothing(
    monkeypatch: pytest.MonkeyPatch, path: str, body: bytes, target: str, shown: str
) -> None:
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "AZURE_OPENAI_AD_TOKEN", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "of-the-environment")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-More: of-the-environment")
    ear, failure, head = asyncio.run(heard(saying(sized(b"data: {}\n\n")), path, body))
    assert (ear.status, ear.body, failure) == (200, b"data: {}\n\n", None)
    said = head.decode().lower()
    assert said.startswith(f"post {target} http/1.1")
    assert shown in said
    assert "x-own: 1" in said
    assert "of-the-environment" not in said


@pytest.mark.parametrize(
    ("said", "status", "fault"),
    [
        (sized(b'{"error":{"message":"no"}}', status=b"429 X"), 429, None),
        (sized(b"", b"Location: http://elsewhere.example/\r\n", status=b"302 X"), 302, None),
        (b"", None, Cause.BROKEN),
        (b"hello\r\n\r\n", None, Cause.NOT_HTTP),
        (sized()[:-1], 200, Cause.BROKEN),
        (sized(b"words", b"Content-Encoding: gzip\r\n"), 200, Cause.NOT_HTTP),
    ],
)
def test_each_answer_is_a_response_or_a_failure_without_the_key(
    said: bytes, status: int | None, fault: Cause | None
) -> None:
    ear, failure, _ = asyncio.run(heard(saying(said, close=True)))
    assert (ear.status or None, failure and failure.cause) == (status, fault)
    assert KEY not in str(failure)


def test_a_refusal_without_an_end_is_cut_short() -> None:
    said = b"HTTP/1.1 500 X\r\n\r\n" + b"x" * (LONGEST_REFUSAL + 100_000)
    ear, failure, _ = asyncio.run(heard(saying(said)))
    assert (ear.status, len(ear.body), failure) == (500, LONGEST_REFUSAL, None)


def test_it_says_why_there_is_no_connection() -> None:
    _, failure = asyncio.run(asked(Address("http://127.0.0.1:9/v1", {}, key=KEY)))
    assert failure == Failure(Cause.NO_CONNECTION, "econnrefused")
