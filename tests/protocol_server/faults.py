"""Everything that the server can be told to do wrong, and to which requests it does it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from engine.identity import seed_from
from tests.protocol_server.request import Request


class Fault(StrEnum):
    """One way in which a call goes wrong."""

    BAD_REQUEST = "bad_request"
    """400. This and those that follow are an error status with the body that goes with it."""
    UNAUTHORIZED = "unauthorized"
    PAYMENT_REQUIRED = "payment_required"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    REQUEST_TIMEOUT = "request_timeout"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    UNPROCESSABLE = "unprocessable"
    SERVER_ERROR = "server_error"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"
    """529."""
    OVERLOADED_SECONDS = "overloaded_seconds"
    """529 with a Retry-After of `Detail.retry_after`."""
    RATE_LIMITED = "rate_limited"
    """429 without a word on when to come back."""
    RATE_LIMITED_SECONDS = "rate_limited_seconds"
    RATE_LIMITED_DATE = "rate_limited_date"
    """Retry-After is a date, `Detail.retry_after` seconds from now, which Date gives."""
    RATE_LIMITED_LONG = "rate_limited_long"
    """Retry-After is 200 s."""
    QUOTA_EXHAUSTED = "quota_exhausted"
    """The 429 that waiting does not help."""
    CONTEXT_FULL = "context_full"
    """400 in the OpenAI protocol, a way to end in the other."""
    ECHOES_KEY = "echoes_key"
    """400 with the key in its message: as it is, in base64 and URL-encoded."""
    SHOWS_REQUEST = "shows_request"
    """400 that shows the body of the request, but for what was said."""
    REJECTS_JSON_SCHEMA = "rejects_json_schema"
    """400 for structured output by schema; other requests are answered."""
    REJECTS_JSON_OBJECT = "rejects_json_object"
    BREAKS_ON_JSON_SCHEMA = "breaks_on_json_schema"
    """500 that names `response_format` and shows the request, for structured output by schema."""
    REJECTS_PARAMETER = "rejects_parameter"
    """400 that names `Detail.parameter`, where the request has it."""
    REDIRECT = "redirect"
    """307 to `Detail.location`, which is another origin."""

    RESET = "reset"
    """The connection is reset before any byte of an answer."""
    STALL = "stall"
    """Not one byte, headers included, until the client gives up."""
    HTML = "html"
    """200 with a page for people."""
    EMPTY_BODY = "empty_body"
    """200 with nothing."""
    JSON_BODY = "json_body"
    """200 with the whole answer as JSON, where a stream was asked for."""

    ERROR_EVENT = "error_event"
    """An error after `Detail.after` pieces of a stream that began with 200. Without a stream: an
    error as the body of a 200."""
    RESET_MIDWAY = "reset_midway"
    """The connection is reset after `Detail.after` pieces, as the next ones happen there."""
    CUT_MIDWAY = "cut_midway"
    """The connection is closed without the HTTP message having ended."""
    NO_FINISH = "no_finish"
    """A clean end, but no finish marker."""
    HALF_EVENT = "half_event"
    """Half an event, then a clean end."""
    BAD_JSON = "bad_json"
    """An event that is no JSON; the stream goes on to its proper end."""
    BAD_UTF8 = "bad_utf8"
    STALL_MIDWAY = "stall_midway"
    """Not one byte more until the client gives up. `Detail.after` 0: nothing but headers."""
    STALL_WITH_PINGS = "stall_with_pings"
    """Signs of life each `Detail.every_ms`, and nothing else, until the client gives up."""
    DRIP = "drip"
    """Byte by byte, one each `Detail.every_ms`."""
    HUGE_REPLY = "huge_reply"
    """8 MB of text in events of 16 KB."""
    HUGE_EVENT = "huge_event"
    """8 MB of text in one event."""

    EMPTY_TEXT = "empty_text"
    """A whole answer of no text, as the next ones are whole answers."""
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    LENGTH = "length"
    """Half the answer, cut off by the limit on tokens."""
    WRONG_SCHEMA = "wrong_schema"
    """Valid JSON of another shape, where a shape was asked for."""
    FENCED_JSON = "fenced_json"
    """The right JSON inside a Markdown fence, where a shape was asked for."""
    PROSE = "prose"
    """A sentence, where a shape was asked for."""
    PASSES_OVER_FORM = "passes_over_form"
    """The same, where a form was asked of the server; the right JSON, where words alone ask."""
    OTHER_MODEL = "other_model"
    """A whole answer that names `Detail.served` as the model that gave it, with `Detail.headers`,
    as of a gateway that falls back."""


SHAPE_FAULTS: Final = frozenset({Fault.WRONG_SCHEMA, Fault.FENCED_JSON, Fault.PROSE})


@dataclass(frozen=True, slots=True)
class Detail:
    """What a fault may be told more."""

    after: int = 1
    """How many pieces of the answer come first."""
    every_ms: float = 5.0
    retry_after: str = "1"
    """As it stands in the header, so that it may be nonsense; a number for a date."""
    parameter: str = "temperature"
    status: int | None = None
    """What an error event says as its code, as llama-server does; None is an overload."""
    location: str | None = None
    """Of a redirect; None for this server by another name."""
    served: str = "another-model"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class When:
    """To which of the requests that match a rule applies."""

    hits: Callable[[int], bool]
    """Given a request's number among those that match, from 1."""
    in_midst: bool = False
    """Only requests that go on with a conversation are counted at all."""


