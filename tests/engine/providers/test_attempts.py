"""Every way to fail has one class, and words that say what to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import pytest

from engine.providers.attempts import (
    LONGEST_MESSAGE,
    LONGEST_RETRY_AFTER_S,
    classify,
    concerns_account,
    describe,
    failure_in,
    retry_after_s,
    status_failure,
)
from engine.providers.failures import Cause, Failure, FailureKind
from tests.approval import approve

NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def test_every_cause_and_status_has_its_kind_and_what_comes_next() -> None:
    statuses = (*range(300, 309), *range(400, 432), 451, 499, *range(500, 508), 520, 524, 529)
    failures = [Failure(cause) for cause in Cause]
    failures += [Failure(Cause.STATUS, status=status) for status in statuses]
    kinds = [(describe(failure), classify(failure)) for failure in failures]
    lines = [f"{words}: {kind.name}, {kind.next.name}" for words, kind in kinds]
    approve("\n".join(lines))


@pytest.mark.parametrize(
    ("status", "headers"), [(407, {}), (403, {"x-squid-error": "ERR_ACCESS_DENIED 0"})]
)
def test_what_a_proxy_refuses_is_the_proxy_s_and_parks_nobody(
    status: int, headers: dict[str, str]
) -> None:
    failure = status_failure(status, headers, "<title>no</title>", now=NOW)
    for one in (failure, Failure(Cause.PROXY, status=status)):
        assert one.cause is Cause.PROXY
        assert classify(one) is FailureKind.FATAL_REQUEST
        assert "proxy" in describe(one)
        assert "key" not in describe(one)
    assert classify(Failure(Cause.PROXY, status=502)) is FailureKind.UNREACHABLE


def error(message: str = "", **more: object) -> dict[str, object]:
    return {"error": {**({"message": message} if message else {}), **more}}


MOVED: Final = "<html><title>Moved</title></html>"
REFUSALS: Final[Sequence[tuple[int | None, object, str]]] = (
    # a status, a body, and where it redirects to
    (429, error(code="insufficient_quota"), ""),
    (429, error(type="insufficient_quota"), ""),
    (429, error("Request too large for x on TPM"), ""),
    (429, error("You exceeded your quota", code=429), ""),
    (400, error("Your credit balance is too low"), ""),
    (400, error("You have reached your specified API usage limits."), ""),
    (400, error(code="context_length_exceeded"), ""),
    (400, error("prompt is too long: 9 > 8"), ""),
    (400, error("maximum context length is 8"), ""),
    (400, error(code="content_filter"), ""),
    (403, error("Input was flagged by moderation"), ""),
    (403, error("no access to this model"), ""),
    (401, error("This key has expired."), ""),
    (503, error(type="overloaded_error"), ""),
    (500, error(code="overloaded"), ""),
    (422, {"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}, ""),
    (502, "<html><title>Bad gateway</title></html>", ""),
    (404, "not here", ""),
    (500, [1, 2], ""),
    (500, None, ""),
    # about the whole model
    (400, error("No connected db.", type="no_db_connection", code="400"), ""),
    (400, [error("API key not valid.", code=400)], ""),
    (400, {"error": "Incorrect API key provided: xa***"}, ""),
    (400, error("/chat/completions: Invalid model name passed in model=nope."), ""),
    (400, {"message": "Invalid model: nope", "type": "invalid_model"}, ""),
    (400, error("nope is not a valid model ID", code=400), ""),
    (400, error("Model Not Exist"), ""),
    (400, {"detail": "Server is pinned to 'a'; requested 'b'."}, ""),
    (400, error(code="model_not_found"), ""),
    (400, "<title>400 The plain HTTP request was sent to HTTPS port</title>", ""),
    (400, "Client sent an HTTP request to an HTTPS server.", ""),
    # about one request
    (400, {"message": "This request cannot be read."}, ""),
    (400, {"message": "invalid model parameters"}, ""),
    (400, {"message": "the api key_size is 3"}, ""),
    # in a stream
    (None, error("Overloaded", type="overloaded_error"), ""),
    (None, error(type="rate_limit_error"), ""),
    (None, error(type="api_error"), ""),
    (None, error(type="invalid_request_error"), ""),
    (None, error(type="authentication_error"), ""),
    (None, error("upstream failed", code=502), ""),
    (None, error("slow down", code=429), ""),
    (None, {"error": "it broke"}, ""),
    (None, error(code="context_length_exceeded"), ""),
    (None, {"object": "error", "message": "bad", "code": 400}, ""),
    (None, {}, ""),
    # elsewhere, without what may be secret
    (301, MOVED, "https://me:pw@b.example:8443/v1/chat?token=t#f"),
    (307, MOVED, "/v2/chat/completions"),
    (308, MOVED, "http://["),
    (302, MOVED, ""),
)


def test_a_body_says_what_happened_beside_the_status() -> None:
    lines = []
    for status, body, where in REFUSALS:
        if status is None:
            failure = failure_in(body, Cause.IN_STREAM)
        else:
            failure = status_failure(status, {"location": where}, body, now=NOW)
        said = f"{status or 'in a stream'} {json.dumps(body)}" + f", {where}" * bool(where)
        lines += [said, f"  {classify(failure).name}: {describe(failure)}"]
    approve("\n".join(lines))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0.3 "}, 0.3),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "200"}, 200.0),
        ({"retry-after": "86400"}, 86400.0),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:09 GMT"}, 9.0),
        ({"retry-after": "Sun, 01 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 01 Nov 2099 12:00:00 GMT"}, LONGEST_RETRY_AFTER_S),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:09 -0000"}, 9.0),
        # our clock is an hour behind, an hour ahead; the server's says nothing
        (
            {
                "retry-after": "Sun, 01 Nov 2026 13:00:09 GMT",
                "date": "Sun, 01 Nov 2026 13:00:00 GMT",
            },
            9.0,
        ),
        (
            {
                "retry-after": "Sun, 01 Nov 2026 11:00:09 GMT",
                "date": "Sun, 01 Nov 2026 11:00:00 GMT",
            },
            9.0,
        ),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:09 GMT", "date": "today"}, 9.0),
        ({"retry-after-ms": "1500", "retry-after": "60"}, 1.5),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
        ({"llm_provider-retry-after": "6"}, 6.0),
        ({"llm_provider-retry-after-ms": "700", "llm_provider-retry-after": "6"}, 0.7),
        ({"retry-after": "2", "llm_provider-retry-after": "6"}, 2.0),
        ({"retry-after": "soon", "llm_provider-retry-after": "86400"}, 86400.0),
    ],
)
def test_the_wait_a_server_asks_for_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, now=NOW) == seconds


@pytest.mark.parametrize(
    ("status", "message", "all_of_it"),
    [
        (429, "Rate limit reached for gpt-x in organization org-1 on tokens per min", False),
        (429, "Number of input tokens has exceeded your per-minute rate limit", False),
        (429, "Rate limit exceeded for model_per_key: 1", False),
        (429, "Rate limit exceeded for api_key: 1. Limit type: requests.", True),
        (529, "Overloaded", True),
        (503, "", True),
        (502, "", False),
    ],
)
def test_a_wait_is_for_one_model_or_for_all_of_the_account(
    status: int, message: str, *, all_of_it: bool
) -> None:
    assert concerns_account(Failure(Cause.STATUS, message, status)) is all_of_it


def test_a_page_for_people_is_told_by_its_title() -> None:
    page = "<html><head><title> Sign in </title></head><body>…</body></html>"
    approve(describe(status_failure(502, {}, page, now=NOW)))
    untitled = describe(status_failure(502, {}, "<html><title> </title></html>", now=NOW))
    assert untitled.endswith(" (a web page)")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": "²", "message": "odd"}},
        {"error": {"code": "4" * 4301, "message": "odd"}},
        {"error": {"code": 10**4000, "message": "odd"}},
        {"error": {"code": ["400"], "message": "odd", "type": {}, "param": [1]}},
        {"error": {"message": ["odd", "even"]}},
        {"error": {"message": [{"loc": 5, "msg": "odd"}]}},
        {"detail": [{"loc": {"a": 1}, "msg": ["odd"]}, 3], "message": "odd"},
        {"error": [["odd"]], "message": "odd"},
        {"error": "odd", "code": "٤٠٠"},
    ],
)
def test_a_body_of_any_shape_is_read(body: object) -> None:
    failure = failure_in(body, Cause.IN_STREAM)
    assert failure.status is None
    assert "odd" in describe(failure)
    assert classify(failure) is FailureKind.TRANSIENT


def test_what_a_server_says_is_cut_before_anything_is_looked_up_in_it() -> None:
    endless = "x" * 1_000_000
    body = {"error": {"message": endless, "type": endless, "code": endless, "param": endless}}
    failure = failure_in(body, Cause.IN_STREAM)
    said = (failure.message, failure.type, failure.code, failure.param)
    assert {len(one) for one in said} == {LONGEST_MESSAGE}
    moved = status_failure(302, {"location": endless}, None, now=NOW)
    assert 0 < len(moved.message) <= LONGEST_MESSAGE


@pytest.mark.parametrize(
    "header",
    [
        *(
            "²",
            "1e999",
            "-1",
            "nan",
            "9" * 5000,
            "Mon, 99 Foo 20 1",
            "Mon, 01 Jan 0001 00:00:00 +2359",
        ),
        *(
            "Fri, 31 Dec 9999 23:59:59 -2359",
            "Mon, 01 Jan 99999 00:00:00 GMT",
            "," * 60_000,
            "\x00",
        ),
        *("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", "0x10", "1_0", "1" * 400 + ".5"),
    ],
)
@pytest.mark.parametrize("name", ["retry-after", "retry-after-ms"])
def test_any_header_asks_for_a_sane_wait_or_for_none(name: str, header: str) -> None:
    wait = retry_after_s({name: header}, now=NOW)
    assert wait is None or 0 <= wait <= LONGEST_RETRY_AFTER_S
