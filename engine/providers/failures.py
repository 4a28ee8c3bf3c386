"""How requests fail: causes, kinds, and what comes after each: the one table of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final, NamedTuple

from engine.providers.model import Finish


class Cause(StrEnum):
    """How a request failed: first if there was no whole answer, then if there was one."""

    UNKNOWN_HOST = "unknown_host"
    NETWORK = "network"
    """No host can be reached: there is no route, or no name resolution."""
    NO_CONNECTION = "no_connection"
    """The host refuses the connection, or does not accept it in time."""
    NO_TLS_ANSWER = "no_tls_answer"
    """The host accepts the connection, but does not answer TLS in time."""
    NO_FILES = "no_files"
    """This machine cannot open more files, which is not the host's fault."""
    NO_PROXY = "no_proxy"
    """The proxy that the environment names cannot be reached."""
    PROXY = "proxy"
    """A proxy answered instead of the server, and refuses to pass the request on."""
    CERTIFICATE = "certificate"
    NO_TRUST = "no_trust"
    """The trusted certificates cannot be read on this machine."""
    TLS = "tls"
    """One side does not speak TLS, or they do not agree on a version."""
    BROKEN = "broken"
    NOT_HTTP = "not_http"
    """What came is no response, or its body is not coded as its head says."""

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
    """A request without a reply, as the server or the connection describes it. Holds nothing of
    the request, whose headers have a key."""

    cause: Cause
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


class Signal(Enum):
    """What the end of a request says about the server's limit."""

    WELL = auto()
    REFUSED = auto()
    TROUBLE = auto()
    """The server failed or is overloaded, possibly because of our requests."""
    NOTHING = auto()


class Next(Enum):
    """What comes after a failure, unless the request can be changed so that it may be taken."""

    ELSEWHERE = auto()
    """Again at once, as nothing was tried: this machine or a worker is to blame."""
    LATER = auto()
    """Again when the server has room, without counting as a try: the request is not to blame."""
    AGAIN = auto()
    """Again after a pause, a few times."""
    RECONNECT = auto()
    """The same for a host that was reached before; any other parks the model then."""
    PARK = auto()
    """No call to this model can succeed until a person does something, or a quota begins anew."""
    FAIL = auto()
    FAIL_FOR_NOW = auto()
    """The call fails now, and may succeed in a later run."""


class FailureKind(Enum):
    """Of each kind: the outcome under which the attempt is stored, what comes next, or how the
    conversation ends with it, and what the limiter learns."""

    RATE_LIMITED = "rate_limited", Next.LATER, Signal.REFUSED
    OVERLOADED = "rate_limited", Next.LATER, Signal.TROUBLE
    """The server has too many requests, no matter whose."""
    SERVER_FAILED = "transient", Next.AGAIN, Signal.TROUBLE
    TRANSIENT = "transient", Next.AGAIN, Signal.NOTHING
    """A broken connection says nothing about how much the server can take."""
    UNREACHABLE = "transient", Next.RECONNECT, Signal.NOTHING
    """There was no connection, so nothing was sent."""
    STALLED = "stalled", Next.AGAIN, Signal.NOTHING
    EMPTY = "empty", Next.AGAIN, Signal.NOTHING
    FATAL_TARGET = "fatal_target", Next.PARK, Signal.NOTHING
    QUOTA_SPENT = "rate_limited", Next.PARK, Signal.NOTHING
    FATAL_REQUEST = "fatal_request", Next.FAIL, Signal.NOTHING
    NO_JSON = "no_json", Next.FAIL, Signal.WELL
    """The server ignored the requested schema. It did its part; the model wrote prose."""
    OTHER_MODEL = "other_model", Next.FAIL_FOR_NOW, Signal.NOTHING
    """Another model answered: a gateway falls back while its model is down."""
    AGENT_LOST = "agent_lost", Next.ELSEWHERE, Signal.NOTHING
    CONTEXT_FULL = "answer", Finish.CONTEXT_FULL, Signal.NOTHING
    """The conversation no longer fits, which is not an error."""
    FILTERED = "answer", Finish.CONTENT_FILTER, Signal.NOTHING
    """The provider did not pass the request to the model, which counts as an answer."""

    @property
    def outcome(self) -> str:
        outcome: str = self.value[0]
        return outcome

    @property
    def next(self) -> Next | Finish:
        step: Next | Finish = self.value[1]
        return step

    @property
    def signal(self) -> Signal:
        signal: Signal = self.value[2]
        return signal


KEYS: Final = "apikey, model and base_url"
_ADDRESS: Final = "base_url"
_CERTIFICATES: Final = "the certificates that this system trusts and base_url"


class Sign(NamedTuple):
    """What a cause or a status says by itself."""

    words: str
    kind: FailureKind
    look_at: str = KEYS
    """The parts of the model's configuration that may be wrong, if it is parked."""


