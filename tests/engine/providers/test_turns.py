"""Many calls that begin at once begin a few in each turn of the event loop."""

from __future__ import annotations

import asyncio

from engine.providers.limiter import BEGIN_AT_ONCE, StartThrottle


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
