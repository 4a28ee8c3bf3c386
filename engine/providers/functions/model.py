"""A Python function with the interface of every model, and the process that it runs in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from engine.benchmark import Usage
from engine.errors import ModelError
from engine.providers.accounts import StoppableWaits
from engine.providers.exchange import Deadlines, ReplyBuffer
from engine.providers.line_process import SAID_SOMETHING_ELSE, LineProcess, ProcessError
from engine.providers.model import (
    Attempt,
    Finish,
    JsonSchema,
    Message,
    OnText,
    Reply,
    ReportingModel,
)
from engine.providers.protocols.base import OversizedError
from engine.providers.redaction import Redactor
from engine.providers.retry import RetryPolicy

_CHILD: Final = Path(__file__).with_name("child.py")
START_S: Final = 120.0
"""Seconds to import a module, which may load a model of its own."""
MOST_LINES: Final = 40

OnPrinted = Callable[[str], None]


class FunctionError(ProcessError):
    """The function gave no reply; its process can be used again."""

    is_over = False


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """Which function to call, and where to find it."""

    root: Path
    """The workspace: the process runs in it, and imports modules from it first."""
    call: str
    """`package.module:function`."""
    environ: Callable[[], Mapping[str, str]] = field(repr=False)
    """Returns the environment of the process."""


class FunctionProcess(LineProcess):
    """Handles one request at a time. Belongs to one event loop; end it there."""

    @classmethod
    async def start(cls, place: FunctionPlace, *, longest_s: float = START_S) -> Self:
        """Start a process and import the function. Raises `ProcessError` if that fails or takes
        too long, and `OSError` if there can be no process."""
        # by path and with -P, so that only the workspace decides what is imported
        program = ("-P", str(_CHILD), str(place.root), place.call)
        started = await cls.spawn(program, cwd=place.root, environ=place.environ())
        try:
            async with asyncio.timeout(longest_s):
                await started.wait_until_ready()
        except TimeoutError:
            await started.end()
            raise ProcessError(f"its module was not imported within {longest_s:g} s") from None
        except BaseException:
            await started.end()
            raise
        return started

    async def wait_until_ready(self) -> None:
        """Raises `ProcessError` if the function cannot be called."""
        answer = await self.read()
        if "unusable" in answer:
            raise ProcessError(str(answer["unusable"]))

    async def ask(
        self, messages: Sequence[Message], session: str, on_piece: Callable[[str], None]
    ) -> None:
        """Call `on_piece` with each piece of the reply. Raises `ProcessError`, and what `on_piece`
        raises; after that, or if cancelled, the process must be ended."""
        conversation = [
            {"role": message.role.value, "content": message.text} for message in messages
        ]
        await self.write({"messages": conversation, "session": session})
        while "end" not in (answer := await self.read()):
            match answer:
                case {"text": str(piece)}:
                    on_piece(piece)
                case {"failed": str(reason)}:
                    raise FunctionError(reason)
                case _:
                    raise ProcessError(SAID_SOMETHING_ELSE)


class FunctionPool:
    """The processes of one function. Belongs to one event loop; close it there."""

    def __init__(self, place: FunctionPlace, processes: int, waits: StoppableWaits) -> None:
        self.place = place
        self._waits = waits
        self._free = asyncio.Semaphore(processes)
        self._idle: list[FunctionProcess] = []

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait until fewer calls than there may be processes are in progress. Raises
        `StopRequested` at a stop."""
        async with AsyncExitStack() as stack:
            async with self._waits.waiting():
                await stack.enter_async_context(self._free)
            yield

    async def ask(
        self,
        messages: Sequence[Message],
        session: str,
        reply: ReplyBuffer,
        retry_policy: RetryPolicy,
        on_printed: OnPrinted,
    ) -> None:
        """Make a call, within a `turn`, in a process that does nothing else meanwhile, so that what
        the function does to it affects only this call. `on_printed` is called with what it printed
        on standard error. Raises `ProcessError`, `OversizedError` and `OSError`."""
        # the one that was used last, whose module is loaded and warm
        process = self._idle.pop() if self._idle else await FunctionProcess.start(self.place)
        is_well = False
        try:
            await _within_deadlines(process, messages, session, reply, retry_policy)
            on_printed(await process.printed())
            is_well = True
        except ProcessError as error:
            on_printed(await process.printed())
            is_well = not error.is_over
            raise
        finally:
            if is_well:
                self._idle.append(process)
            else:
                await process.end()

    async def close(self) -> None:
        """End the idle processes; a later call starts another."""
        while self._idle:
            await self._idle.pop().end()


