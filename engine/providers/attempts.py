"""Classifies a failed request by what to do about it, and describes it. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlsplit

from engine.providers.http.transport import SPEAKS_TLS, Fault, TransportFailure

# a server decides how long its headers are, and a message quotes this one
_LONGEST_LOCATION: Final = 500
LONGEST_RETRY_AFTER_S: Final = 300.0
"""Seconds. A longer wait that a server asks for is cut to this, as it may be a mistake."""
LONGEST_MESSAGE: Final = 8192
"""Characters of a server's error message that are kept before it is searched. More than the
redactor searches, so that no key is cut in two here."""
# a date has 29 characters; what is longer is none, and is not parsed to find that out
_LONGEST_DATE: Final = 100


class Cause(StrEnum):
    """How a request failed, if neither the status nor the connection says it (`Fault`)."""

    STATUS = "status"
    """The server answered with a status other than success."""
    IN_STREAM = "in_stream"
    """The server began to answer, and then reported an error."""
    UNFINISHED = "unfinished"
    """The stream ended without marking the reply as complete."""
    NO_STREAM = "no_stream"
    """A success that is not a stream: a page, a document, nothing."""
    STALLED = "stalled"
    OVERSIZED = "oversized"
    EMPTY = "empty"
    """A complete reply without any text."""
    LIMIT = "limit"
    """The server has no room for a reply as long as the request allows."""
    NO_JSON = "no_json"
    """A complete reply in prose, although the server was asked to enforce a schema."""
    OTHER_MODEL = "other_model"
    """A model other than the one that was asked answered, which the configuration refuses."""
    AGENT_LOST = "agent_lost"
    """The worker process that made the request is gone, which is not the model's fault."""
    AGENT_UNFIT = "agent_unfit"
    """The worker process lacks a variable that the request needs, and has sent nothing."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a reply, as the server or the connection describes it."""

    cause: Cause | Fault
    message: str = ""
    """Must be redacted before it is shown."""
    status: int | None = None
    type: str = ""
    code: str = ""
    param: str = ""
    retry_after_s: float | None = None

    @property
    def words(self) -> frozenset[str]:
        return frozenset({self.type.lower(), self.code.lower()} - {""})


def transport_failure(failure: TransportFailure) -> Failure:
    """Convert a connection's failure to that of a request."""
    return Failure(failure.fault, failure.message, failure.status)


class FailureKind(StrEnum):
    """What to do about a failure."""

    RATE_LIMITED = "rate_limited"
    """Send less, and later. Does not count as a try, as the request is not to blame."""
    OVERLOADED = "overloaded"
    """The server has too many requests, no matter whose."""
    TRANSIENT = "transient"
    UNREACHABLE = "unreachable"
    """There was no connection, so nothing was sent."""
    STALLED = "stalled"
    FATAL_TARGET = "fatal_target"
    """No request to this model can succeed until a person does something."""
    FATAL_REQUEST = "fatal_request"
    CONTEXT_FULL = "context_full"
    """The conversation no longer fits: this ends it, and is not an error."""
    FILTERED = "filtered"
    """The provider did not pass the request to the model, which counts as an answer."""
    EMPTY = "empty"
    NO_JSON = "no_json"
    """The server ignored the requested schema: ask for JSON in another way."""
    OTHER_MODEL = "other_model"
    """Another model answered, and would again if asked at once."""
    AGENT_LOST = "agent_lost"
    """Made again by another worker, without counting as a try."""

    @property
    def outcome(self) -> str:
        """The outcome under which the attempt is stored."""
        match self:
            case FailureKind.OVERLOADED:
                return "rate_limited"
            case FailureKind.UNREACHABLE:
                return "transient"
            case FailureKind.CONTEXT_FULL | FailureKind.FILTERED:
                return "answer"
            case _:
                return self.value


