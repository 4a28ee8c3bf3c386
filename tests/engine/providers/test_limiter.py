"""The window finds a server's limit, stays under it, and lets calls through in order."""

from __future__ import annotations

import asyncio
import heapq
import random
from dataclasses import dataclass, field

import pytest

from engine.providers.failures import Signal
from engine.providers.limiter import BEGIN_AT_ONCE, Limiter, StartThrottle, Window
from tests.engine.providers.conftest import FakeTime


@dataclass
class Simulation:
    """A server that refuses what is one too many, and callers who always want more."""

    cap: int
    answer_s: float = 0.05
    whole_s: float = 1.2
    jitter: float = 0.1
    window: Window = field(default_factory=Window)
    chance: random.Random = field(default_factory=lambda: random.Random(7))
    successes: int = 0
    refusals: int = 0
    held: int = 0
    """On the server."""
    area: float = 0.0
    """Requests held, times seconds."""

    def run(self, seconds: float, callers: int = 400) -> None:
        events: list[tuple[float, int, str, int]] = []
        now, number = 0.0, 0
        while True:
            while self.window.has_room and self.window.in_flight < callers:
                number += 1
                let_in = self.held < self.cap
                self.held += let_in
                mark = self.window.started()
                what = "accepted" if let_in else "refused"
                heapq.heappush(events, (now + self.spread(self.answer_s), number, what, mark))
            at, which, what, mark = heapq.heappop(events)
            self.area += self.held * (min(at, seconds) - now)
            now = at
            if now >= seconds:
                return
            match what:
                case "refused":
                    self.refusals += 1
                    self.window.ended(mark, Signal.REFUSED)
                case "accepted":
                    self.window.accepted()
                    ends = now + self.spread(self.whole_s - self.answer_s)
                    heapq.heappush(events, (ends, which, "done", mark))
                case _:
                    self.successes += 1
                    self.held -= 1
                    self.window.ended(mark, Signal.WELL)

    def spread(self, seconds: float) -> float:
        return seconds * (1 + self.jitter * self.chance.random())


@pytest.mark.parametrize("jitter", [0.0, 0.1, 0.8])
@pytest.mark.parametrize("cap", [1, 2, 8, 40, 150])
def test_the_window_settles_near_the_limit_with_few_refusals(cap: int, jitter: float) -> None:
    world = Simulation(cap, jitter=jitter)
    world.run(60)
    assert world.area / 60 >= 0.8 * cap
    assert world.refusals <= world.successes / 3


def test_the_window_opens_to_what_is_needed_within_a_second() -> None:
    world = Simulation(cap=10_000)
    world.run(1.0, callers=200)
    assert world.held == 200


def test_a_window_that_is_not_full_does_not_grow() -> None:
    world = Simulation(cap=10_000)
    world.run(60, callers=3)
    assert world.window.limit < 10


def test_refusals_of_the_same_moment_cut_once() -> None:
    window = Window(limit=100)
    marks = [window.started() for _ in range(100)]
    window.ended(marks[0], Signal.REFUSED)
    after_one = window.limit
    for mark in marks[1:5]:
        window.ended(mark, Signal.REFUSED)
    assert after_one == 90
    assert window.limit == 90


def test_a_limit_of_requests_a_minute_is_recovered_from_quickly() -> None:
    window = Window(limit=100)
    for mark in [window.started() for _ in range(100)]:
        window.ended(mark, Signal.REFUSED)
    assert window.limit == 1
    accepted = 0
    while window.limit < 50:
        while window.has_room:
            window.started()
        window.accepted()
        accepted += 1
    assert accepted <= 30


def test_a_server_in_trouble_holds_the_window_and_the_third_time_in_a_row_cuts_it() -> None:
    window = Window(limit=40)
    marks = [window.started() for _ in range(40)]
    window.ended(marks.pop(), Signal.TROUBLE)
    for _ in range(20):
        window.accepted()
    assert window.limit == 40
    window.ended(marks.pop(), Signal.TROUBLE)
    window.ended(marks.pop(), Signal.TROUBLE)
    assert window.limit == 36


