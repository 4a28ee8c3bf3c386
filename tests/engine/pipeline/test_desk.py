"""Rows on the desk: whose they are, and waiting until they are nobody's."""

from __future__ import annotations

import asyncio

from engine.benchmark import Stage
from engine.pipeline.control import Claims

ROW = ("b", Stage.EVALUATE, "m01_s001_v01__a")


def test_whoever_does_a_row_once_more_waits_until_it_is_put_down() -> None:
    async def script() -> None:
        desk = Claims()
        assert desk.take(*ROW)
        waiting = asyncio.create_task(desk.take_again(*ROW))
        await asyncio.sleep(0)
        assert not waiting.done()
        desk.put_down(*ROW)
        assert await asyncio.wait_for(waiting, 1.0)
        assert desk.is_taken(*ROW, again=True)

    asyncio.run(script())


def test_a_row_is_not_done_once_more_twice_at_once() -> None:
    async def script() -> None:
        desk = Claims()
        assert await desk.take_again(*ROW)
        assert not await asyncio.wait_for(desk.take_again(*ROW), 1.0)
        assert not desk.take(*ROW)
        desk.put_down(*ROW)
        assert desk.take(*ROW)
        assert not desk.is_taken(*ROW, again=True)

    asyncio.run(script())