_OUT_OF_MONEY: Final = frozenset(
    {"insufficient_quota", "billing_error", "billing_hard_limit_reached", "billing_not_active"}
    | {"credit_balance_exhausted", "organization_usage_limit_exceeded"}
    | {"organization_spend_limit_exceeded", "project_spend_limit_exceeded"}
)
_RATE: Final = frozenset({"rate_limit_error", "rate_limit_exceeded", "429"})
# 529 is Anthropic's own status for it; gateways pass it on as a code
_OVERLOAD: Final = frozenset({"overloaded_error", "overloaded", "529", "engine_overloaded"})
_KEY: Final = frozenset(
    {"authentication_error", "invalid_api_key", "permission_error", "401", "402", "403"}
)
_NO_SUCH: Final = frozenset({"not_found_error", "model_not_found", "404"})
_BAD_REQUEST: Final = frozenset({"invalid_request_error", "400", "413", "422", "request_too_large"})
_CONTEXT_WORDS: Final = frozenset({"context_length_exceeded", "context_window_exceeded"})
_CONTEXT: Final = re.compile(
    r"context[ _-](length|window|size)|(prompt|input) is too long|too many (input )?tokens"
    r"|maximum number of tokens|reduce the length|exceeds? the .{0,30}context",
    re.IGNORECASE,
)
_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_STATUS_CODE: Final = re.compile(r"[345][0-9]{2}")
_TAG: Final = re.compile(r"<[^<>]{0,200}>")
_FILTER: Final = frozenset(
    {"content_filter", "content_policy_violation", "responsibleaipolicyviolation"}
)
_MODERATED: Final = re.compile(r"moderat|flagged|content (policy|filter)", re.IGNORECASE)
_TOO_LARGE_EVER: Final = re.compile(r"request too large", re.IGNORECASE)
_WRONG_KEY_CODES: Final = frozenset({"no_db_connection", "invalid_api_key", "api_key_invalid"})
_WRONG_KEY: Final = re.compile(
    # without a database, a LiteLLM gateway knows a single key, and answers this to any other
    r"no connected db\b|(?:invalid|incorrect|wrong) api[ _-]?key|api[ _-]?key (?:is )?not valid",
    re.IGNORECASE,
)
_NO_MODEL: Final = re.compile(
    r"invalid model(?: name\b|:)|not a valid model\b|model not (?:exist|found)\b"
    r"|no such model\b|server is pinned to\b|\bmodel .{1,200}? (?:does not exist|is not found)",
    re.IGNORECASE,
)
_TLS_PORT: Final = re.compile(
    r"plain http request was sent to https port|http request to an https server", re.IGNORECASE
)
"""Answers of servers that expect TLS to a request without it."""
LONGEST_REFUSAL: Final = 64 * 1024
"""Bytes that are read of what is not a stream."""
_REFUSED: Final = frozenset({400, 422})
"""Statuses of gateways for a wrong key or model, where others answer 401 and 404."""
_NO_CREDIT: Final = re.compile(
    r"credit balance is too low|insufficient (credit|balance)"
    r"|reached your specified (workspace )?api usage limits",  # Anthropic's monthly limit
    re.IGNORECASE,
)

_BY_CAUSE: Final[Mapping[Cause | Fault, FailureKind]] = {
    Fault.UNKNOWN_HOST: FailureKind.UNREACHABLE,
    Fault.NETWORK: FailureKind.UNREACHABLE,
    Fault.NO_FILES: FailureKind.UNREACHABLE,
    Fault.NO_CONNECTION: FailureKind.UNREACHABLE,
    Fault.NO_TLS_ANSWER: FailureKind.UNREACHABLE,
    Fault.NO_PROXY: FailureKind.UNREACHABLE,
    Fault.CERTIFICATE: FailureKind.FATAL_TARGET,
    Fault.NO_TRUST: FailureKind.FATAL_TARGET,
    Fault.TLS: FailureKind.FATAL_TARGET,
    Fault.BROKEN: FailureKind.TRANSIENT,
    Fault.NOT_HTTP: FailureKind.TRANSIENT,
    Cause.UNFINISHED: FailureKind.TRANSIENT,
    Cause.NO_STREAM: FailureKind.TRANSIENT,
    Cause.STALLED: FailureKind.STALLED,
    Cause.OVERSIZED: FailureKind.FATAL_REQUEST,
    Cause.EMPTY: FailureKind.EMPTY,
    Cause.NO_JSON: FailureKind.NO_JSON,
    Cause.OTHER_MODEL: FailureKind.OTHER_MODEL,
    Cause.AGENT_LOST: FailureKind.AGENT_LOST,
    Cause.AGENT_UNFIT: FailureKind.AGENT_LOST,
    Cause.LIMIT: FailureKind.FATAL_REQUEST,
}


