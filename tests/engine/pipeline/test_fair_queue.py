"""Every target gets its share of the workers."""

from __future__ import annotations

import asyncio

from engine.benchmark import Stage
from engine.pipeline.context import LiveAnswer, LiveBoard
from engine.pipeline.control import Claims
from engine.pipeline.scheduler import FairQueue
from tests.waiting import PATIENCE_S


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


# Rows on the claims: whose they are, and waiting until they are nobody's.


ROW = ("b", Stage.EVALUATE, "m01_s001_v01__a")


async def test_whoever_does_a_row_once_more_waits_until_it_is_put_down() -> None:
    claims = Claims()
    assert claims.claim(*ROW)
    waiting = asyncio.create_task(claims.claim_again(*ROW))
    await asyncio.sleep(0)
    assert not waiting.done()
    claims.release(*ROW)
    assert await asyncio.wait_for(waiting, PATIENCE_S)
    assert claims.is_claimed(*ROW)


async def test_a_row_is_not_done_once_more_twice_at_once() -> None:
    claims = Claims()
    assert await claims.claim_again(*ROW)
    assert not await asyncio.wait_for(claims.claim_again(*ROW), PATIENCE_S)
    assert not claims.claim(*ROW)
    claims.release(*ROW)
    assert claims.claim(*ROW)


# What is written, looked at by other threads while a run goes on.


def test_what_is_written_is_read_while_rows_begin_and_end() -> None:
    board = LiveBoard()
    begun = iter(range(100))

    class Meanwhile(LiveAnswer):
        """While it is read, another row begins."""

        def text(self) -> str:
            board.write("b", Stage.EVALUATE, f"later-{next(begun)}")
            return super().text()

    for number in range(3):
        row = "b", Stage.EVALUATE, f"row-{number}"
        board._writing[row] = Meanwhile()
        board._writing[row].add(f'{{"justification": "It holds {number}."}}')
    assert [each.text for each in board.writing()] == [
        f"justification: It holds {n}." for n in range(3)
    ]
