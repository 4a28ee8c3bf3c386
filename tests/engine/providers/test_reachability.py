"""A network that is gone is told from a host that is, and one caller knocks for all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from engine.providers.accounts import Reachability
from engine.providers.failures import Cause
from engine.providers.http.transport import HostPort
from tests.approval import approve
from tests.engine.providers.conftest import FakeTime

ONE = HostPort("one.example", 443, local=False)
TWO = HostPort("two.example", 443, local=False)
HERE = HostPort("127.0.0.1", 8000, local=True)
DOWN = "network down, probing"


@dataclass
class Knocking:
    """Answers each knock from a list."""

    answers: list[bool]
    knocked: list[str] = field(default_factory=list)

    async def __call__(self, host_port: HostPort) -> bool:
        self.knocked.append(host_port.host)
        return self.answers.pop(0)


def reach(time: FakeTime, *answers: bool) -> tuple[Reachability, Knocking]:
    knocking = Knocking(list(answers))
    return Reachability(clock=time.clock, sleep=time.sleep, probe=knocking), knocking


@pytest.mark.parametrize("cause", [Cause.NETWORK, Cause.UNKNOWN_HOST])
def test_no_way_from_a_host_that_worked_means_no_network_for_all_but_this_machine(
    fake_time: FakeTime, cause: Cause
) -> None:
    known, _ = reach(fake_time)
    known.mark_reached(ONE)
    fake_time.seconds += 1
    known.failed(ONE, cause)
    assert known.waiting_reason(ONE) is None
    known.failed(ONE, cause)
    assert known.waiting_reason(ONE) == known.waiting_reason(TWO) == DOWN
    assert known.waiting_reason(HERE) is None


def test_a_host_that_nobody_knows_is_a_wrong_name_and_no_lost_network(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time)
    for _ in range(4):
        known.failed(ONE, Cause.UNKNOWN_HOST)
    assert known.waiting_reason(ONE) is None
    assert not known.has_worked(ONE)


def test_while_another_host_works_the_network_is_not_down(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time)
    known.mark_reached(ONE)
    fake_time.seconds += 1
    for _ in range(3):
        known.failed(ONE, Cause.NETWORK)
        fake_time.seconds += 1
        known.mark_reached(TWO)
    assert known.waiting_reason(TWO) is None
    approve(known.waiting_reason(ONE))


def test_a_model_on_this_machine_says_nothing_of_the_network(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time)
    known.mark_reached(ONE)
    for _ in range(3):
        fake_time.seconds += 1
        known.failed(ONE, Cause.NETWORK)
        fake_time.seconds += 1
        known.mark_reached(HERE)
    assert known.waiting_reason(ONE) == known.waiting_reason(TWO) == DOWN
    assert known.waiting_reason(HERE) is None


def test_a_server_that_was_there_and_refuses_is_waited_for_alone(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time)
    known.mark_reached(HERE)
    for _ in range(3):
        known.failed(HERE, Cause.NO_CONNECTION)
    approve(known.waiting_reason(HERE))
    assert known.waiting_reason(ONE) is None


def test_one_caller_knocks_for_all_who_wait_ever_more_slowly(fake_time: FakeTime) -> None:
    known, knocking = reach(fake_time, False, False, False, False, False, True)
    known.mark_reached(ONE)
    for _ in range(2):
        known.failed(ONE, Cause.NETWORK)

    async def run() -> list[bool]:
        waiting = [known.wait(host_port, longest_s=3600) for host_port in (ONE, TWO, ONE)]
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [True, True, True]
    assert knocking.knocked == ["one.example"] * 6
    assert fake_time.slept == [1, 2, 4, 8, 15, 15]
    assert known.waiting_reason(TWO) is None


def test_another_takes_over_where_the_one_who_knocks_is_cancelled(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time, False, False, True)
    known.mark_reached(ONE)
    for _ in range(2):
        known.failed(ONE, Cause.NETWORK)

    async def run() -> bool:
        tasks = [asyncio.create_task(known.wait(ONE, longest_s=3600)) for _ in range(2)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        return await tasks[1]

    assert asyncio.run(run())


def test_waiting_has_an_end(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time, *[False] * 10)
    known.mark_reached(ONE)
    for _ in range(2):
        known.failed(ONE, Cause.NETWORK)
    assert not asyncio.run(known.wait(ONE, longest_s=20))