_SIGNS: Final[Mapping[Cause | int, Sign]] = {
    Cause.UNKNOWN_HOST: Sign("there is no such host", FailureKind.UNREACHABLE, _ADDRESS),
    Cause.NETWORK: Sign("the network is down", FailureKind.UNREACHABLE, _ADDRESS),
    Cause.NO_CONNECTION: Sign("no connection", FailureKind.UNREACHABLE, _ADDRESS),
    Cause.NO_TLS_ANSWER: Sign("no connection", FailureKind.UNREACHABLE, _ADDRESS),
    Cause.NO_PROXY: Sign(
        "the proxy could not be reached",
        FailureKind.UNREACHABLE,
        "HTTPS_PROXY and HTTP_PROXY, or else base_url",
    ),
    # it refused this machine and not the model, which is not parked
    Cause.PROXY: Sign("the proxy does not let it through", FailureKind.FATAL_REQUEST),
    407: Sign("the proxy asks for a password", FailureKind.FATAL_REQUEST),
    Cause.CERTIFICATE: Sign(
        "the server's certificate is not trusted", FailureKind.FATAL_TARGET, _CERTIFICATES
    ),
    Cause.NO_TRUST: Sign(
        "the certificates that this system trusts cannot be read",
        FailureKind.FATAL_TARGET,
        _CERTIFICATES,
    ),
    Cause.TLS: Sign("the two sides do not agree on TLS", FailureKind.FATAL_TARGET, _ADDRESS),
    Cause.BROKEN: Sign("the connection broke", FailureKind.TRANSIENT),
    Cause.NOT_HTTP: Sign("the answer is not valid HTTP", FailureKind.TRANSIENT),
    Cause.NO_FILES: Sign("this machine lets no more files be open", FailureKind.AGENT_LOST),
    Cause.AGENT_LOST: Sign("the worker that made the call is gone", FailureKind.AGENT_LOST),
    Cause.AGENT_UNFIT: Sign("the worker lacks a variable", FailureKind.AGENT_LOST),
    Cause.UNFINISHED: Sign("the reply broke off before its end", FailureKind.TRANSIENT),
    Cause.NO_STREAM: Sign("the server sent something that is no reply", FailureKind.TRANSIENT),
    Cause.STALLED: Sign("the model fell silent", FailureKind.STALLED),
    Cause.OVERSIZED: Sign("the reply is too large", FailureKind.FATAL_REQUEST),
    Cause.EMPTY: Sign("the model answered with nothing", FailureKind.EMPTY),
    Cause.NO_JSON: Sign("the model answered with no JSON", FailureKind.NO_JSON),
    Cause.OTHER_MODEL: Sign(
        "another model answered, which served_model: same refuses", FailureKind.OTHER_MODEL
    ),
    Cause.LIMIT: Sign("max_tokens is more than the model has room for", FailureKind.FATAL_REQUEST),
    Cause.STATUS: Sign("the server refused", FailureKind.TRANSIENT),
    Cause.IN_STREAM: Sign("the server reported an error", FailureKind.TRANSIENT),
    # statuses, and under their first digit all others
    3: Sign("the server redirects elsewhere", FailureKind.FATAL_TARGET, _ADDRESS),
    4: Sign("the request was not accepted", FailureKind.FATAL_REQUEST),
    401: Sign("the key was refused", FailureKind.FATAL_TARGET),
    402: Sign("the account has no credit", FailureKind.FATAL_TARGET),
    403: Sign("the key may not use this model", FailureKind.FATAL_TARGET),
    404: Sign("there is no such model, or the address is wrong", FailureKind.FATAL_TARGET),
    405: Sign("the address takes no such requests, and so is wrong", FailureKind.FATAL_TARGET),
    # these do not blame the request: it was too late, too early, or cut off
    408: Sign("the server waited too long", FailureKind.TRANSIENT),
    409: Sign("the server refused", FailureKind.TRANSIENT),
    425: Sign("the server refused", FailureKind.TRANSIENT),
    499: Sign("the server refused", FailureKind.TRANSIENT),
    410: Sign("the model is no longer offered", FailureKind.FATAL_TARGET),
    413: Sign("the request is too large", FailureKind.CONTEXT_FULL),
    429: Sign("rate limit", FailureKind.RATE_LIMITED),
    5: Sign("the server refused", FailureKind.SERVER_FAILED),
    500: Sign("the server failed", FailureKind.SERVER_FAILED),
    # permanent in spite of a 5xx: another try would get the same answer
    501: Sign("the request was not accepted", FailureKind.FATAL_REQUEST),
    502: Sign("the server behind the gateway failed", FailureKind.SERVER_FAILED),
    503: Sign("the server is not available", FailureKind.SERVER_FAILED),
    504: Sign("the server behind the gateway did not answer", FailureKind.SERVER_FAILED),
    505: Sign("the request was not accepted", FailureKind.FATAL_REQUEST),
    529: Sign("the server is overloaded", FailureKind.OVERLOADED),
}
"""What a failure is called and of which kind it is, unless the server's words say more."""
_NO_WAY: Final = Sign("the proxy found no way to the server", FailureKind.UNREACHABLE)


def sign_of(failure: Failure) -> Sign:
    """Return what a failure's cause says, or its status where that says more."""
    cause, status = failure.cause, failure.status or 0
    if cause is Cause.PROXY:
        return _NO_WAY if status >= 500 else _SIGNS[407 if status == 407 else cause]
    if cause in {Cause.STATUS, Cause.IN_STREAM}:
        return _SIGNS.get(status) or _SIGNS.get(status // 100) or _SIGNS[cause]
    return _SIGNS[cause]
