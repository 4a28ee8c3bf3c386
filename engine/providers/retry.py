"""How often and how long one call is tried: failures in, what to do next out. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from engine.display import plural
from engine.providers.attempts import Failure, FailureKind, describe
from engine.providers.http.transport import Fault

_UNKNOWN_HOST_TRIES: Final = 3
_ADDRESS: Final = "base_url"
_CERTIFICATES: Final = "the certificates that this system trusts and base_url"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What a call may take."""

    tries: int = 8
    """Requests that may fail for a passing reason."""
    in_vain: int = 16
    """Requests to a model that never answered and of which each broke the server in the same words,
    after which a call is one request."""
    in_vain_s: float = 60.0
    """For so long at least: about as long as the tries of one call take."""
    stalls: int = 2
    """Requests that may fall silent: each has cost a long wait already."""
    empties: int = 2
    """Times to ask again after an answer without a word."""
    trying_s: float = 1800.0
    """From the first failure on."""
    refused_s: float = 3600.0
    """From the first refusal on: rate limits may take long, and nothing is lost by waiting."""
    unreachable_s: float = 3600.0
    """Without a network."""
    first_pause_s: float = 1.0
    longest_pause_s: float = 60.0
    first_token_s: float = 300.0
    """To the first word or thought. Some models think for minutes before they send any of it."""
    between_s: float = 120.0
    """From one word to the next. What keeps a connection alive is no word."""
    whole_s: float = 1800.0
    """For one request."""
    ending_s: float = 3.0
    """For the formalities once the reply says that it is whole."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try once more."""

    after_s: float
    words: str
    """What is being waited for."""
    all_wait_s: float = 0.0
    """How long no such request should be sent, as the server asked."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The call has failed."""

    message: str
    """Not redacted."""
    retryable: bool
    parks: bool = False
    """Whether no other call to this model can succeed either."""
    look_at: str = "apikey, model and base_url"
    """What of the model's configuration may be to blame, where it parks."""


@dataclass(slots=True)
class RetryState:
    """One call's way through its failures."""

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
        """`strikes` says how often in a row the host was not reached, `known` whether it ever was.

        Answers of a kind (`CONTEXT_FULL`, `FILTERED`) do not come here.
        """
        words = describe(failure)
        match kind:
            # told apart for the advice alone: whoever reads `base_url` would look for a wrong
            # address
            case FailureKind.FATAL_TARGET if failure.cause is Fault.CERTIFICATE:
                return GiveUp(words, retryable=False, parks=True, look_at=_CERTIFICATES)
            case FailureKind.FATAL_TARGET if 300 <= (failure.status or 0) < 400:
                return GiveUp(words, retryable=False, parks=True, look_at=_ADDRESS)
            case FailureKind.FATAL_TARGET:
                return GiveUp(words, retryable=False, parks=True)
            case FailureKind.RATE_LIMITED | FailureKind.OVERLOADED:
                return self._refused(failure, words, now)
            case FailureKind.STALLED:
                self.stalls += 1
                # counted apart from other failures: each silent try has taken minutes, a refused
                # one a second
                if self.stalls >= self.retry_policy.stalls:
                    return GiveUp(f"{words}, {self.stalls} times", retryable=True)
                return self._again(failure, words, now)
            case FailureKind.EMPTY:
                self.empties += 1
                if self.empties > self.retry_policy.empties:
                    return GiveUp(f"{words}, {self.empties} times", retryable=True)
                return Retry(0.0, words)
            case FailureKind.UNREACHABLE if failure.cause is Fault.UNKNOWN_HOST and not known:
                if strikes >= _UNKNOWN_HOST_TRIES:
                    return GiveUp(words, retryable=False, parks=True, look_at=_ADDRESS)
                return self._again(failure, words, now)
            case FailureKind.UNREACHABLE if not known:
                # a host that never answered is a wrong address, or a server that was not started
                step = self._again(failure, words, now)
                if isinstance(step, GiveUp):
                    return replace(step, parks=True, look_at=_ADDRESS)
                return step
            case FailureKind.TRANSIENT | FailureKind.UNREACHABLE:
                return self._again(failure, words, now)
            case FailureKind.OTHER_MODEL:
                # a gateway falls back for as long as its model is away: a later run may find it
                return GiveUp(words, retryable=True)
            case _:
                return GiveUp(words, retryable=False)

    def uncount(self) -> None:
        """The last try failed for want of a network, which is waited for elsewhere."""
        self.tries = max(0, self.tries - 1)

    def _again(self, failure: Failure, words: str, now: float) -> Retry | GiveUp:
        self.tries += 1
        if self._first_failure_at is None:
            self._first_failure_at = now
        spent = now - self._first_failure_at
        if self.tries >= self.retry_policy.tries or spent >= self.retry_policy.trying_s:
            return GiveUp(f"{words}, after {plural(self.tries, 'try', 'tries')}", retryable=True)
        asked = failure.retry_after_s or 0.0
        step = f" (try {self.tries + 1} of {self.retry_policy.tries})"
        return Retry(max(asked, self._jitter(self.tries)), words + step, asked)

    def _refused(self, failure: Failure, words: str, now: float) -> Retry | GiveUp:
        self.refusals += 1
        if self._first_refusal_at is None:
            self._first_refusal_at = now
        if now - self._first_refusal_at >= self.retry_policy.refused_s:
            return GiveUp(
                f"{words}, refused {plural(self.refusals, 'try', 'tries')}", retryable=True
            )
        asked = failure.retry_after_s
        if asked is None:
            return Retry(self._jitter(self.refusals), words)
        # some servers ask for no wait at all and mean it no better than those that ask for none
        return Retry(max(asked, self._jitter(self.refusals)), words, asked)

    def _jitter(self, number: int) -> float:
        # 30 doublings are beyond any pause, and larger exponents would overflow a float
        ceiling = self.retry_policy.first_pause_s * 2.0 ** min(number - 1, 30)
        # "full jitter": of a thousand calls that failed together the next tries are spread over
        # the whole pause, and do not meet again
        return self.random() * min(ceiling, self.retry_policy.longest_pause_s)
