"""One process that runs a function: started, asked, and ended with everything that it began."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from engine.providers.model import Message

_CHILD: Final = Path(__file__).with_name("child.py")
LONGEST_LINE: Final = 1024 * 1024
"""Bytes of what the process may say at once; what it says is six times shorter."""
START_S: Final = 120.0
"""To import a module, which may load a model of its own."""


class FunctionError(Exception):
    """The function or its process gave no reply."""

    def __init__(self, words: str, *, is_over: bool) -> None:
        super().__init__(words)
        self.is_over = is_over
        """Whether the process cannot be asked again."""


@dataclass(frozen=True, slots=True)
class FunctionPlace:
    """Which function, and where it is found."""

    root: Path
    """The workspace: the process works in it, and finds modules there first."""
    call: str
    """`package.module:function`."""
    environ: Callable[[], Mapping[str, str]] = field(repr=False)
    """The variables of the process."""


@dataclass(slots=True)
class FunctionProcess:
    """Asked one thing at a time. Belongs to one event loop; end it there."""

    _process: Process

    @classmethod
    async def start(cls, place: FunctionPlace, *, longest_s: float = START_S) -> Self:
        """With the function at hand. Raises `FunctionError` where it is not, or takes too long."""
        # by its file and without its folder (-P), so that the workspace alone says what is imported
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(_CHILD), str(place.root), place.call),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            cwd=place.root,
            env=dict(place.environ()),
            limit=LONGEST_LINE,
            # no Ctrl-C of the terminal's reaches it, and what it starts ends with it
            start_new_session=True,
        )
        started = cls(process)
        try:
            async with asyncio.timeout(longest_s):
                await started._ready()
        except TimeoutError:
            await started.end()
            words = f"its module was not imported within {longest_s:g} s"
            raise FunctionError(words, is_over=True) from None
        except BaseException:
            await started.end()
            raise
        return started

    async def _ready(self) -> None:
        said = await self._line()
        if "unusable" in said:
            raise FunctionError(str(said["unusable"]), is_over=True)

    async def ask(
        self, messages: Sequence[Message], session: str, on_piece: Callable[[str], None]
    ) -> None:
        """Tell `on_piece` each piece of the reply. Raises `FunctionError`, and what `on_piece`
        raises; then, and where this is cancelled, the process must be ended."""
        said = [{"role": one.role.value, "content": one.text} for one in messages]
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101  (asked for when it was started)
        with suppress(ConnectionError):  # what became of it is told where it is read
            pipe.write(json.dumps({"messages": said, "session": session}).encode() + b"\n")
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
            said = json.loads(line) if line else None
        except ValueError:
            raise FunctionError("its process said something else", is_over=True) from None
        if isinstance(said, dict):
            return said
        code = await self._process.wait()
        raise FunctionError(f"its process {_ending(code)}", is_over=True)

    async def end(self) -> None:
        """Whatever it is doing, and whatever it has started. Waits until it is gone."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()


def _ending(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
