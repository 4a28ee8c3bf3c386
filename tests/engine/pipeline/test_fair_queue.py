"""Every target gets its share of the workers."""

from __future__ import annotations

import asyncio

from engine.pipeline.scheduler import FairQueue


def test_a_target_that_holds_its_workers_long_does_not_get_more_of_them() -> None:
    async def draw() -> list[str]:
        queue = FairQueue([(lane, number) for lane in ("slow", "fast") for number in range(20)])
        await queue.close()
        drawn: list[str] = []
        for _ in range(20):
            item = await queue.next()
            assert item is not None
            drawn.append(item[0])
            if item[0] == "fast":
                queue.done("fast")
        return drawn

    drawn = asyncio.run(draw())
    assert drawn.count("slow") == 1


def test_an_empty_queue_waits_until_it_is_closed() -> None:
    async def draw() -> list[object]:
        queue: FairQueue[int] = FairQueue()
        waiting = [asyncio.create_task(queue.next()) for _ in range(2)]
        await asyncio.sleep(0)
        await queue.put("a", 1)
        await queue.close()
        return sorted(await asyncio.gather(*waiting), key=str)

    assert asyncio.run(draw()) == [("a", 1), None]
