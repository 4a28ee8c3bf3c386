"""Reads what a failed request says, classifies it by what to do about it, and describes it. What
providers' words mean, `vendors.txt` says. Pure."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from engine.providers.failures import Cause, Failure, FailureKind, Next, sign_of
from engine.providers.http.transport import SPEAKS_TLS

_BAD: Final = frozenset({400, 422})
_BAD_OR_KEY: Final = frozenset({400, 401, 403, 422})
_ONLY_IN_STREAM: Final = frozenset[int]()


class Meaning(Enum):
    """What words mean, in a few of our own, of which kind an error with them is, and the statuses
    beside which they mean it (None: any); beside a success, as in a stream, they always do. In
    order of precedence, as one answer may hold the words of several."""

    # before all: providers say it with the status of a rate limit, and waiting would be in vain
    NO_CREDIT = "the account has no credit", FailureKind.FATAL_TARGET, None
    WRONG_KEY = "the key was refused", FailureKind.FATAL_TARGET, _BAD_OR_KEY
    NO_STREAM = "the model may not be streamed", FailureKind.FATAL_TARGET, _BAD_OR_KEY
    NO_MODEL = "there is no such model", FailureKind.FATAL_TARGET, _BAD
    NEEDS_TLS = SPEAKS_TLS, FailureKind.FATAL_TARGET, _BAD
    CONTEXT_FULL = (
        "the conversation no longer fits into the context",
        FailureKind.CONTEXT_FULL,
        frozenset({400, 413, 422}),
    )
    FILTERED = (
        "the provider's filter withheld the answer",
        FailureKind.FILTERED,
        frozenset({400, 403, 422, 451}),
    )
    QUOTA_SPENT = "the quota is used up", FailureKind.QUOTA_SPENT, frozenset({429})
    TOO_LARGE = (
        "more than the limit of a minute",
        FailureKind.FATAL_REQUEST,
        frozenset({413, 429}),
    )
    OVERLOADED = "the server is overloaded", FailureKind.OVERLOADED, None
    NO_SYSTEM = (
        "there is no system role",
        FailureKind.FATAL_REQUEST,
        frozenset({400, 422, 424, 500}),
    )
    NO_REASONING = "earlier reasoning may not be sent", FailureKind.FATAL_REQUEST, _BAD
    WANTS_REASONING = "earlier reasoning must be sent", FailureKind.FATAL_REQUEST, _BAD
    RATE_LIMITED = "rate limit", FailureKind.RATE_LIMITED, _ONLY_IN_STREAM
    BAD_REQUEST = "the request was not accepted", FailureKind.FATAL_REQUEST, _ONLY_IN_STREAM
    # how a reply ended, besides two of the above
    ENDED = "the reply is complete", None, _ONLY_IN_STREAM
    CUT = "the reply was cut at its limit", None, _ONLY_IN_STREAM
    REFUSED = "the model refused", None, _ONLY_IN_STREAM
    BROKE_OFF = "the server broke the reply off", None, _ONLY_IN_STREAM
    GOES_ON = "no end, more may come", None, _ONLY_IN_STREAM

    @property
    def words(self) -> str:
        words: str = self.value[0]
        return words

    @property
    def kind(self) -> FailureKind | None:
        """None for what is said of ends alone."""
        kind: FailureKind | None = self.value[1]
        return kind

    @property
    def statuses(self) -> frozenset[int] | None:
        statuses: frozenset[int] | None = self.value[2]
        return statuses

    def counts_beside(self, status: int | None) -> bool:
        statuses = self.statuses
        return statuses is None or status is None or status < 300 or status in statuses


_FINISH: Final = "finish:"
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]+")


class VendorWords(NamedTuple):
    """A line of the table."""

    vendor: str
    meaning: Meaning
    words: str
    example: str = ""
    status: int | None = None
    """The only status beside which they mean this; None for those of the meaning."""

    @property
    def is_code(self) -> bool:
        return _CODE.fullmatch(self.words) is not None

    @property
    def is_end(self) -> bool:
        return self.words.startswith(_FINISH)

    def counts_beside(self, status: int | None) -> bool:
        if self.status is not None:
            return status == self.status
        return self.meaning.counts_beside(status)


def _line(text: str) -> VendorWords:
    vendor, meaning, words, *more = (cell.strip() for cell in text.split(" | "))
    example, status = [*more, "", ""][:2]
    known = Meaning[meaning.upper().replace(" ", "_")]
    return VendorWords(vendor, known, words, example, int(status) if status else None)


@cache  # read with the first reply or failure, and not by every command
def table() -> Sequence[VendorWords]:
    """Return all lines of `vendors.txt`."""
    text = resources.files(__package__).joinpath("vendors.txt").read_text("utf-8")
    lines = (line.strip() for line in text.splitlines())
    return tuple(_line(line) for line in lines if line and not line.startswith("#"))


_ORDER: Final = {meaning: place for place, meaning in enumerate(Meaning)}
_GAP: Final = ".{0,200}?"
"""What `…` stands for; bounded, so that no server's message can make a search slow."""


