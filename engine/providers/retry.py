"""Decides whether, how often and how long a call is tried: failures in, the next step out. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from engine.display import plural
from engine.providers.attempts import Cause, Failure, FailureKind, describe
from engine.providers.http.transport import Fault
from engine.providers.vendors import Meaning

# a resolver may fail for a moment; a misspelt name stays unknown
_UNKNOWN_HOST_TRIES: Final = 3
# each has taken a whole timeout, and what has never answered TLS most likely does not speak it
_UNANSWERED_TLS_TRIES: Final = 3
SERVER_ERROR: Final = 500
"""The status of a server that fails on what it is asked; an outage has another."""
_BATCH_TRIES: Final = 3
_WEEKS_S: Final = 30 * 86_400.0
"""Longer than anything takes in a batch."""
_ADDRESS: Final = "base_url"
_PROXY: Final = "HTTPS_PROXY and HTTP_PROXY, or else base_url"
_CERTIFICATES: Final = "the certificates that this system trusts and base_url"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits of one call."""

    tries: int = 8
    """The most requests that may fail for a transient reason."""
    in_vain: int = 16
    """Requests to a model that has never answered and always failed with the same server error,
    after which each call sends only one."""
    in_vain_s: float = 60.0
    """Seconds for which that must have lasted, about as long as the tries of one call."""
    lost_workers: int = 10
    """Workers that one call may lose: the call itself may be what ends them."""
    stalls: int = 2
    """The most requests that may stall, as each has cost a long wait."""
    empties: int = 2
    """How often to ask again after an empty answer."""
    trying_s: float = 1800.0
    """Seconds from the first failure."""
    refused_s: float = 3600.0
    """Seconds from the first refusal: rate limits may last long, and waiting loses nothing. If a
    server asks for a longer wait, it means a quota."""
    longest_asked_s: float = 300.0
    """Seconds. A longer wait that a server asks for otherwise is cut to this, as it may be a
    mistake."""
    unreachable_s: float = 3600.0
    """Seconds without a network."""
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    first_token_s: float = 300.0
    """Seconds to the first word or reasoning. Some models think for minutes before sending any."""
    between_s: float = 120.0
    """Seconds between words. Pings do not count."""
    whole_s: float = 1800.0
    """Seconds for one request."""
    ending_s: float = 3.0
    """Seconds of silence, after a reason to end, that end a reply."""

    def in_batches(self) -> RetryPolicy:
        """The limits of a call that is made in batches, which take up to a day each."""
        return replace(
            self,
            tries=min(self.tries, _BATCH_TRIES),
            trying_s=_WEEKS_S,
            refused_s=_WEEKS_S,
            first_token_s=_WEEKS_S,
            between_s=_WEEKS_S,
            whole_s=_WEEKS_S,
            longest_pause_s=600.0,
        )


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again."""

    after_s: float
    words: str
    """What is waited for."""
    all_wait_s: float = 0.0
    """Seconds for which no such request may be sent, as the server asked."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The call has failed."""

    message: str
    """Not redacted."""
    retryable: bool
    parks: bool = False
    """Whether no other call to this model can succeed either."""
    look_at: str = "apikey, model and base_url"
    """The parts of the model's configuration that may be wrong, if it parks; empty for none."""
    for_s: float | None = None
    """Seconds after which calls may succeed again, if it parks and they are known."""


@dataclass(slots=True)
class StandingFailure:
    """The failure with which every request to a model has ended so far."""

    words: str = ""
    times: int = 0
    since: float = 0.0
    """When it first occurred, by the monotonic clock."""

    def add(self, failure: Failure) -> bool:
        """Count a failure; return False if it is another one, or an outage, after which each call
        tries in full."""
        words = describe(failure)
        if failure.status != SERVER_ERROR or (self.times and self.words != words):
            return False
        self.words, self.times = words, self.times + 1
        return True

    def is_hopeless(self, policy: RetryPolicy, now: float) -> bool:
        """Whether it has lasted so long that a call is not worth more than one request."""
        return self.times > policy.in_vain and now - self.since >= policy.in_vain_s


def is_undelivered(failure: Failure, kind: FailureKind) -> bool:
    """Whether a request certainly did not reach the application, so that even one that must not
    arrive twice may be sent again: a rate limit turned it away, or there was no connection. A
    proxy's word for that is not trusted, as it may have passed the request on."""
    if kind is FailureKind.RATE_LIMITED:
        return failure.cause is Cause.STATUS
    return kind is FailureKind.UNREACHABLE and failure.cause is not Fault.PROXY