def classify(failure: Failure) -> FailureKind:
    """Classify a failure by its cause if that suffices, else by the server's words, else by the
    status."""
    kind = _BY_CAUSE.get(failure.cause)
    if kind is not None:
        return kind
    if failure.cause is Fault.PROXY:
        # the proxy refused this machine, not the model, so the model is not parked
        return (
            FailureKind.UNREACHABLE if (failure.status or 0) >= 500 else FailureKind.FATAL_REQUEST
        )
    return _by_words(failure) or _by_status(failure.status)


def _by_words(failure: Failure) -> FailureKind | None:
    """Classify by what the body says, if that is more than the status."""
    words, message, status = failure.words, failure.message, failure.status
    unsaid = status is None or status < 300
    # first: providers say this with the status of a rate limit, and waiting would be in vain
    if _is_out_of_money(failure):
        return FailureKind.FATAL_TARGET
    if _model_refusal(failure) is not None:
        return FailureKind.FATAL_TARGET
    # by the message only for a bad request, as a message about an outage may mention the context
    if words & _CONTEXT_WORDS or (status in {400, 413, 422} and _CONTEXT.search(message)):
        return FailureKind.CONTEXT_FULL
    if words & _FILTER and (unsaid or status in {400, 403, 422}):
        return FailureKind.FILTERED
    # OpenRouter answers 403 for moderated content, which otherwise means the key
    if status == 403 and _MODERATED.search(message):
        return FailureKind.FILTERED
    # more tokens than the limit per minute: waiting does not help this request
    if status == 429 and _TOO_LARGE_EVER.search(message):
        return FailureKind.FATAL_REQUEST
    if words & _OVERLOAD:
        return FailureKind.OVERLOADED
    if not unsaid:
        return None
    for known, kind in (
        (_RATE, FailureKind.RATE_LIMITED),
        (_KEY, FailureKind.FATAL_TARGET),
        (_NO_SUCH, FailureKind.FATAL_TARGET),
        (_BAD_REQUEST, FailureKind.FATAL_REQUEST),
    ):
        if words & known:
            return kind
    return None


def _is_out_of_money(failure: Failure) -> bool:
    return bool(failure.words & _OUT_OF_MONEY or _NO_CREDIT.search(failure.message))


def _model_refusal(failure: Failure) -> str | None:
    """Explain a generic refusal that concerns the whole model; None for any other."""
    if failure.status in _REFUSED:
        if failure.words & _WRONG_KEY_CODES or _WRONG_KEY.search(failure.message):
            return _STATUS_WORDS[401]
        if failure.words & _NO_SUCH or _NO_MODEL.search(failure.message):
            return "there is no such model"
        if _TLS_PORT.search(failure.message):
            return SPEAKS_TLS
    return None


def refuses_key(status: int | None, raw: bytes) -> bool:
    """Say whether an answer that starts with `raw` refuses the key: some gateways do with a 400."""
    return status == 401 or _model_refusal(_refusal_in(status, raw)) == _STATUS_WORDS[401]


def server_words(status: int | None, raw: bytes) -> str:
    """Return what an answer that starts with `raw` says in the server's own words, which must be
    redacted; empty if it says nothing."""
    return _refusal_in(status, raw).message


def _refusal_in(status: int | None, raw: bytes) -> Failure:
    text = raw[:LONGEST_REFUSAL].decode("utf-8", "replace")
    body: object = text
    with suppress(ValueError, RecursionError):
        body = json.loads(text)
    return failure_in(body, Cause.STATUS, status)


def _by_status(status: int | None) -> FailureKind:
    match status:
        case 429:
            return FailureKind.RATE_LIMITED
        case 529:
            return FailureKind.OVERLOADED
        # the key, the bill, the address or the model: the next call would fail, too
        case 401 | 402 | 403 | 404 | 405 | 410:
            return FailureKind.FATAL_TARGET
        # these do not blame the request: it was too late, too early, or cut off
        case 408 | 409 | 425 | 499 | None:
            return FailureKind.TRANSIENT
        # permanent in spite of a 5xx: another try would get the same answer
        case 501 | 505:
            return FailureKind.FATAL_REQUEST
    if 300 <= status < 400:
        return FailureKind.FATAL_TARGET
    return FailureKind.FATAL_REQUEST if 400 <= status < 500 else FailureKind.TRANSIENT