def nth(number: int) -> When:
    return When(lambda count: count == number)


def upto(number: int) -> When:
    """The first so and so many."""
    return When(lambda count: count <= number)


def rate(probability: float, seed: int = 0) -> When:
    """So often, scattered by the seed: the same numbers in every run."""
    return When(lambda count: seed_from(seed, count) < probability * 2**63)


first: Final = nth(1)
always: Final = When(lambda count: count > 0)
middle: Final = When(lambda count: count == 1, in_midst=True)
"""The first request that comes in the midst of a conversation."""

Match = Callable[[Request], bool] | str | None
"""A function, the name of a model or of a role, or None for every request to a model."""


@dataclass(slots=True)
class Rule:
    """One fault on order."""

    fault: Fault
    match: Match
    when: When
    detail: Detail
    _count: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def strikes(self, request: Request) -> bool:
        """Whether this request is to be hit; each request that matches must be asked about once."""
        if not (self._matches(request) and self._applies(request)):
            return False
        return self.when.hits(next(self._count))

    def _matches(self, request: Request) -> bool:
        if self.when.in_midst and not request.in_midst:
            return False
        if self.match is None:
            return True
        if isinstance(self.match, str):
            return self.match in {request.model, request.role.value}
        return self.match(request)

    def _applies(self, request: Request) -> bool:
        if self.fault is Fault.PASSES_OVER_FORM:
            return request.response_format is not None
        if self.fault in {Fault.REJECTS_JSON_SCHEMA, Fault.BREAKS_ON_JSON_SCHEMA}:
            return request.response_format == "json_schema"
        if self.fault is Fault.REJECTS_JSON_OBJECT:
            return request.response_format == "json_object"
        if self.fault is Fault.REJECTS_PARAMETER:
            return self.detail.parameter in request.body
        return self.fault not in SHAPE_FAULTS or request.schema is not None


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault that was decided on for one request."""

    fault: Fault
    detail: Detail


class Plan:
    """The rules in the order in which they were given; the first that strikes decides."""

    def __init__(self) -> None:
        self._rules: list[Rule] = []

    def add(self, rule: Rule) -> None:
        self._rules.append(rule)

    def clear(self) -> None:
        self._rules.clear()

    def strike(self, request: Request) -> Strike | None:
        for rule in self._rules:
            if rule.strikes(request):
                return Strike(rule.fault, rule.detail)
        return None
