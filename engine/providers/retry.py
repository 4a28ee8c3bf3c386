"""Decides what comes after a failed request, by the table of kinds and how often a call was tried:
the one function that reads that table. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from engine.display import plural
from engine.providers.attempts import Meaning, classify, describe, meaning_of
from engine.providers.failures import KEYS, Cause, Failure, FailureKind, Next, sign_of
from engine.providers.model import Finish

_NEVER_REACHED_TRIES: Final[Mapping[Cause, int]] = {
    # a resolver may fail for a moment; a misspelt name stays unknown
    Cause.UNKNOWN_HOST: 3,
    # each has taken a whole timeout, and what has never answered TLS most likely does not speak it
    Cause.NO_TLS_ANSWER: 3,
}
SERVER_ERROR: Final = 500
"""The status of a server that fails on what it is asked; an outage has another."""
_BATCH_TRIES: Final = 3
_WEEKS_S: Final = 30 * 86_400.0
"""Longer than anything takes in a batch."""
_FORBIDDEN_IN_A_ROW: Final = 3
LOOK_AGAIN_S: Final = 0.05
"""Seconds after which calls that wait for an open file check again."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits of one call."""

    tries: int = 8
    """The most requests that may fail for a transient reason."""
    lost_workers: int = 10
    """Workers that one call may lose: the call itself may be what ends them."""
    stalls: int = 2
    """The most requests that may stall, as each has cost a long wait."""
    empties: int = 3
    """The most requests that may be answered with nothing."""
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

    after_s: float = 0.0
    words: str = ""
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
    look_at: str = KEYS
    """The parts of the model's configuration that may be wrong, if it parks; empty for none."""
    for_s: float | None = None
    """Seconds after which calls may succeed again, if it parks and they are known."""
    why: str = ""
    """Why it is not tried again, in our own words."""


@dataclass(slots=True)
class ModelHistory:
    """What all calls to a model have shown of it."""

    answered: bool = False
    """Whether it ever gave an answer."""
    forbidden: int = 0
    """How often in a row it refused with a 403 in unknown words since."""

    def note_answer(self) -> None:
        self.answered, self.forbidden = True, 0

    def may_be_filtered(self, failure: Failure) -> bool:
        """Count a 403; return whether it may be a filter's, as the words are unknown and the model
        has answered: it is taken for the key's only if it is the only answer for a while."""
        if failure.status != 403 or not self.answered or meaning_of(failure) is not None:
            return False
        self.forbidden += 1
        return self.forbidden < _FORBIDDEN_IN_A_ROW


def _is_undelivered(failure: Failure, kind: FailureKind) -> bool:
    """Whether a request certainly did not reach the application, so that even one that must not
    arrive twice may be sent again: a rate limit turned it away, or there was no connection. A
    proxy's word for that is not trusted, as it may have passed the request on."""
    if kind is FailureKind.RATE_LIMITED:
        return failure.cause is Cause.STATUS
    is_local = failure.cause in {Cause.NO_FILES, Cause.AGENT_UNFIT}
    return is_local or (kind is FailureKind.UNREACHABLE and failure.cause is not Cause.PROXY)


