"""What a pipeline does from beginning to end, as an engine has it done."""

from __future__ import annotations

from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult


async def run_once(pipeline: Pipeline, order: Order) -> RunResult:
    """Do one order and let go of every connection."""
    try:
        return await pipeline.run_order(order)
    finally:
        await pipeline.close()
