"""Rows on the claims: whose they are, and waiting until they are nobody's."""

from __future__ import annotations

import asyncio

from engine.benchmark import Stage
from engine.pipeline.control import Claims
from tests.waiting import PATIENCE_S

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