@dataclass(slots=True)
class RetryState:
    """The failures of one call so far."""

    retry_policy: RetryPolicy
    random: Callable[[], float]
    history: ModelHistory = field(default_factory=ModelHistory)
    sends_once: bool = False
    """Whether a request that may have been received is never sent again."""
    tries: int = 0
    _counts: Counter[FailureKind | Next] = field(default_factory=Counter)
    _first_at: dict[Next, float] = field(default_factory=dict)
    """When one first failed that was followed by this."""

    def next(
        self,
        failure: Failure,
        now: float,
        *,
        changed: bool = False,
        known: bool = True,
        probing: bool = False,
    ) -> Finish | Retry | GiveUp:
        """Return the next step after a failure, or how the conversation ends with it.

        `changed` is whether the request can be sent without what the server refuses, `known`
        whether the host was ever reached, and `probing` whether all calls wait for it.
        """
        kind = classify(failure)
        if isinstance(kind.next, Finish):
            return kind.next
        if changed:
            return Retry()
        step = self._by_rule(failure, kind, kind.next, now, known=known, probing=probing)
        if isinstance(step, GiveUp) or not self.sends_once or _is_undelivered(failure, kind):
            return step
        why = " (not sent again: it may have arrived)"
        return GiveUp(describe(failure), retryable=True, why=why)

    def _by_rule(
        self,
        failure: Failure,
        kind: FailureKind,
        rule: Next,
        now: float,
        *,
        known: bool,
        probing: bool,
    ) -> Retry | GiveUp:
        words = describe(failure)
        if rule is Next.ELSEWHERE:
            return self._after_local_fault(failure, words)
        match rule:
            case Next.LATER if (failure.retry_after_s or 0.0) > self.retry_policy.refused_s:
                # no momentary limit takes so long
                return self._after_quota(failure)
            case Next.LATER:
                return self._after_refusal(failure, words, now)
            case Next.AGAIN:
                return self._again(failure, kind, words, now)
            case Next.RECONNECT if probing:
                # no try, as the network is waited for before the next request
                return Retry()
            case Next.RECONNECT:
                return self._again(failure, kind, words, now, known=known)
            case Next.PARK if kind is FailureKind.QUOTA_SPENT:
                return self._after_quota(failure)
            case Next.PARK if not self.history.may_be_filtered(failure):
                look_at = sign_of(failure).look_at
                return GiveUp(words, retryable=False, parks=True, look_at=look_at)
            case _:
                return GiveUp(words, retryable=rule is Next.FAIL_FOR_NOW)

    def _after_local_fault(self, failure: Failure, words: str) -> Retry | GiveUp:
        if failure.cause is Cause.NO_FILES:
            return Retry(LOOK_AGAIN_S, words)
        self._counts[FailureKind.AGENT_LOST] += failure.cause is Cause.AGENT_LOST
        most = self.retry_policy.lost_workers
        if self._counts[FailureKind.AGENT_LOST] < most:
            return Retry()
        why = f" (so were {most} workers that made this call: it may be what ends them)"
        return GiveUp(words, retryable=True, why=why)

    def _after_quota(self, failure: Failure) -> GiveUp:
        """Park the model until its quota begins anew, if that is known."""
        asked = failure.retry_after_s or 0.0
        # the wait that Google names beside a quota of the day is that of a minute
        for_s = asked if asked >= self.retry_policy.longest_asked_s else None
        words = describe(failure, Meaning.QUOTA_SPENT)
        return GiveUp(words, retryable=True, parks=True, look_at="", for_s=for_s)

    def _again(
        self, failure: Failure, kind: FailureKind, words: str, now: float, *, known: bool = True
    ) -> Retry | GiveUp:
        policy = self.retry_policy
        self.tries += 1
        self._counts[kind] += 1
        most = policy.tries if known else _NEVER_REACHED_TRIES.get(failure.cause, policy.tries)
        # counted separately, too: each stalled try has taken minutes
        own = {FailureKind.STALLED: policy.stalls, FailureKind.EMPTY: policy.empties}.get(kind)
        is_last = self.tries >= most or (own is not None and self._counts[kind] >= own)
        if is_last or self._spent(Next.AGAIN, now) >= policy.trying_s:
            why = f", after {plural(self.tries, 'try', 'tries')}"
            # a host that was never reached: a wrong address, or a server that is not running
            look_at = sign_of(failure).look_at
            return GiveUp(words, retryable=True, parks=not known, look_at=look_at, why=why)
        asked = min(failure.retry_after_s or 0.0, policy.longest_asked_s)
        step = f"{words} (try {self.tries + 1} of {most})"
        pause = 0.0 if kind is FailureKind.EMPTY else self._jitter(self.tries)
        return Retry(max(asked, pause), step, asked)

    def _after_refusal(self, failure: Failure, words: str, now: float) -> Retry | GiveUp:
        self._counts[Next.LATER] += 1
        if self._spent(Next.LATER, now) >= self.retry_policy.refused_s:
            why = f", refused {plural(self._counts[Next.LATER], 'try', 'tries')}"
            return GiveUp(words, retryable=True, why=why)
        pause = self._jitter(self._counts[Next.LATER])
        if failure.retry_after_s is None:
            return Retry(pause, words)
        asked = min(failure.retry_after_s, self.retry_policy.refused_s)
        # some servers ask for a wait of 0 s, which helps no more than asking for none
        return Retry(max(asked, pause), words, asked)

    def _spent(self, rule: Next, now: float) -> float:
        """Seconds since a failure of this rule first came."""
        return now - self._first_at.setdefault(rule, now)

    def _jitter(self, number: int) -> float:
        # 30 doublings exceed any pause, and larger exponents would overflow a float
        ceiling = self.retry_policy.first_pause_s * 2.0 ** min(number - 1, 30)
        # "full jitter": spreads the next tries of a thousand calls that failed together over the
        # whole pause
        return self.random() * min(ceiling, self.retry_policy.longest_pause_s)
