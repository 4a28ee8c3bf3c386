"""Rows on the desk: whose they are, and waiting until they are nobody's."""

from __future__ import annotations

import asyncio

from engine.benchmark import Stage
from engine.pipeline.desk import Desk

ROW = ("b", Stage.EVALUATE, "m01_s001_v01__a")
OTHER = ("b", Stage.EVALUATE, "m01_s001_v01__b")


def test_whoever_waits_for_rows_goes_on_when_the_last_of_them_is_put_down() -> None:
    async def script() -> None:
        desk = Desk()
        assert desk.take(*ROW)
        assert desk.take(*OTHER)
        waiting = asyncio.create_task(desk.until_free([ROW, OTHER]))
        desk.put_down(*ROW)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        desk.put_down(*OTHER)
        await asyncio.wait_for(waiting, 1.0)

    asyncio.run(script())


def test_nobody_waits_for_rows_that_are_free() -> None:
    async def script() -> None:
        desk = Desk()
        desk.take(*OTHER)
        await asyncio.wait_for(desk.until_free([ROW]), 1.0)

    asyncio.run(script())
