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
def test_no_way_to_a_host_that_worked_means_no_network(fake_time: FakeTime, cause: Cause) -> None:
    known, _ = reach(fake_time)
    known.mark_reached(ONE)
    known.failed(ONE, cause)
    assert known.waiting_reason(ONE) is None
    known.failed(ONE, cause)
    assert known.waiting_reason(ONE) == DOWN
    assert known.waiting_reason(TWO) is None, "each host is found out by itself"


def test_without_a_network_at_the_start_a_host_is_waited_for(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time)
    for _ in range(2):
        known.failed(ONE, Cause.NETWORK)
    assert known.waiting_reason(ONE) == DOWN
    known.mark_reached(ONE)
    assert known.waiting_reason(ONE) is None


def test_a_host_that_nobody_knows_is_a_wrong_name_and_no_lost_network(fake_time: FakeTime) -> None:
    known, _ = reach(fake_time)
    for _ in range(4):
        known.failed(ONE, Cause.UNKNOWN_HOST)
    assert known.waiting_reason(ONE) is None
    assert not known.has_worked(ONE)


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
        waiting = [known.wait(host_port, longest_s=3600) for host_port in (ONE, ONE, ONE)]
        return await asyncio.gather(*waiting)

    assert asyncio.run(run()) == [True, True, True]
    assert knocking.knocked == ["one.example"] * 6
    assert fake_time.slept == [1, 2, 4, 8, 15, 15]
    assert known.waiting_reason(ONE) is None


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