@cache
def _codes() -> Mapping[str, VendorWords]:
    return {line.words.lower(): line for line in table() if line.is_code}


@cache
def _ends() -> Mapping[str, Meaning]:
    ends = (line for line in table() if line.is_end)
    return {line.words.removeprefix(_FINISH).strip(): line.meaning for line in ends}


@cache
def phrases() -> Mapping[tuple[Meaning, int | None], re.Pattern[str]]:
    """Return an expression for all phrases of a meaning beside a status."""
    found: defaultdict[tuple[Meaning, int | None], list[str]] = defaultdict(list)
    for line in table():
        if not (line.is_code or line.is_end):
            parts = map(re.escape, line.words.strip("…").split("…"))
            found[line.meaning, line.status].append(_GAP.join(parts))
    flags = re.IGNORECASE | re.DOTALL
    return {kind: re.compile("|".join(each), flags) for kind, each in found.items()}


def meaning_of_error(codes: Iterable[str], message: str, status: int | None) -> Meaning | None:
    """Return what an error means, by its types and codes, in lower case, and its message; None if
    no words of it are known."""
    known = _codes()
    lines = [known[code] for code in codes if code in known]
    lines += [
        VendorWords("", meaning, "", status=only)
        for (meaning, only), pattern in phrases().items()
        if pattern.search(message)
    ]
    meanings = (line.meaning for line in lines if line.counts_beside(status))
    return min(meanings, key=_ORDER.__getitem__, default=None)


@lru_cache(64)
def meaning_of_end(reason: str) -> Meaning:
    """Return what a reason for which a reply ended means: any that is unknown, `ENDED`."""
    reason = reason.strip().lower()
    # some gateways write their provider's own reason behind theirs
    head, _, tail = reason.partition(":")
    known = (_ends().get(word.strip()) for word in (reason, head, tail))
    return next((meaning for meaning in known if meaning is not None), Meaning.ENDED)


# a server decides how long its headers are, and a message quotes this one
_LONGEST_LOCATION: Final = 500
LONGEST_RETRY_AFTER_S: Final = 31 * 86_400.0
"""Seconds. A longer wait that a server asks for is cut to this: no quota lasts longer."""
LONGEST_MESSAGE: Final = 8192
"""Characters of a server's error message that are kept before it is searched. More than the
redactor searches, so that no key is cut in two here."""
# a date has 29 characters; what is longer is none, and is not parsed to find that out
_LONGEST_DATE: Final = 100


_TITLE: Final = re.compile(r"<title[^<>]*>([^<]*)", re.IGNORECASE)
_STATUS_CODE: Final = re.compile(r"[345][0-9]{2}")
_TAG: Final = re.compile(r"<[^<>]{0,200}>")
_MODEL_KEY: Final = re.compile(r"""["']model\\?["']\s*:""")
"""Found if a server quotes the request that it refused."""
LONGEST_REFUSAL: Final = 64 * 1024
"""Bytes that are read of what is not a reply."""