def test_success_between_troubles_keeps_the_window() -> None:
    window = Window(limit=40)
    marks = [window.started() for _ in range(40)]
    for _ in range(9):
        window.ended(marks.pop(), Signal.TROUBLE)
        window.ended(marks.pop(), Signal.WELL)
    assert window.limit == 40


async def queued(limiter: Limiter, count: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(limiter.enter(limiter.ticket())) for _ in range(count)]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


def test_calls_come_through_in_the_order_of_their_tickets(fake_time: FakeTime) -> None:
    async def run() -> list[int]:
        limiter = Limiter(fake_time.clock, fake_time.sleep)
        limiter.window.limit = 1
        early = limiter.ticket()
        first = await limiter.enter(limiter.ticket())
        order: list[int] = []

        async def enter(ticket: int) -> None:
            slot = await limiter.enter(ticket)
            order.append(ticket)
            limiter.leave(slot, Signal.WELL)

        tasks = [asyncio.create_task(enter(limiter.ticket())) for _ in range(3)]
        await asyncio.sleep(0)
        # a call that is tried again comes before those that began after it
        tasks.append(asyncio.create_task(enter(early)))
        await asyncio.sleep(0)
        limiter.leave(first, Signal.WELL)
        await asyncio.gather(*tasks)
        return order

    assert asyncio.run(run()) == [1, 3, 4, 5]


def test_a_cancelled_call_gives_its_place_to_the_next(fake_time: FakeTime) -> None:
    async def run() -> int:
        limiter = Limiter(fake_time.clock, fake_time.sleep)
        limiter.window.limit = 1
        first = await limiter.enter(limiter.ticket())
        waiting = await queued(limiter, 3)
        waiting[0].cancel()
        limiter.leave(first, Signal.NOTHING)
        # granted, and cancelled before it learned of it
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        limiter.leave(waiting[2].result(), Signal.NOTHING)
        return limiter.window.in_flight

    assert asyncio.run(run()) == 0


def test_nobody_enters_while_the_server_asks_to_wait(fake_time: FakeTime) -> None:
    async def run() -> float:
        limiter = Limiter(fake_time.clock, fake_time.sleep)
        limiter.close_for(12)
        limiter.close_for(5)
        assert limiter.closed_for_s == 12
        began = fake_time.clock()
        await limiter.enter(limiter.ticket())
        return fake_time.clock() - began

    assert asyncio.run(run()) == 12


async def counted(turns: StartThrottle, calls: int, cancelled: int = 0) -> list[list[int]]:
    """Which calls begin in each turn of the loop."""
    begun: list[int] = []
    found: list[list[int]] = []

    async def call(number: int) -> None:
        await turns.begin()
        begun.append(number)

    tasks = [asyncio.create_task(call(number)) for number in range(calls)]
    await asyncio.sleep(0)
    found.append(begun.copy())
    for task in tasks[BEGIN_AT_ONCE : BEGIN_AT_ONCE + cancelled]:
        task.cancel()
    while not all(task.done() for task in tasks):
        begun.clear()
        await asyncio.sleep(0)
        if begun:
            found.append(begun.copy())
    return found


def test_a_few_calls_begin_in_each_turn_in_the_order_in_which_they_came() -> None:
    found = asyncio.run(counted(StartThrottle(), 3 * BEGIN_AT_ONCE + 1))
    assert [len(some) for some in found] == [BEGIN_AT_ONCE] * 3 + [1]
    assert [number for some in found for number in some] == list(range(3 * BEGIN_AT_ONCE + 1))


def test_calls_that_are_given_up_take_no_turn() -> None:
    found = asyncio.run(counted(StartThrottle(), 3 * BEGIN_AT_ONCE, cancelled=BEGIN_AT_ONCE))
    assert [len(some) for some in found] == [BEGIN_AT_ONCE] * 2


def test_a_call_that_comes_later_begins_at_once() -> None:
    async def later() -> list[list[int]]:
        turns = StartThrottle()
        await counted(turns, 2 * BEGIN_AT_ONCE)
        return await counted(turns, 1)

    assert asyncio.run(later()) == [[0]]