async def _within_deadlines(
    process: FunctionProcess,
    messages: Sequence[Message],
    session: str,
    reply: ReplyBuffer,
    retry_policy: RetryPolicy,
) -> None:
    """Ask within the deadlines of every model's reply."""
    deadlines = Deadlines(retry_policy)

    def hear(piece: str) -> None:
        deadlines.progressed()
        reply.add(piece)

    try:
        async with deadlines.alarm:
            await process.ask(messages, session, hear)
    except TimeoutError:
        raise ProcessError(deadlines.words) from None
    reply.ended()


@dataclass(frozen=True, slots=True)
class FunctionModel(ReportingModel):
    """A function `reply(messages, session)` of the workspace."""

    label: str
    pool: FunctionPool = field(repr=False)
    retry_policy: RetryPolicy = field(repr=False)
    redact: Redactor = field(repr=False)
    cost_usd: float | None = None
    """The cost of each call in US dollars: 0 if it is free, None if unknown."""

    @property
    def scripted(self) -> bool:
        return False

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        schema: JsonSchema | None = None,
        seed: int = 0,
        on_text: OnText | None = None,
    ) -> Reply:
        """As `Model`. Raises `ModelError`, and `StopRequested` where it waits at a stop."""
        del schema, seed  # a function is only asked for a reply
        async with self.pool.turn():
            return await self._reply_in_turn(messages, on_text)

    async def _reply_in_turn(self, messages: Sequence[Message], on_text: OnText | None) -> Reply:
        buffer, began = ReplyBuffer(on_text, time.monotonic), time.monotonic()
        outcome, detail, printed = "cancelled", None, list[str]()
        try:
            detail = await self._failure(messages, buffer, printed.append)
            outcome = "answer" if detail is None else "failed"
        finally:
            self._report_attempt(outcome, detail, buffer, began, "".join(printed))
        if detail is not None:
            # watchers have seen it already
            buffer.discard()
            raise ModelError(f"{self.label}: {detail}", retryable=True)
        thoughts = "".join(buffer.splitter.thoughts).strip() or None
        return Reply("".join(buffer.spoken), Finish.STOP, self._usage, thoughts)

    async def _failure(
        self, messages: Sequence[Message], buffer: ReplyBuffer, on_printed: OnPrinted
    ) -> str | None:
        """Get the reply into the buffer; return why that failed, or None."""
        try:
            await self.pool.ask(messages, self.session, buffer, self.retry_policy, on_printed)
        except (ProcessError, OversizedError) as error:
            return self.redact(str(error))
        except OSError as error:
            return f"its process cannot be started: {error.strerror or 'unknown reason'}"
        return None if "".join(buffer.spoken).strip() else "the function answered with nothing"

    @property
    def _usage(self) -> Usage:
        return Usage(1, None, None, None, self.cost_usd)

    def _report_attempt(
        self, outcome: str, detail: str | None, buffer: ReplyBuffer, began: float, printed: str
    ) -> None:
        if self.on_attempt is None:
            return
        first, now = buffer.first_token_at, time.monotonic()
        heard_ms = None if first is None else round((first - began) * 1000)
        took_ms = round((now - began) * 1000)
        # line by line, so that each is redacted and cut
        lines = tuple(self.redact(line) for line in printed.splitlines()[-MOST_LINES:])
        self.on_attempt(
            Attempt(outcome, None, took_ms, heard_ms, self._usage, detail, printed=lines)
        )


async def unusable_reason(place: FunctionPlace) -> str | None:
    """Say why the function cannot be called, after importing it; None if it can."""
    try:
        process = await FunctionProcess.start(place)
    except ProcessError as error:
        return str(error)
    except OSError as error:
        return f"its process cannot be started: {error.strerror or 'unknown reason'}"
    await process.end()
    return None