def classify(failure: Failure) -> FailureKind:
    """Classify a failure by what the server's words mean, else by its cause or its status."""
    meaning = meaning_of(failure)
    kind = None if meaning is None else meaning.kind
    return kind or sign_of(failure).kind


@lru_cache(256)  # asked for several times for each failure
def meaning_of(failure: Failure) -> Meaning | None:
    """Return what the server's words mean; None if they are not known, or are not the server's."""
    if failure.cause not in {Cause.STATUS, Cause.IN_STREAM}:
        return None
    text = f"{failure.code} {beside_the_request(failure.message)}"
    return meaning_of_error(failure.words, text, failure.status)


def beside_the_request(message: str) -> str:
    """Return a refusal's message without the request that it quotes: that has the names of all
    parameters, and the words of a conversation, and blames none."""
    shown = _MODEL_KEY.search(message)
    if shown is None:
        return message
    begin, end = message.rfind("{", 0, shown.start()), message.rfind("}")
    return message[: max(begin, 0)] + (message[end + 1 :] if end > begin else "")


def refuses_key(status: int | None, raw: bytes) -> bool:
    """Say whether an answer that starts with `raw` refuses the key: some gateways do with a 400."""
    return status == 401 or meaning_of(_refusal_in(status, raw)) is Meaning.WRONG_KEY


def server_words(status: int | None, raw: bytes) -> str:
    """Return what an answer that starts with `raw` says in the server's own words, which must be
    redacted; empty if it says nothing."""
    return _refusal_in(status, raw).message


def body_in(raw: bytes) -> object:
    """Return what stands in an answer that is no reply: parsed JSON, or text."""
    text = raw[:LONGEST_REFUSAL].decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _refusal_in(status: int | None, raw: bytes) -> Failure:
    return failure_in(body_in(raw), Cause.STATUS, status)


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
    cause = Cause.PROXY if status == 407 or "x-squid-error" in headers else Cause.STATUS
    failure = failure_in(body, cause, status)
    # the body of a redirect is for people: its destination is in a header
    where = redirect_words(headers.get("location", "")) if 300 <= status < 400 else ""
    wait = retry_after_s(headers, now=now)
    return replace(
        failure,
        message=where or failure.message,
        retry_after_s=_wait_in_body(body, now) if wait is None else wait,
    )


def redirect_words(location: str) -> str:
    """Return a redirect's destination without the parts that may be secret."""
    try:
        parts = urlsplit(location[:_LONGEST_LOCATION])
        host = f"//{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""
    except ValueError:
        return ""
    return f"{parts.scheme}:{host}{parts.path}" if parts.scheme else f"{host}{parts.path}"


def failure_in(body: object, cause: Cause, status: int | None = None) -> Failure:
    """Return the failure that a body, or an event of a stream, describes in a provider's format."""
    # Google's compatible endpoint wraps an error in a list
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        return Failure(cause, "" if body is None else _page_title(str(body)), status)
    inner = _error_in(body)
    code = next(filter(None, (_as_word(inner.get(name)) for name in _CODE_KEYS)), "")
    # in a stream the status was 200: some gateways put the actual one into the event
    if status is None and _STATUS_CODE.fullmatch(code):
        status = int(code)
    said = (_message(inner), *_nested_words(inner))
    return Failure(
        cause,
        _bounded_text(": ".join(dict.fromkeys(filter(None, said)))),
        status,
        _as_word(inner.get("type")) or _as_word(inner.get("status")),
        code,
        _as_word(inner.get("param")),
    )


_CODE_KEYS: Final = ("code", "status_code", "error_code")
_MESSAGE_KEYS: Final = ("message", "detail", "error", "msg", "error_message", "status_msg", "text")


