"""A Python function behind the same door as every model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from engine.benchmark import Usage
from engine.errors import ModelError
from engine.providers.exchange import Deadlines, ReplyBuffer
from engine.providers.functions.process import FunctionError, FunctionPlace, FunctionProcess
from engine.providers.model import Finish, JsonSchema, Message, OnText, Reply
from engine.providers.protocols.sse import OversizedError
from engine.providers.redaction import Redactor
from engine.providers.retry import RetryPolicy


class FunctionPool:
    """The processes of one function. Belongs to one event loop; close it there."""

    def __init__(self, place: FunctionPlace, processes: int) -> None:
        self.place = place
        self._free = asyncio.Semaphore(processes)
        self._idle: list[FunctionProcess] = []

    async def ask(
        self,
        messages: Sequence[Message],
        session: str,
        reply: ReplyBuffer,
        retry_policy: RetryPolicy,
    ) -> None:
        """One call, in a process that does nothing else meanwhile: what the function does to it is
        done to this call alone. Raises `FunctionError`, `OversizedError`."""
        async with self._free:
            process = self._idle.pop() if self._idle else await FunctionProcess.start(self.place)
            is_well = False
            try:
                await _within(process, messages, session, reply, retry_policy)
                is_well = True
            except FunctionError as error:
                is_well = not error.is_over
                raise
            finally:
                if is_well:
                    self._idle.append(process)
                else:
                    await process.end()

    async def close(self) -> None:
        """End the processes that wait; a call that follows starts another."""
        while self._idle:
            await self._idle.pop().end()


async def _within(
    process: FunctionProcess,
    messages: Sequence[Message],
    session: str,
    reply: ReplyBuffer,
    retry_policy: RetryPolicy,
) -> None:
    """With the deadlines of every model's reply."""
    deadlines = Deadlines(retry_policy)

    def hear(piece: str) -> None:
        deadlines.moved()
        reply.add(piece)

    try:
        async with deadlines.alarm:
            await process.ask(messages, session, hear)
    except TimeoutError:
        raise FunctionError(deadlines.words, is_over=True) from None
    reply.ended()


@dataclass(frozen=True, slots=True)
class FunctionModel:
    """A function `reply(messages, session)` of the workspace."""

    label: str
    pool: FunctionPool = field(repr=False)
    retry_policy: RetryPolicy = field(repr=False)
    redact: Redactor = field(repr=False)
    cost_usd: float | None = None
    """Of each call: 0 for what costs nothing, None for what nobody knows."""
    session: str = ""

    @property
    def scripted(self) -> bool:
        return False

    def in_session(self, session: str) -> Self:
        """As `TakesSession`."""
        return replace(self, session=session)

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        """Raises `ModelError`."""
        del schema, seed  # a function is asked for nothing but its reply
        buffer = ReplyBuffer(on_text, time.monotonic)
        try:
            await self.pool.ask(messages, self.session, buffer, self.retry_policy)
        except (FunctionError, OversizedError) as error:
            buffer.void()
            raise ModelError(f"{self.label}: {self.redact(str(error))}", retryable=True) from None
        except OSError as error:
            words = error.strerror or "unknown reason"
            raise ModelError(
                f"{self.label}: its process cannot be started: {words}", retryable=True
            ) from None
        text = "".join(buffer.spoken)
        if not text.strip():
            raise ModelError(f"{self.label}: the function answered with nothing", retryable=True)
        thoughts = "".join(buffer.splitter.thoughts).strip() or None
        return Reply(text, Finish.STOP, Usage(1, None, None, None, self.cost_usd), thoughts)


async def unusable(place: FunctionPlace) -> str | None:
    """Why the function cannot be called, found by importing it; None where it can."""
    try:
        process = await FunctionProcess.start(place)
    except FunctionError as error:
        return str(error)
    except OSError as error:
        return f"its process cannot be started: {error.strerror or 'unknown reason'}"
    await process.end()
    return None
