"""A process of ours that reads and writes lines of JSON, and is ended together with everything that
it started."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

LONGEST_LINE: Final = 1024 * 1024
"""Bytes of a line from the process; a piece of text takes at most 12 bytes per character."""
END_OF_PRINTED: Final = b"\x1e\x1ecrosswind\x1e\x1e"
"""What the process of a function writes to standard error after each call."""
MOST_PRINTED: Final = 4_000
"""Bytes of standard error that are kept: the last ones, where errors are."""
SAID_SOMETHING_ELSE: Final = "its process said something else"
# as much as a pipe of Linux holds: a full piece means that more is waiting
_PIECE: Final = 64 * 1024
_AT_LEISURE_S: Final = 0.01
"""Seconds between two reads if more is printed than is kept, so that this costs little."""
_PRINTED_S: Final = 0.2
"""Seconds to wait for the end of what was printed, as others may hold the pipe open."""


class ProcessError(Exception):
    """The process gave no answer."""

    is_over = True
    """Whether it cannot be used again."""


@dataclass(slots=True)
class LineProcess:
    """A Python program that reads and writes lines. Belongs to one event loop; end it there."""

    _process: Process
    _printed: bytes = b""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _is_read: bool = False
    """Whether nothing more can come on standard error."""
    _reading: asyncio.Task[None] | None = None

    @classmethod
    async def spawn(
        cls, program: Sequence[str], *, cwd: Path | None, environ: Mapping[str, str]
    ) -> Self:
        """Start this Python with these arguments. Raises `OSError`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *program),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env=dict(environ),
            limit=LONGEST_LINE,
            # a session of its own: no Ctrl-C reaches it, and its group can be killed
            start_new_session=True,
        )
        started = cls(process)
        started._reading = asyncio.create_task(started._read_printed())
        return started

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    async def write(self, message: Mapping[str, Any]) -> None:
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101  (asked for when it was started)
        with suppress(ConnectionError):  # reported when its answer is read
            pipe.write(json.dumps(message).encode() + b"\n")
            await pipe.drain()

    async def read(self) -> dict[str, Any]:
        """Read the next message. Raises `ProcessError`."""
        pipe = self._process.stdout
        assert pipe is not None  # noqa: S101  (asked for when it was started)
        try:
            line = await pipe.readline()
            value = json.loads(line) if line else None
        except ValueError:
            raise ProcessError(SAID_SOMETHING_ELSE) from None
        if isinstance(value, dict):
            return value
        code = await self._process.wait()
        raise ProcessError(f"its process {_ending(code)}")

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
        """Return what was printed on standard error, up to the end of a function's call, and forget
        it."""
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
            # the group: what it has started would go on without the process
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        if self._reading is not None:
            # the loop closes the pipes once it has seen their end, unless others hold them open
            await asyncio.wait([self._reading], timeout=_PRINTED_S)
            self._reading.cancel()
            await asyncio.sleep(0)


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