@dataclass(slots=True)
class RetryState:
    """The failures of one call so far."""

    retry_policy: RetryPolicy
    random: Callable[[], float]
    tries: int = 0
    stalls: int = 0
    empties: int = 0
    refusals: int = 0
    _first_failure_at: float | None = None
    _first_refusal_at: float | None = None

    def next(
        self,
        failure: Failure,
        kind: FailureKind,
        now: float,
        *,
        strikes: int = 0,
        known: bool = True,
    ) -> Retry | GiveUp:
        """Return the next step after a failure, which must not be `CONTEXT_FULL` or `FILTERED`.

        `strikes` is how often in a row the host was not reached, `known` whether it ever was.
        """
        words, asked = describe(failure), failure.retry_after_s or 0.0
        match kind:
            # separate for the advice only: for these, checking the key and the model is no use
            case FailureKind.FATAL_TARGET if failure.cause is Fault.CERTIFICATE:
                return GiveUp(words, retryable=False, parks=True, look_at=_CERTIFICATES)
            case FailureKind.FATAL_TARGET if 300 <= (failure.status or 0) < 400:
                return GiveUp(words, retryable=False, parks=True, look_at=_ADDRESS)
            case FailureKind.FATAL_TARGET:
                return GiveUp(words, retryable=False, parks=True)
            case FailureKind.QUOTA_SPENT:
                return self._after_quota(failure)
            case FailureKind.RATE_LIMITED if asked > self.retry_policy.refused_s:
                # no momentary limit takes so long
                return self._after_quota(failure)
            case FailureKind.RATE_LIMITED | FailureKind.OVERLOADED:
                return self._after_refusal(failure, words, now)
            case FailureKind.STALLED:
                self.stalls += 1
                # counted separately: each stalled try has taken minutes, a refused one a second
                if self.stalls >= self.retry_policy.stalls:
                    return GiveUp(f"{words}, {self.stalls} times", retryable=True)
                return self._retry_or_give_up(failure, words, now)
            case FailureKind.EMPTY:
                self.empties += 1
                if self.empties > self.retry_policy.empties:
                    return GiveUp(f"{words}, {self.empties} times", retryable=True)
                return Retry(0.0, words)
            case FailureKind.UNREACHABLE if not known:
                return self._after_silence(failure, words, now, strikes)
            case FailureKind.TRANSIENT | FailureKind.UNREACHABLE:
                return self._retry_or_give_up(failure, words, now)
            case FailureKind.OTHER_MODEL:
                # a gateway falls back while its model is down: a later run may reach it
                return GiveUp(words, retryable=True)
            case _:
                return GiveUp(words, retryable=False)

    def _after_quota(self, failure: Failure) -> GiveUp:
        """Park the model until its quota begins anew, if that is known."""
        asked = failure.retry_after_s or 0.0
        # the wait that Google names beside a quota of the day is that of a minute
        for_s = asked if asked >= self.retry_policy.longest_asked_s else None
        words = describe(failure, Meaning.QUOTA_SPENT)
        return GiveUp(words, retryable=True, parks=True, look_at="", for_s=for_s)

    def uncount(self) -> None:
        """Do not count the last try: it failed without a network, which is waited for elsewhere."""
        self.tries = max(0, self.tries - 1)

    def _after_silence(
        self, failure: Failure, words: str, now: float, strikes: int
    ) -> Retry | GiveUp:
        """For a host that never answered: a wrong address, or a server that is not running."""
        if failure.cause is Fault.UNKNOWN_HOST:
            if strikes >= _UNKNOWN_HOST_TRIES:
                return GiveUp(words, retryable=False, parks=True, look_at=_ADDRESS)
            return self._retry_or_give_up(failure, words, now)
        most = _UNANSWERED_TLS_TRIES if failure.cause is Fault.NO_TLS_ANSWER else None
        step = self._retry_or_give_up(failure, words, now, most)
        if isinstance(step, Retry):
            return step
        place = _PROXY if failure.cause is Fault.NO_PROXY else _ADDRESS
        return replace(step, parks=True, look_at=place)

    def _retry_or_give_up(
        self, failure: Failure, words: str, now: float, most: int | None = None
    ) -> Retry | GiveUp:
        """`most` limits the tries further than the policy."""
        tries = min(most or self.retry_policy.tries, self.retry_policy.tries)
        self.tries += 1
        if self._first_failure_at is None:
            self._first_failure_at = now
        spent = now - self._first_failure_at
        if self.tries >= tries or spent >= self.retry_policy.trying_s:
            return GiveUp(f"{words}, after {plural(self.tries, 'try', 'tries')}", retryable=True)
        asked = min(failure.retry_after_s or 0.0, self.retry_policy.longest_asked_s)
        step = f" (try {self.tries + 1} of {tries})"
        return Retry(max(asked, self._jitter(self.tries)), words + step, asked)

    def _after_refusal(self, failure: Failure, words: str, now: float) -> Retry | GiveUp:
        self.refusals += 1
        if self._first_refusal_at is None:
            self._first_refusal_at = now
        if now - self._first_refusal_at >= self.retry_policy.refused_s:
            return GiveUp(
                f"{words}, refused {plural(self.refusals, 'try', 'tries')}", retryable=True
            )
        if failure.retry_after_s is None:
            return Retry(self._jitter(self.refusals), words)
        asked = min(failure.retry_after_s, self.retry_policy.refused_s)
        # some servers ask for a wait of 0 s, which helps no more than asking for none
        return Retry(max(asked, self._jitter(self.refusals)), words, asked)

    def _jitter(self, number: int) -> float:
        # 30 doublings exceed any pause, and larger exponents would overflow a float
        ceiling = self.retry_policy.first_pause_s * 2.0 ** min(number - 1, 30)
        # "full jitter": spreads the next tries of a thousand calls that failed together over the
        # whole pause
        return self.random() * min(ceiling, self.retry_policy.longest_pause_s)
