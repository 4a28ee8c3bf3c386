"""Each fault on order, as the official clients or the bytes themselves show it."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2
import pytest

from tests.approval import approve
from tests.late import anthropic, openai
from tests.protocol_server.faults import (
    Detail,
    Fault,
    When,
    always,
    first,
    middle,
    nth,
    rate,
    upto,
)
from tests.protocol_server.server import HOST, ProtocolServer
from tests.waiting import PATIENCE_S

HELLO: Any = [{"role": "user", "content": "hello there, server"}]
AUTHORIZED: Final = {"authorization": "Bearer test-key"}


def stream_openai(client: openai.OpenAI) -> tuple[str, str | None]:
    """What was said, and how it finished."""
    said, finish = "", None
    with client.chat.completions.create(model="echo", messages=HELLO, stream=True) as stream:
        for chunk in stream:
            said += chunk.choices[0].delta.content or ""
            finish = chunk.choices[0].finish_reason or finish
    return said, finish


def stream_anthropic(client: anthropic.Anthropic) -> tuple[str, str | None]:
    said, finish = "", None
    with client.messages.create(model="echo", max_tokens=9, messages=HELLO, stream=True) as stream:
        for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                said += event.delta.text
            if event.type == "message_delta":
                finish = event.delta.stop_reason
    return said, finish


def post(server: ProtocolServer, **more: Any) -> httpx2.Response:
    body = {"model": "echo", "messages": HELLO, **more}
    return httpx2.post(
        f"{server.openai_url}/chat/completions", json=body, headers=AUTHORIZED, verify=False
    )


@contextmanager
def asking(server: ProtocolServer, path: str, body: Mapping[str, Any]) -> Iterator[socket.socket]:
    """A bare connection on which a request was sent."""
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: here\r\nauthorization: Bearer k\r\n"
        f"anthropic-version: 2026-10-21\r\ncontent-length: {len(data)}\r\n\r\n"
    )
    with socket.create_connection((HOST, server.port), timeout=PATIENCE_S) as connection:
        connection.sendall(head.encode() + data)
        yield connection


def read_until(connection: socket.socket, wanted: bytes, times: int = 1) -> bytes:
    received = b""
    while received.count(wanted) < times:
        data = connection.recv(65536)
        assert data, f"the connection ended after {received!r}"
        received += data
    return received


STATUSES: Final = {
    Fault.BAD_REQUEST: ("BadRequestError", "BadRequestError", 400),
    Fault.UNAUTHORIZED: ("AuthenticationError", "AuthenticationError", 401),
    Fault.PAYMENT_REQUIRED: ("APIStatusError", "PaymentRequiredError", 402),
    Fault.FORBIDDEN: ("PermissionDeniedError", "PermissionDeniedError", 403),
    Fault.NOT_FOUND: ("NotFoundError", "NotFoundError", 404),
    Fault.REQUEST_TIMEOUT: ("APIStatusError", "RequestTimeoutError", 408),
    Fault.CONFLICT: ("ConflictError", "ConflictError", 409),
    Fault.TOO_LARGE: ("APIStatusError", "ContentTooLargeError", 413),
    Fault.UNPROCESSABLE: ("UnprocessableEntityError", "UnprocessableEntityError", 422),
    Fault.RATE_LIMITED: ("RateLimitError", "RateLimitError", 429),
    Fault.QUOTA_EXHAUSTED: ("RateLimitError", "RateLimitError", 429),
    Fault.SERVER_ERROR: ("InternalServerError", "InternalServerError", 500),
    Fault.UNAVAILABLE: ("InternalServerError", "ServiceUnavailableError", 503),
    Fault.OVERLOADED: ("InternalServerError", "OverloadedError", 529),
    Fault.REDIRECT: ("APIStatusError", "APIStatusError", 307),
}


@pytest.mark.parametrize("fault", [fault for fault in STATUSES if fault is not Fault.REDIRECT])
def test_an_error_status_becomes_the_clients_own_error(
    server: ProtocolServer,
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    fault: Fault,
) -> None:
    of_openai, of_anthropic, status = STATUSES[fault]
    server.plan(fault)
    with pytest.raises(getattr(openai, of_openai)) as caught:
        stream_openai(openai_client)
    assert caught.value.status_code == status
    assert caught.value.type
    with pytest.raises(getattr(anthropic, of_anthropic)) as caught_too:
        stream_anthropic(anthropic_client)
    assert caught_too.value.status_code == status
    assert caught_too.value.type
    assert server.counters.by_outcome == {fault.value: 2}
    assert server.counters.refusals == (2 if status == 429 else 0)


ENDINGS: Final[Mapping[Fault, Callable[[], tuple[Any, Any]]]] = {
    Fault.RESET: lambda: (openai.APIConnectionError, anthropic.APIConnectionError),
    Fault.RESET_MIDWAY: lambda: (openai.APIConnectionError, httpx2.ReadError),
    Fault.CUT_MIDWAY: lambda: (openai.APIConnectionError, httpx2.RemoteProtocolError),
    Fault.BAD_JSON: lambda: (json.JSONDecodeError, json.JSONDecodeError),
    Fault.BAD_UTF8: lambda: (UnicodeDecodeError, UnicodeDecodeError),
    Fault.ERROR_EVENT: lambda: (openai.APIError, anthropic.APIStatusError),
}


@pytest.mark.parametrize("fault", ENDINGS)
def test_a_stream_that_breaks_is_an_error_in_both_clients(
    server: ProtocolServer,
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    fault: Fault,
) -> None:
    server.plan(fault)
    of_openai, of_anthropic = ENDINGS[fault]()
    with pytest.raises(of_openai):
        stream_openai(openai_client)
    with pytest.raises(of_anthropic):
        stream_anthropic(anthropic_client)
    assert server.counters.by_outcome == {fault.value: 2}


def test_an_error_event_says_what_it_is(
    server: ProtocolServer, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    server.plan(Fault.ERROR_EVENT)
    with pytest.raises(anthropic.APIStatusError) as caught:
        stream_anthropic(anthropic_client)
    assert (caught.value.status_code, caught.value.type) == (200, "overloaded_error")
    with pytest.raises(openai.APIError) as caught_too:
        stream_openai(openai_client)
    assert caught_too.value.type == "overloaded"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault.NO_FINISH, "hello"),
        (Fault.HALF_EVENT, "hello"),
        (Fault.HTML, ""),
        (Fault.EMPTY_BODY, ""),
    ],
)
def test_the_clients_take_a_stream_without_a_finish_for_an_answer(
    server: ProtocolServer,
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    fault: Fault,
    said: str,
) -> None:
    server.plan(fault)
    assert stream_openai(openai_client) == (said, None)
    assert stream_anthropic(anthropic_client) == (said, None)


def test_json_instead_of_a_stream_is_a_whole_answer_of_the_other_kind(
    server: ProtocolServer,
) -> None:
    server.plan(Fault.JSON_BODY)
    response = post(server, stream=True)
    assert response.headers["content-type"] == "application/json"
    assert response.json()["choices"][0]["message"]["content"] == "hello there, server"


@pytest.mark.parametrize(
    "fault",
    [
        Fault.RESET_MIDWAY,
        Fault.CUT_MIDWAY,
        Fault.NO_FINISH,
        Fault.HALF_EVENT,
        Fault.BAD_JSON,
        Fault.BAD_UTF8,
        Fault.HTML,
        Fault.EMPTY_BODY,
        Fault.RESET,
    ],
)
def test_an_answer_that_is_not_streamed_breaks_too(server: ProtocolServer, fault: Fault) -> None:
    server.plan(fault)
    with pytest.raises((httpx2.TransportError, ValueError)):
        post(server).json()


def test_an_error_in_the_body_of_a_200(server: ProtocolServer) -> None:
    server.plan(Fault.ERROR_EVENT, detail=Detail(after=0))
    response = post(server)
    assert response.status_code == 200
    assert response.json()["error"]["type"] == "overloaded"


def test_what_was_said_before_a_reset_arrives(server: ProtocolServer) -> None:
    server.plan(Fault.RESET_MIDWAY, detail=Detail(after=2))
    body = {"model": "echo", "messages": HELLO, "stream": True}
    with asking(server, "/v1/chat/completions", body) as connection:
        received = read_until(connection, b'" there,"')
        assert b'" server"' not in received
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert server.counters.output_tokens == 2


@pytest.mark.parametrize("fault", [Fault.STALL, Fault.STALL_MIDWAY, Fault.STALL_WITH_PINGS])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_stall_lasts_until_the_client_goes_away(
    server: ProtocolServer, fault: Fault, path: str
) -> None:
    server.plan(fault, detail=Detail(every_ms=1))
    body = {"model": "echo", "messages": HELLO, "stream": True, "max_tokens": 9}
    with asking(server, path, body) as connection:
        server.wait_until(lambda seen: seen.concurrent == 1)
        if fault is not Fault.STALL:
            assert b" there" not in read_until(connection, b'"hello"')
        if fault is Fault.STALL_WITH_PINGS:
            sign = b"event: ping" if path == "/v1/messages" else b": still working"
            read_until(connection, sign, times=3)
    seen = server.wait_until(lambda seen: seen.concurrent == 0 and seen.connections == 0)
    assert seen.by_outcome == {fault.value: 1}


def test_a_stall_right_after_the_headers(server: ProtocolServer) -> None:
    server.plan(Fault.STALL_MIDWAY, detail=Detail(after=0))
    body = {"model": "echo", "messages": HELLO, "stream": True}
    with asking(server, "/v1/chat/completions", body) as connection:
        assert read_until(connection, b"\r\n\r\n").endswith(b"\r\n\r\n")


def test_a_stall_ends_when_the_server_closes() -> None:
    with ProtocolServer() as server:
        server.plan(Fault.STALL)
        with asking(server, "/v1/chat/completions", {"model": "echo", "messages": HELLO}) as asked:
            server.wait_until(lambda seen: seen.concurrent == 1)
            server.close()
            assert asked.recv(1) == b""


def test_a_drip_brings_the_whole_answer_byte_by_byte(
    server: ProtocolServer, openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic
) -> None:
    server.plan(Fault.DRIP, detail=Detail(every_ms=0))
    assert stream_openai(openai_client) == ("hello there, server", "stop")
    assert stream_anthropic(anthropic_client) == ("hello there, server", "end_turn")


@pytest.mark.parametrize(("fault", "events"), [(Fault.HUGE_REPLY, 512), (Fault.HUGE_EVENT, 1)])
def test_a_huge_reply_has_eight_megabytes(
    server: ProtocolServer, fault: Fault, events: int
) -> None:
    server.plan(fault)
    text = post(server, stream=True).text
    assert text.count("x" * 1024) == 8 * 1024
    assert text.count('{"content":') == events


def test_a_date_to_come_back_at_lies_as_far_ahead_as_ordered(server: ProtocolServer) -> None:
    server.plan(Fault.RATE_LIMITED_DATE, detail=Detail(retry_after="90"))
    then = parsedate_to_datetime(post(server).headers["retry-after"])
    assert 80 < (then - datetime.now(UTC)).total_seconds() <= 90


@pytest.mark.parametrize(
    ("fault", "header"),
    [
        (Fault.RATE_LIMITED, None),
        (Fault.RATE_LIMITED_SECONDS, "-3"),
        (Fault.RATE_LIMITED_LONG, "200"),
    ],
)
def test_a_rate_limit_says_when_to_come_back(
    server: ProtocolServer, fault: Fault, header: str | None
) -> None:
    server.plan(fault, detail=Detail(retry_after="-3"))
    assert post(server).headers.get("retry-after") == header


def test_an_exhausted_quota_is_told_from_a_rate_limit(server: ProtocolServer) -> None:
    server.plan(Fault.QUOTA_EXHAUSTED)
    assert post(server).json()["error"]["code"] == "insufficient_quota"


def test_a_redirect_leads_to_another_origin(server: ProtocolServer) -> None:
    server.plan(Fault.REDIRECT, when=first)
    server.plan(Fault.REDIRECT, detail=Detail(location="http://elsewhere.test/v1"))
    assert post(server).headers["location"].startswith(f"http://localhost:{server.port}/")
    response = post(server)
    assert (response.status_code, response.headers["location"]) == (
        307,
        "http://elsewhere.test/v1",
    )


def test_the_key_comes_back_in_three_disguises(server: ProtocolServer) -> None:
    server.plan(Fault.ECHOES_KEY)
    message = post(server).json()["error"]["message"]
    approve(message)


SCHEMA: Final = {
    "title": "judgement",
    "type": "object",
    "properties": {"present": {"type": "boolean"}},
    "required": ["present"],
    "additionalProperties": False,
}
WITH_SCHEMA: Final = {
    "type": "json_schema",
    "json_schema": {"name": "judgement", "strict": True, "schema": SCHEMA},
}


def content(response: httpx2.Response) -> str:
    return str(response.json()["choices"][0]["message"]["content"])


def test_answers_of_a_wrong_shape(server: ProtocolServer) -> None:
    for fault in (Fault.WRONG_SCHEMA, Fault.FENCED_JSON, Fault.PROSE):
        server.plan(fault, when=first)
    wrong, fenced, prose, right = (
        content(post(server, response_format=WITH_SCHEMA)) for _ in range(4)
    )
    assert "present" not in json.loads(wrong)
    assert fenced == f"```json\n{right}\n```"
    with pytest.raises(json.JSONDecodeError):
        json.loads(prose)
    assert "present" in json.loads(right)


def test_faults_of_the_shape_leave_other_requests_alone(server: ProtocolServer) -> None:
    for fault in (Fault.WRONG_SCHEMA, Fault.PROSE, Fault.REJECTS_JSON_SCHEMA):
        server.plan(fault)
    assert content(post(server)) == "hello there, server"


def test_the_ladder_of_structured_output_can_be_climbed_down(server: ProtocolServer) -> None:
    server.plan(Fault.REJECTS_JSON_SCHEMA)
    server.plan(Fault.REJECTS_JSON_OBJECT)
    said = [{"role": "user", "content": f"Answer in JSON like this: {json.dumps(SCHEMA)}"}]
    refused = post(server, response_format=WITH_SCHEMA, messages=said)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "response_format")
    refused = post(server, response_format={"type": "json_object"}, messages=said)
    assert refused.status_code == 400
    assert "present" in json.loads(content(post(server, model="evaluator", messages=said)))


@pytest.mark.parametrize(
    ("when", "hit"),
    [
        (first, [1]),
        (nth(3), [3]),
        (upto(2), [1, 2]),
        (always, [1, 2, 3, 4]),
    ],
)
def test_a_fault_strikes_when_it_was_ordered_to(
    server: ProtocolServer, when: When, hit: list[int]
) -> None:
    server.plan(Fault.SERVER_ERROR, when=when)
    statuses = [post(server).status_code for _ in range(4)]
    assert [number for number, status in enumerate(statuses, start=1) if status == 500] == hit


def test_a_rate_is_kept_and_the_same_in_every_run() -> None:
    hits = [number for number in range(1000) if rate(0.1, seed=7).hits(number)]
    assert 70 < len(hits) < 130
    assert hits[:3] == [51, 54, 58]


def test_the_middle_is_the_first_request_that_goes_on_with_a_conversation(
    server: ProtocolServer,
) -> None:
    server.plan(Fault.SERVER_ERROR, when=middle)
    going_on = [*HELLO, {"role": "assistant", "content": "hi"}, *HELLO]
    asked = (HELLO, going_on, going_on)
    assert [post(server, messages=said).status_code for said in asked] == [200, 500, 200]


def test_a_fault_is_meant_for_a_model_a_role_or_what_a_function_says(
    server: ProtocolServer,
) -> None:
    server.plan(Fault.SERVER_ERROR, match="words-3")
    server.plan(Fault.UNAVAILABLE, match="evaluator")
    server.plan(Fault.CONFLICT, match=lambda request: request.body.get("seed") == 9)
    asked: list[dict[str, Any]] = [
        {"model": "words-3"},
        {"model": "words-4"},
        {"response_format": WITH_SCHEMA},
        {"seed": 9},
    ]
    assert [post(server, **one).status_code for one in asked] == [500, 200, 503, 409]
