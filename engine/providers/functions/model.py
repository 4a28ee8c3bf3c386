"""A Python function with the interface of every model, and the process that it runs in, which is
ended together with everything that it started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from engine.benchmark import Usage
from engine.errors import ModelError
from engine.providers.accounts import StoppableWaits
from engine.providers.exchange import Deadlines, ReplyBuffer
from engine.providers.model import (
    Attempt,
    Finish,
    JsonSchema,
    Message,
    OnText,
    Reply,
    ReportingModel,
)
from engine.providers.protocols.sse import OversizedError
from engine.providers.redaction import Redactor
from engine.providers.retry import RetryPolicy

_CHILD: Final = Path(__file__).with_name("child.py")
LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line from the process; a piece of text takes at most 12 bytes per character."""
START_S: Final = 120.0
"""Seconds to import a module, which may load a model of its own."""


END_OF_PRINTED: Final = b"\x1e\x1ecrosswind\x1e\x1e"
"""What the process writes to standard error after each call."""
MOST_PRINTED: Final = 4_000
"""Bytes of one call's standard error that are kept: the last ones, where errors are."""
MOST_LINES: Final = 40
# as much as a pipe of Linux holds: a full piece means that more is waiting
_PIECE: Final = 64 * 1024
_AT_LEISURE_S: Final = 0.01
"""Seconds between two reads if more is printed than is kept, so that this costs little."""
_PRINTED_S: Final = 0.2
"""Seconds to wait for the end of what was printed, as others may hold the pipe open."""

OnPrinted = Callable[[str], None]


class FunctionError(Exception):
    """The function or its process gave no reply."""

    def __init__(self, words: str, *, is_over: bool) -> None:
        super().__init__(words)
        self.is_over = is_over
        """Whether the process cannot be used again."""


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """Which function to call, and where to find it."""

    root: Path
    """The workspace: the process runs in it, and imports modules from it first."""
    call: str
    """`package.module:function`."""
    environ: Callable[[], Mapping[str, str]] = field(repr=False)
    """Returns the environment of the process."""


@dataclass(slots=True)
class FunctionProcess:
    """Handles one request at a time. Belongs to one event loop; end it there."""

    _process: Process
    _printed: bytes = b""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _is_read: bool = False
    """Whether nothing more can come on standard error."""
    _reading: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, place: FunctionPlace, *, longest_s: float = START_S) -> Self:
        """Start a process and import the function. Raises `FunctionError` if that fails or takes
        too long, and `OSError` if there can be no process."""
        # by path and with -P, so that only the workspace decides what is imported
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(_CHILD), str(place.root), place.call),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=place.root,
            env=dict(place.environ()),
            limit=LONGEST_LINE,
            # a session of its own: no Ctrl-C reaches it, and its group can be killed
            start_new_session=True,
        )
        started = cls(process)
        started._reading = asyncio.create_task(started._read_printed())
        try:
            async with asyncio.timeout(longest_s):
                await started._wait_until_ready()
        except TimeoutError:
            await started.end()
            words = f"its module was not imported within {longest_s:g} s"
            raise FunctionError(words, is_over=True) from None
        except BaseException:
            await started.end()
            raise
        return started

    async def _wait_until_ready(self) -> None:
        answer = await self._line()
        if "unusable" in answer:
            raise FunctionError(str(answer["unusable"]), is_over=True)

    async def ask(
        self, messages: Sequence[Message], session: str, on_piece: Callable[[str], None]
    ) -> None:
        """Call `on_piece` with each piece of the reply. Raises `FunctionError`, and what `on_piece`
        raises; after that, or if cancelled, the process must be ended."""
        conversation = [
            {"role": message.role.value, "content": message.text} for message in messages
        ]
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101  (asked for when it was started)
        with suppress(ConnectionError):  # reported when its answer is read
            pipe.write(json.dumps({"messages": conversation, "session": session}).encode() + b"\n")
            await pipe.drain()
        while "end" not in (answer := await self._line()):
            match answer:
                case {"text": str(piece)}:
                    on_piece(piece)
                case {"failed": str(reason)}:
                    raise FunctionError(reason, is_over=False)
                case _:
                    raise FunctionError("its process said something else", is_over=True)

    async def _line(self) -> dict[str, Any]:
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101  (asked for when it was started)
        try:
            line = await pipe.readline()
            value = json.loads(line) if line else None
        except ValueError:
            raise FunctionError("its process said something else", is_over=True) from None
        if isinstance(value, dict):
            return value
        code = await self._process.wait()
        raise FunctionError(f"its process {_ending(code)}", is_over=True)

    async def _read_printed(self) -> None:
        """Keep the last part of it. A process would block if nobody read what it prints."""
        pipe = self._process.stderr
        assert pipe is not None  # noqa: S101  (asked for when it was started)
        while piece := await pipe.read(_PIECE):
            self._printed = (self._printed + piece)[-MOST_PRINTED - len(END_OF_PRINTED) :]
            self._news.set()
            if len(piece) == _PIECE:
                await asyncio.sleep(_AT_LEISURE_S)
        self._is_read = True
        self._news.set()

    async def printed(self) -> str:
        """Return what the last call printed on standard error, and forget it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PRINTED_S):
                while END_OF_PRINTED not in self._printed and not self._is_read:
                    self._news.clear()
                    await self._news.wait()
        output, _, self._printed = self._printed.partition(END_OF_PRINTED)
        return output.decode("utf-8", "replace").strip()

    async def end(self) -> None:
        """Kill the process and everything that it started, and wait for its end."""
        with suppress(ProcessLookupError, PermissionError):
            # the group: what a function has started would go on without the process
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        if self._reading is not None:
            self._reading.cancel()


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


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
        on standard error. Raises `FunctionError`, `OversizedError` and `OSError`."""
        # the one that was used last, whose module is loaded and warm
        process = self._idle.pop() if self._idle else await FunctionProcess.start(self.place)
        is_well = False
        try:
            await _within_deadlines(process, messages, session, reply, retry_policy)
            on_printed(await process.printed())
            is_well = True
        except FunctionError as error:
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
        raise FunctionError(deadlines.words, is_over=True) from None
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
        except (FunctionError, OversizedError) as error:
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
    except FunctionError as error:
        return str(error)
    except OSError as error:
        return f"its process cannot be started: {error.strerror or 'unknown reason'}"
    await process.end()
    return None