def is_error(event: Mapping[str, Any]) -> bool:
    """Whether an event or document without a reply reports an error, in any provider's format."""
    if event.get("error") or "error" in (event.get("object"), event.get("type")):
        return True
    if event.get("error_code") or _status_of(event.get("base_resp")):
        return True
    return bool(event.get("code")) and bool(_message(event))


def _status_of(part: object) -> object:
    return part.get("status_code") if isinstance(part, Mapping) else None


def _error_in(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part of a body that describes an error."""
    inner = body.get("error", body)
    if isinstance(inner, str):
        return {**body, "message": inner}
    if not isinstance(inner, Mapping):
        return body
    if inner is not body:
        return inner
    if isinstance(body.get("base_resp"), Mapping):
        found: Mapping[str, Any] = body["base_resp"]
        return found
    choices = body.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], Mapping):
        # a reply in place of an error: Azure Foundry's filter answers so
        return {"code": choices[0].get("finish_reason")}
    return body


def _message(inner: Mapping[str, Any], depth: int = 3) -> str:
    for name in _MESSAGE_KEYS:
        value = inner.get(name)
        if isinstance(value, Mapping) and depth:
            message = _message(value, depth - 1)
        elif isinstance(value, list) and value:
            message = _first_fault(value[0])
        else:
            message = _bounded_text(value)
        if message:
            return message
    return ""


def _nested_words(inner: Mapping[str, Any]) -> Iterator[str]:
    """Yield what stands deeper in an error: a gateway's provider in its own words, the quota that
    is used up, the kind of a filter."""
    for name, key in (("value", "error_message"), ("metadata", "raw"), ("innererror", "code")):
        part = inner.get(name)
        if isinstance(part, Mapping):
            yield _unwrapped(_bounded_text(part.get(key)))
    for detail in _mappings(inner.get("details")):
        for violation in _mappings(detail.get("violations")):
            yield _bounded_text(violation.get("quotaId"))


def _mappings(items: object) -> list[Mapping[str, Any]]:
    return [one for one in items if isinstance(one, Mapping)] if isinstance(items, list) else []


def _unwrapped(text: str) -> str:
    """Return the message in an error that is written as text."""
    with suppress(ValueError, RecursionError):
        body = json.loads(text)
        if isinstance(body, Mapping):
            return _message(_error_in(body)) or text
    return text


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


def _wait_in_body(body: object, now: datetime) -> float | None:
    """Return the wait that an error's body asks for: Google's `retryDelay`, and the time of a reset
    in the headers that OpenRouter passes on."""
    if isinstance(body, list) and body:
        body = body[0]
    inner = body.get("error") if isinstance(body, Mapping) else None
    if not isinstance(inner, Mapping):
        return None
    for detail in _mappings(inner.get("details")):
        seconds = _as_number(_as_word(detail.get("retryDelay")).removesuffix("s"))
        if seconds is not None:
            return _sane_wait(seconds)
    metadata = inner.get("metadata")
    headers = metadata.get("headers") if isinstance(metadata, Mapping) else None
    reset = _as_word(headers.get("X-RateLimit-Reset")) if isinstance(headers, Mapping) else ""
    moment = _as_number(reset)
    if moment is None:
        return None
    return _sane_wait(max(0.0, moment / 1000 - now.timestamp()))


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


def describe(failure: Failure, known: Meaning | None = None) -> str:
    """Describe the failure in a few words, with the server's own if they add anything. `known` is
    what it means if its words do not say that. The result is not redacted."""
    meaning, plain = known or meaning_of(failure), sign_of(failure).words
    # of what parks a model, the words say more than the status
    if meaning is not None and meaning.kind is not None and meaning.kind.next is Next.PARK:
        is_status_better = meaning is Meaning.WRONG_KEY and failure.status == 403
        plain = plain if is_status_better else meaning.words
    status = "" if failure.status is None else f"{failure.status}: "
    message = failure.message or failure.type or failure.code
    return f"{status}{plain}" + (f" ({message})" if message else "")
