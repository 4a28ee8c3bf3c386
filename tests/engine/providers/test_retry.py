"""How often a call is tried, how long it waits between, and when it is given up."""

from __future__ import annotations

import pytest

from engine.providers.attempts import Cause, Failure, FailureKind, classify
from engine.providers.http.transport import Fault
from engine.providers.retry import GiveUp, Retry, RetryPolicy, RetryState
from tests.approval import approve

BROKEN = Failure(Fault.BROKEN)
STALLED = Failure(Cause.STALLED)
EMPTY = Failure(Cause.EMPTY)
REFUSED = Failure(Cause.STATUS, status=429)


def retries(retry_policy: RetryPolicy | None = None, chance: float = 1.0) -> RetryState:
    return RetryState(retry_policy or RetryPolicy(), lambda: chance)


def follow(failure: Failure, times: int, **known: bool) -> list[Retry | GiveUp]:
    one = retries()
    return [one.next(failure, classify(failure), 0.0, **known) for _ in range(times)]


def waits(steps: list[Retry | GiveUp]) -> list[float]:
    return [step.after_s for step in steps if isinstance(step, Retry)]


def test_passing_failures_are_tried_eight_times_with_doubling_pauses() -> None:
    steps = follow(BROKEN, 8)
    assert waits(steps) == [1, 2, 4, 8, 16, 32, 60]
    approve(steps[-1])
    approve(steps[1])


def test_pauses_are_drawn_from_nothing_up_to_the_whole() -> None:
    none, half = retries(chance=0.0), retries(chance=0.5)
    assert waits([none.next(BROKEN, FailureKind.TRANSIENT, 0.0)]) == [0]
    assert waits([half.next(BROKEN, FailureKind.TRANSIENT, 0.0) for _ in range(3)]) == [0.5, 1, 2]


def test_refusals_do_not_count_as_tries_but_have_an_end_in_time() -> None:
    one = retries()
    for _ in range(100):
        assert isinstance(one.next(REFUSED, FailureKind.RATE_LIMITED, 0.0), Retry)
    assert one.tries == 0
    assert isinstance(one.next(REFUSED, FailureKind.OVERLOADED, 3599.0), Retry)
    end = one.next(REFUSED, FailureKind.RATE_LIMITED, 3600.0)
    approve(end)


def test_the_wait_that_a_server_asks_for_is_for_the_whole_account() -> None:
    asked = Failure(Cause.STATUS, status=429, retry_after_s=12.0)
    assert follow(asked, 1) == [Retry(12.0, "429: rate limit", 12.0)]
    busy = Failure(Cause.STATUS, status=503, retry_after_s=12.0)
    assert waits(follow(busy, 5)) == [12, 12, 12, 12, 16]


def test_silence_is_tried_twice() -> None:
    steps = follow(STALLED, 2)
    assert isinstance(steps[0], Retry)
    approve(steps[1])


def test_an_empty_answer_is_asked_for_twice_more_and_at_once() -> None:
    steps = follow(EMPTY, 3)
    assert waits(steps) == [0, 0]
    approve(steps[2])


def test_tries_end_in_time_too() -> None:
    one = retries(RetryPolicy(trying_s=100))
    assert isinstance(one.next(BROKEN, FailureKind.TRANSIENT, 0.0), Retry)
    assert isinstance(one.next(BROKEN, FailureKind.TRANSIENT, 100.0), GiveUp)


@pytest.mark.parametrize(
    ("status", "parks"), [(401, True), (402, True), (403, True), (404, True), (400, False)]
)
def test_what_cannot_succeed_is_not_tried_again(status: int, *, parks: bool) -> None:
    step = follow(Failure(Cause.STATUS, status=status), 1)[0]
    assert isinstance(step, GiveUp)
    assert (step.parks, step.retryable) == (parks, False)


def test_of_a_server_that_has_moved_the_address_is_to_be_looked_at() -> None:
    [step] = follow(Failure(Cause.STATUS, status=301), 1)
    assert isinstance(step, GiveUp)
    assert (step.parks, step.look_at) == (True, "base_url")


def test_of_a_proxy_that_was_never_reached_its_variables_are_to_be_looked_at() -> None:
    failure = Failure(Fault.NO_PROXY, "proxy:3128: econnrefused")
    one = retries()
    *_, step = (
        one.next(failure, FailureKind.UNREACHABLE, 0.0, strikes=1, known=False) for _ in range(8)
    )
    assert isinstance(step, GiveUp)
    words = "the proxy could not be reached (proxy:3128: econnrefused), after 8 tries"
    assert step.message == words
    assert step.parks
    assert "HTTPS_PROXY" in step.look_at


def test_a_name_that_was_never_found_is_given_up_after_three() -> None:
    one, failure = retries(), Failure(Fault.UNKNOWN_HOST)
    steps = [
        one.next(failure, FailureKind.UNREACHABLE, 0.0, strikes=strikes, known=False)
        for strikes in (1, 2, 3)
    ]
    approve(steps[2])


@pytest.mark.parametrize("known", [True, False])
def test_a_server_that_never_answered_parks_its_models(*, known: bool) -> None:
    last = follow(Failure(Fault.NO_CONNECTION, "econnrefused"), 8, known=known)[-1]
    assert isinstance(last, GiveUp)
    approve(last.message)
    assert last.parks is not known


@pytest.mark.parametrize("known", [True, False])
def test_a_port_that_never_answered_tls_is_given_up_after_three(*, known: bool) -> None:
    steps = follow(Failure(Fault.NO_TLS_ANSWER, "a:443 is silent"), 3, known=known)
    assert isinstance(steps[0], Retry)
    assert steps[0].words == f"no connection (a:443 is silent) (try 2 of {8 if known else 3})"
    last = GiveUp(
        "no connection (a:443 is silent), after 3 tries",
        retryable=True,
        parks=True,
        look_at="base_url",
    )
    assert (steps[2] == last) is not known


def test_a_server_that_asks_for_no_wait_is_not_asked_again_at_once() -> None:
    at_once = Failure(Cause.STATUS, status=429, retry_after_s=0.0)
    assert min(waits(follow(at_once, 4))) > 0
