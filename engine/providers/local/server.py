"""The server of a local model: a process that is started at its first call, started again if it
ends, and ended with the engine."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from engine.errors import ModelError
from engine.providers.accounts import OpenTransport
from engine.providers.http.transport import Address, OnResponse, Transport
from engine.providers.line_process import LineProcess, ProcessError
from engine.providers.local.fitness import (
    PROMPT_CACHE_MIB,
    SLOTS,
    GgufError,
    read_header,
    thread_count,
)

ADDRESS: Final = "http://localhost/v1"
"""Stands for the address of the server, whose port is another one at each start."""
START_S: Final = 600.0
"""Seconds to load a model, which may be large and on a slow disk."""
_PROGRAM: Final = ("-P", "-m", "engine.providers.local.child")
_PASSED_ON: Final = ("CUDA_", "DYLD_", "GGML_", "LANG", "LC_", "LD_", "PYTHON", "ROCR_", "TMPDIR")
"""The beginnings of variables that the process gets; keys are none of its business."""
_FAILED_FOR_S: Final = 2.0
"""Seconds in which calls that waited for a start fail with it, instead of each trying its own."""
_LAST_WORDS: Final = 300


@dataclass(slots=True)
class LocalServer:
    """The server of one model file, shared by all its calls. A `Transport`. Belongs to one event
    loop; close it there."""

    path: Path
    name: str
    """The model's name, as the configuration writes it."""
    on_note: Callable[[str], None]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """What its requests are known by: others of this machine can reach its port, too."""
    _address: Address | None = None
    _open_transport: OpenTransport | None = None
    _process: LineProcess | None = None
    _pool: Transport | None = None
    _starting: asyncio.Task[None] | None = None
    _starting_since: float = 0.0
    _failure: tuple[float, str] | None = None
    """When the last start failed, and why."""

    def at(self, address: Address, open_transport: OpenTransport) -> LocalServer:
        """Send requests as for this address, whose host and port are replaced, over connections
        that are opened so."""
        self._address, self._open_transport = address, open_transport
        return self

    def waits_for(self) -> str | None:
        """As `Transport`. Starts the server if it is not running. Raises `ModelError` if it could
        not be started."""
        if self._pool is not None and self._process is not None and self._process.is_alive:
            return None
        loop = asyncio.get_running_loop()
        if self._failure is not None and loop.time() < self._failure[0] + _FAILED_FOR_S:
            raise ModelError(f"{self.name}: {self._failure[1]}", retryable=True)
        if self._starting is None or self._starting.done():
            self._starting_since = loop.time()
            self._starting = loop.create_task(self._start())
        return f"{self.name} is being loaded, {loop.time() - self._starting_since:.0f} s so far"

    async def post(self, headers: Mapping[str, str], body: bytes, on_response: OnResponse) -> None:
        """As `Transport`."""
        assert self._pool is not None  # noqa: S101  (there was nothing to wait for)
        await self._pool.post(headers, body, on_response)

    async def close(self) -> None:
        """End the process; a later call starts another."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._stop()

    async def _stop(self) -> None:
        pool, process, self._pool, self._process = self._pool, self._process, None, None
        if pool is not None:
            await pool.close()
        if process is not None:
            await process.end()

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._stop()
        try:
            async with asyncio.timeout(START_S):
                ready = await self._ready()
        except TimeoutError:
            self._failure = loop.time(), f"it was not loaded within {START_S:g} s"
        except (GgufError, ProcessError, OSError) as error:
            printed = "" if self._process is None else await self._process.printed()
            self._failure = loop.time(), _failure_words(error, printed)
        else:
            # calls come from its account, which has called `at`
            assert self._address is not None  # noqa: S101
            assert self._open_transport is not None  # noqa: S101
            moved = replace(self._address, url=_moved(self._address, ready))
            self._pool = self._open_transport(moved)
            threads = "one thread" if thread_count() == 1 else f"{thread_count()} threads"
            self.on_note(
                f"{self.name} runs on this machine: loaded in {loop.time() - began:.1f} s, "
                f"{ready['tokens_per_second']} tokens a second with {threads}"
            )
            return
        await self._stop()

    async def _ready(self) -> dict[str, Any]:
        """Start the process and return what it says when the model is loaded."""
        header = await asyncio.to_thread(read_header, self.path)
        passed = {name: os.environ[name] for name in os.environ if name.startswith(_PASSED_ON)}
        environ = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", ""), **passed}
        self._process = await LineProcess.spawn(_PROGRAM, cwd=Path("/"), environ=environ)
        await self._process.write(
            {
                "path": str(self.path.absolute()),
                "name": self.name,
                "key": self.key,
                "slots": SLOTS,
                "context": header.context,
                "threads": thread_count(),
                "prompt_cache_mib": PROMPT_CACHE_MIB,
            }
        )
        answer = await self._process.read()
        if "address" not in answer:
            raise ProcessError(str(answer.get("failed", "its process said something else")))
        return answer


def _moved(address: Address, ready: Mapping[str, Any]) -> str:
    """The URL at the port of the process."""
    return address.url.replace(ADDRESS.removesuffix("/v1"), str(ready["address"]), 1)


def _failure_words(error: Exception, printed: str) -> str:
    words = (error.strerror or "unknown reason") if isinstance(error, OSError) else str(error)
    lines = [line for line in printed.splitlines() if line.strip()]
    said = f"; it printed: {lines[0][:_LAST_WORDS]}" if lines else ""
    return f"its server could not be started: {words}{said}"