_OF_THE_KEY: Final = re.compile(
    r"\bfor (?:this |your )?(?:api[ _-]?key|key|user|team|customer|end[ _]user|ip)\b", re.IGNORECASE
)


def concerns_account(failure: Failure) -> bool:
    """Whether a wait that the server asks for concerns every model of the account.

    So does that of an overloaded server, and that of a limit which the message ties to the key. Any
    other rate limit is the model's own, and so is a wait for a server behind a gateway.
    """
    if classify(failure) is FailureKind.RATE_LIMITED:
        return _OF_THE_KEY.search(failure.message) is not None
    return failure.status not in {502, 504}


def status_failure(
    status: int, headers: Mapping[str, str], body: object, *, now: datetime
) -> Failure:
    """Return the failure for a status other than success, with what its body says.

    The names in `headers` are in lower case; `body` is parsed JSON, or text.
    """
    # only proxies answer 407; Squid marks everything that it refuses itself
    cause = Fault.PROXY if status == 407 or "x-squid-error" in headers else Cause.STATUS
    failure = failure_in(body, cause, status)
    # the body of a redirect is for people: its destination is in a header
    where = redirect_words(headers.get("location", "")) if 300 <= status < 400 else ""
    return Failure(
        cause,
        where or failure.message,
        status,
        failure.type,
        failure.code,
        failure.param,
        retry_after_s(headers, now=now),
    )


def redirect_words(location: str) -> str:
    """Return a redirect's destination without the parts that may be secret."""
    try:
        parts = urlsplit(location[:_LONGEST_LOCATION])
        host = f"//{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
    except ValueError:
        return ""
    return f"{parts.scheme}:{host}{parts.path}" if parts.scheme else f"{host}{parts.path}"


def failure_in(body: object, cause: Cause | Fault, status: int | None = None) -> Failure:
    """Return the failure that a body, or an event of a stream, describes in a provider's format."""
    # Google's compatible endpoint wraps an error in a list
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return Failure(cause, "" if body is None else _page_title(str(body)), status)
    inner = body.get("error", body)
    if isinstance(inner, str):
        inner = {**body, "message": inner}
    if not isinstance(inner, Mapping):
        inner = body
    code = _as_word(inner.get("code"))
    # in a stream the status was 200: some gateways put the actual one into the event
    if status is None and _STATUS_CODE.fullmatch(code):
        status = int(code)
    return Failure(
        cause,
        _message(inner),
        status,
        _as_word(inner.get("type")) or _as_word(inner.get("status")),
        code,
        _as_word(inner.get("param")),
    )


def _message(inner: Mapping[str, Any]) -> str:
    for name in ("message", "detail", "error", "msg"):
        value = inner.get(name)
        message = (
            _first_fault(value[0]) if isinstance(value, list) and value else _bounded_text(value)
        )
        if message:
            return message
    return ""


def _first_fault(first: object) -> str:
    """Describe the first item of a list: a sentence, or a location and what is wrong there."""
    if not isinstance(first, Mapping):
        return _bounded_text(first)
    parts = first.get("loc")
    place = ".".join(map(_as_word, parts)) if isinstance(parts, list) else _as_word(parts)
    return _bounded_text(f"{place} {_bounded_text(first.get('msg'))}")


def _as_word(value: object) -> str:
    return _bounded_text(
        str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    )


def _bounded_text(value: object) -> str:
    return value.strip()[:LONGEST_MESSAGE] if isinstance(value, str) else ""


def _page_title(text: str) -> str:
    found = _TITLE.search(text)
    if found is None:
        return _bounded_text(_TAG.sub(" ", text))
    title = found[1].strip()
    return _bounded_text(f"a web page, {title!r}" if title else "a web page")


