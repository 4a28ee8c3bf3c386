"""What comes after a failed request: how often a call is tried, how long it waits between, and when
it is given up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from engine.providers.failures import Cause, Failure
from engine.providers.model import Finish
from engine.providers.retry import GiveUp, ModelHistory, Retry, RetryPolicy, RetryState
from tests.approval import approve

BROKEN = Failure(Cause.BROKEN)
REFUSED = Failure(Cause.STATUS, status=429)
FORBIDDEN = Failure(Cause.STATUS, "not today", status=403)


def state(*, chance: float = 1.0, answered: bool = False, sends_once: bool = False) -> RetryState:
    history = ModelHistory(answered=answered)
    return RetryState(RetryPolicy(), lambda: chance, history, sends_once=sends_once)


def each(failures: Sequence[Failure], **around: bool) -> Callable[[], list[object]]:
    """The steps after failures of one call, all at one moment."""
    own = {key: around.pop(key) for key in ("answered", "sends_once") if key in around}

    def play() -> list[object]:
        one = state(**own)
        return [one.next(failure, 0.0, **around) for failure in failures]

    return play


def until(seconds: float, failure: Failure) -> Callable[[], list[object]]:
    """The steps after the same failure at the beginning, just before a time, and at it."""

    def play() -> list[object]:
        one = state()
        return [one.next(failure, now) for now in (0.0, seconds - 1, seconds)]

    return play


def by_status(status: int, **more: float) -> Failure:
    return replace(Failure(Cause.STATUS, status=status), **more)  # type: ignore[arg-type]


CASES: Final[Mapping[str, Callable[[], list[object]]]] = {
    "a broken connection": each([BROKEN] * 8),
    "a broken connection, tried for half an hour": until(1800, BROKEN),
    "silence": each([Failure(Cause.STALLED)] * 2),
    "nothing": each([Failure(Cause.EMPTY)] * 3),
    "a busy server that asks for a wait": each([by_status(503, retry_after_s=12.0)] * 5),
    "a rate limit": each([REFUSED] * 3),
    "a rate limit that asks for a wait": each([by_status(429, retry_after_s=12.0)]),
    "a rate limit that asks for no wait": each([by_status(429, retry_after_s=0.0)] * 3),
    "a rate limit for an hour": until(3600, REFUSED),
    "a rate limit that asks for two hours": each([by_status(429, retry_after_s=7200.0)]),
    "an overloaded server": each([by_status(529)] * 2),
    "a quota": each([Failure(Cause.STATUS, "Requests per day limit exceeded", 429)]),
    "a network that is waited for": each([Failure(Cause.NETWORK)] * 9, probing=True),
    "a known server": each([Failure(Cause.NO_CONNECTION)] * 8, known=True),
    "a server that never answered": each([Failure(Cause.NO_CONNECTION)] * 8, known=False),
    "a proxy that was never reached": each([Failure(Cause.NO_PROXY)] * 8, known=False),
    "a name that was never found": each([Failure(Cause.UNKNOWN_HOST)] * 3, known=False),
    "a port without TLS": each([Failure(Cause.NO_TLS_ANSWER)] * 3, known=False),
    "a certificate": each([Failure(Cause.CERTIFICATE)]),
    "a server that has moved": each([by_status(301)]),
    "a refused key": each([by_status(401)]),
    "a refused request": each([by_status(400)]),
    "a refused request that can be changed": each([by_status(400)], changed=True),
    "a full context": each([by_status(413)], changed=True),
    "a filter": each([Failure(Cause.STATUS, code="content_filter", status=400)]),
    "a key that may not": each([FORBIDDEN]),
    "unknown words of a model that has answered": each([FORBIDDEN] * 3, answered=True),
    "another model": each([Failure(Cause.OTHER_MODEL)]),
    "a lost worker": each([Failure(Cause.AGENT_LOST, "one")] * 10),
    "a worker without a variable": each([Failure(Cause.AGENT_UNFIT)] * 12),
    "no open file left": each([Failure(Cause.NO_FILES)] * 12),
    "sent once, and broken": each([BROKEN], sends_once=True),
    "sent once, and its worker is lost": each([Failure(Cause.AGENT_LOST)], sends_once=True),
    "sent once, and no connection": each([Failure(Cause.NO_CONNECTION)], sends_once=True),
    "sent once, and turned away": each([REFUSED], sends_once=True),
}


def in_words(step: object) -> str:
    match step:
        case Retry(after_s, words, all_wait_s):
            others = f", as all others after {all_wait_s:g} s" if all_wait_s else ""
            return f"again after {after_s:g} s{others}: {words}" if words else "again at once"
        case GiveUp(message, retryable, parks, look_at, for_s, why):
            later = "for now" if retryable else "for good"
            place = f" for {for_s:g} s" if for_s else f", look at {look_at}" if look_at else ""
            return f"{f'park{place}' if parks else 'fail'} ({later}): {message}{why}"
        case Finish():
            return f"end with {step}"
    raise TypeError(step)


def test_what_comes_after_each_failure() -> None:
    lines = []
    for name, play in CASES.items():
        runs = [(words, len(list(run))) for words, run in groupby(map(in_words, play()))]
        lines += [name, *(f"  {words}" + (f" ({n} times)" * (n > 1)) for words, n in runs)]
    approve("\n".join(lines))


def test_pauses_are_drawn_from_nothing_up_to_the_whole() -> None:
    none, half = state(chance=0.0), state(chance=0.5)
    waits = [one.next(BROKEN, 0.0) for one in (none, half, half, half)]
    assert [one.after_s for one in waits if isinstance(one, Retry)] == [0, 0.5, 1, 2]
