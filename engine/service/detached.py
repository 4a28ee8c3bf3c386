"""An engine without a terminal: does its job, answers whoever watches, minds signals."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from engine.errors import CrosswindError
from engine.pipeline.fault_log import trace
from engine.pipeline.run import RunResult
from engine.service.engine import Engine
from engine.service.hosting import hosted, serve
from engine.service.spawning import Job, Word

DONE, FAILED, BROKEN, STOPPED = 0, 1, 2, 3


def run_job(text: str, speak: int) -> int:
    """Do what `text` asks and return the exit code; say on descriptor `speak` when it is ready."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    word = _Once(speak)
    try:
        job = Job.from_json(text)
        _log(f"begins in {job.place.root}")
        with hosted(job.place, linger=job.linger) as engine:
            result = asyncio.run(_work(engine, job, word))
        _log("ended: " + ("stopped" if result.stopped else f"{result.failed} rows failed"))
    except CrosswindError as error:
        _log(f"ended: {error}")
        word.say(Word(os.getpid(), str(error), error.exit_code))
        return error.exit_code
    except Exception as error:  # noqa: BLE001  (the edge of this process)
        _log(trace(error))
        _log(f"a bug in Crosswind: {type(error).__name__}; nothing stored is lost")
        fault = f"a bug in Crosswind: {type(error).__name__}; see crosswind.log"
        word.say(Word(os.getpid(), fault, BROKEN))
        return BROKEN
    if result.stopped:
        return STOPPED
    return FAILED if result.failed else DONE


async def _work(engine: Engine, job: Job, word: _Once) -> RunResult:
    loop = asyncio.get_running_loop()
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        _log("asked by a signal to stop")
        engine.stop() if asked == 1 else engine.stop_now()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    ready = partial(word.say, Word(os.getpid()))
    return await serve(engine, job.place, job.order, ready)


class _Once:
    """The descriptor that a word can be said on, once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def say(self, word: Word) -> None:
        if self._descriptor is not None:
            word.send(self._descriptor)
            self._descriptor = None


def _log(text: str) -> None:
    with suppress(OSError):  # a full disk must not end a run for want of a log
        sys.stderr.write(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} engine {os.getpid()} {text}\n")
        sys.stderr.flush()