def retry_after_s(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return how many seconds the server asks to wait; None if it does not, or makes no sense."""
    # dates are by the server's clock, and ours may be wrong
    now = _http_date(headers.get("date", "")) or now
    # a gateway passes on its provider's header under another name
    for prefix in ("", "llm_provider-"):
        millis = _as_number(headers.get(f"{prefix}retry-after-ms", ""))
        if millis is not None:
            return _sane_wait(millis / 1000)
        wait = _wait_in(headers.get(f"{prefix}retry-after", "").strip(), now)
        if wait is not None:
            return wait
    return None


def _wait_in(text: str, now: datetime) -> float | None:
    """Parse seconds, or a date."""
    seconds = _as_number(text)
    if seconds is not None:
        return _sane_wait(seconds)
    moment = _http_date(text)
    return None if moment is None else _sane_wait(max(0.0, (moment - now).total_seconds()))


def _http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text[:_LONGEST_DATE])
    except (ValueError, OverflowError):
        return None
    # Python parses "-0000" as a date without a zone; HTTP has only GMT
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _as_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    # float() accepts "nan" and "inf"
    return number if math.isfinite(number) else None


def _sane_wait(seconds: float) -> float | None:
    return None if seconds < 0 else min(seconds, LONGEST_RETRY_AFTER_S)


_PLAIN_WORDS: Final[Mapping[Cause | Fault, str]] = {
    Fault.UNKNOWN_HOST: "there is no such host",
    Fault.NETWORK: "the network is down",
    Fault.NO_FILES: "this machine lets no more files be open",
    Fault.NO_CONNECTION: "no connection",
    Fault.NO_TLS_ANSWER: "no connection",
    Fault.NO_PROXY: "the proxy could not be reached",
    Fault.PROXY: "the proxy does not let it through",
    Fault.CERTIFICATE: "the server's certificate is not trusted",
    Fault.NO_TRUST: "the certificates that this system trusts cannot be read",
    Fault.TLS: "the two sides do not agree on TLS",
    Fault.BROKEN: "the connection broke",
    Fault.NOT_HTTP: "the answer is not valid HTTP",
    Cause.UNFINISHED: "the reply broke off before its end",
    Cause.NO_STREAM: "the server sent something that is no reply",
    Cause.STALLED: "the model fell silent",
    Cause.OVERSIZED: "the reply is too large",
    Cause.EMPTY: "the model answered with nothing",
    Cause.NO_JSON: "the model answered with no JSON",
    Cause.AGENT_LOST: "the worker that made the call is gone",
    Cause.AGENT_UNFIT: "the worker lacks a variable",
    Cause.OTHER_MODEL: "another model answered, which served_model: same refuses",
    Cause.LIMIT: "max_tokens is more than the model has room for",
    Cause.STATUS: "the server refused",
    Cause.IN_STREAM: "the server reported an error",
}

_STATUS_WORDS: Final[Mapping[int, str]] = {
    400: "the request was not accepted",
    401: "the key was refused",
    402: "the account has no credit",
    403: "the key may not use this model",
    404: "there is no such model, or the address is wrong",
    405: "the address takes no such requests, and so is wrong",
    407: "the proxy asks for a password",
    408: "the server waited too long",
    410: "the model is no longer offered",
    413: "the request is too large",
    422: "the request was not accepted",
    429: "rate limit",
    500: "the server failed",
    502: "the server behind the gateway failed",
    503: "the server is not available",
    504: "the server behind the gateway did not answer",
    529: "the server is overloaded",
}


def describe(failure: Failure) -> str:
    """Describe the failure in a few words, with the server's own if they add anything. The result
    is not redacted."""
    if _is_out_of_money(failure):
        plain = "the account has no credit"
    else:
        plain = _model_refusal(failure) or _cause_words(failure.cause, failure.status)
    status = "" if failure.status is None else f"{failure.status}: "
    message = failure.message or failure.type or failure.code
    return f"{status}{plain}" + (f" ({message})" if message else "")


def _cause_words(cause: Cause | Fault, status: int | None) -> str:
    if cause is Fault.PROXY:
        if (status or 0) >= 500:
            return "the proxy found no way to the server"
        return _STATUS_WORDS[407] if status == 407 else _PLAIN_WORDS[cause]
    if status is not None and cause in {Cause.STATUS, Cause.IN_STREAM}:
        if status in _STATUS_WORDS:
            return _STATUS_WORDS[status]
        if 300 <= status < 400:
            return "the server redirects elsewhere"
        if _by_status(status) is FailureKind.FATAL_REQUEST:
            return _STATUS_WORDS[400]
    return _PLAIN_WORDS[cause]
