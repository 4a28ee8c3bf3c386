"""Hosts an engine: holds the workspace, opens the store, and serves watchers on a socket."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from engine.cluster.pool import AgentPool
from engine.config.schema import Config
from engine.config.workspace import LOG_FILE, Workspace
from engine.errors import DONE, FAILED, STOPPED, CrosswindError, InputError, Problem
from engine.facts import NoteKind
from engine.link import PauseNews
from engine.memory import free_regularly, use_one_heap
from engine.pipeline.context import append_to_log, traceback_text
from engine.pipeline.models import GivenValues
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.http.transport import raise_limit
from engine.service.engine import Engine
from engine.service.protocol import parsed, read
from engine.service.server import Server
from engine.service.socket import socket_path, usable_socket
from engine.service.spawning import EngineJob, EngineSettings, StartMessage, open_log
from engine.store.database import Store, open_store
from engine.store.integrity import faults
from engine.store.lock import hold_workspace, workspace_holder
from engine.store.open_reader import is_older
from engine.store.schema import damaged
from engine.store.tables import NoteRow

EDITED: Final = "{} was edited since this run began: the change counts from the next run on"

LOOK_SECONDS: Final = 0.25
"""Seconds of CPU time for checking the store before an engine begins. CPU time, so that the result
does not depend on other load; `crosswind doctor` checks for longer."""

_OF_WORKERS: Final = ("distributed", "cryptography")
"""What workers need; an optional extra."""

MOVED: Final = "the engine is reached at {}: {}"

UNREACHABLE: Final = "watchers see what is stored, but no live text, and cannot command: {}"


def _modification(path: Path) -> tuple[int, int] | None:
    """What changes with the content of a file; None where there is none."""
    with suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size
    return None


def _store_problems(path: Path) -> list[str] | None:
    return faults(path, longest_s=LOOK_SECONDS, clock=time.thread_time)


def _sound_store(path: Path) -> Store:
    """Check the store briefly and open it. Raises `StoreError` if damage is found in the time that
    `LOOK_SECONDS` allows, before anything is done with it."""
    # an older one is migrated when it is opened, in one transaction
    if path.is_file() and not is_older(path) and (damage := _store_problems(path)):
        raise damaged(path, "; ".join(damage))
    return open_store(path)


@contextmanager
def hosted_engine(settings: EngineSettings, *, linger: float) -> Iterator[Engine]:
    """Yield an engine that holds the workspace for the duration of the block.

    Raises `InputError`, `WorkspaceBusyError`, `StoreError` and `EngineStartError`.
    """
    # before anything is opened: each concurrent conversation needs a connection
    raise_limit()
    use_one_heap()
    workspace = Workspace(settings.root)
    config = settings.config()
    store_path = workspace.store_path(config)
    read_at = _modification(settings.config_path)
    path, why = usable_socket(settings.root)
    with (
        _logged(settings.root),
        # locked first: only the holder of the workspace may migrate its store
        hold_workspace(settings.root, socket=path),
        _sound_store(store_path) as store,
    ):
        given = GivenValues(at_home=settings.workers > 0)

        def open_pipeline() -> Pipeline:
            nonlocal read_at
            read_at = _modification(settings.config_path)
            config, agents = settings.config(), engine.agents
            reader = store.reader
            return Pipeline(workspace, config, reader, store, agents=agents, given=given)

        def edited() -> Sequence[str]:
            same = _modification(settings.config_path) == read_at
            return () if same else (EDITED.format(settings.config_path.name),)

        def warn(text: str) -> None:
            store.tell(NoteRow(kind=NoteKind.WARNING, benchmark="", stage=None, text=text))

        for warning in store.warnings:
            warn(warning)
        if why is not None:
            warn(MOVED.format(path, why))
        engine = Engine(open_pipeline, linger=linger, edited=edited, warn=warn)
        store.on_trouble(engine.trouble_from_thread)
        if settings.workers or config.cluster is not None:
            engine.agents = _open_agents(settings, config, given, engine)
        yield engine


def _open_agents(
    settings: EngineSettings, config: Config, given: GivenValues, engine: Engine
) -> AgentPool:
    """Open a pool of agents; nothing connects before it is started. Raises `InputError` if a
    package that workers need is missing."""
    _require_extra()
    from engine.cluster.dask_agents import agents_here, agents_of_cluster  # loads Dask

    log = settings.root / LOG_FILE
    if settings.workers or config.cluster is None:
        source = agents_here(settings.workers, settings.root, log)
    else:
        source = agents_of_cluster(config.cluster.scheduler, settings.root, log)
    return AgentPool(
        source, given.values, on_note=engine.warn, on_waiting=engine.waiting_for_workers
    )


def _require_extra() -> None:
    missing = [name for name in _OF_WORKERS if find_spec(name) is None]
    if missing:
        are = "are" if missing[1:] else "is"
        what = f"workers need {' and '.join(missing)}, which {are} not installed"
        hint = "pip install 'crosswind[cluster]', or pipx inject crosswind distributed cryptography"
        raise InputError(Problem(what, hint=hint))


async def serve(
    engine: Engine, settings: EngineSettings, order: Order | None, on_ready: Callable[[], None]
) -> RunResult:
    """Serve watchers and carry out the order. Raises `CrosswindError`."""
    holder = workspace_holder(settings.root)
    path = None if holder is None else holder.socket
    server = Server(engine, path or socket_path(settings.root))
    # read once: whether there is a terminal never changes, unlike the number of watchers
    has_terminal = engine.attended()
    engine.attended = lambda: has_terminal or server.watchers > 0
    try:
        await server.start()
    except CrosswindError as error:
        engine.warn(UNREACHABLE.format(error))
    logging = asyncio.create_task(_log_pauses(engine, settings.root))
    freeing = asyncio.create_task(free_regularly())
    try:
        on_ready()
        result = await engine.serve(order)
        append_to_log(settings.root, _end_words(result))
        return result
    finally:
        freeing.cancel()
        logging.cancel()
        # after errors too: watchers are told goodbye, and do not take the silence for a crash
        await server.close()


@contextmanager
def _logged(root: Path) -> Iterator[None]:
    """Log the beginning of an engine, and the error that ends it."""
    open_log(root).close()
    append_to_log(root, f"begins in {root}")
    try:
        yield
    except CrosswindError as error:
        append_to_log(root, f"ended: {error}")
        raise
    except BrokenPipeError:
        append_to_log(root, "ended: whoever read what it printed has gone")
        raise
    except Exception as error:
        append_to_log(root, traceback_text(error))
        append_to_log(root, f"a bug in Crosswind: {type(error).__name__}; nothing stored is lost")
        raise


async def _log_pauses(engine: Engine, root: Path) -> None:
    news = PauseNews()
    while True:
        for line in news.hear(engine.board(), time.monotonic()):
            append_to_log(root, line)
        await asyncio.sleep(LOOKS_EVERY_S)


def _end_words(result: RunResult) -> str:
    return "ended: " + ("stopped" if result.stopped else f"{result.failed} rows failed")


LOOKS_EVERY_S: Final = 1.0
"""Seconds between two looks at what holds a run up."""
BROKEN: Final = 2
"""The exit code after a bug in this program."""


def run_job(text: str, speak: int) -> int:
    """Run a job, given as JSON; return the exit code. Reports readiness on descriptor `speak`."""
    # the terminal that it was started from may close; this session has none
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    word = _ReadySignal(speak)
    try:
        job = read(parsed(text), EngineJob)
        with hosted_engine(job.settings, linger=job.linger) as engine:
            result = asyncio.run(_run_engine(engine, job, word))
    except CrosswindError as error:
        # the starter is told once: after `ready`, this sends nothing
        word.say(StartMessage(os.getpid(), str(error), error.exit_code))
        return error.exit_code
    except Exception as error:  # noqa: BLE001  (the edge of this process)
        fault = f"a bug in Crosswind: {type(error).__name__}; see crosswind.log"
        word.say(StartMessage(os.getpid(), fault, BROKEN))
        return BROKEN
    if result.stopped:
        return STOPPED
    return FAILED if result.failed else DONE


async def _run_engine(engine: Engine, job: EngineJob, word: _ReadySignal) -> RunResult:
    loop = asyncio.get_running_loop()
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        append_to_log(job.settings.root, "asked by a signal to stop")
        engine.stop() if asked == 1 else engine.stop_now()

    for number in (signal.SIGTERM, signal.SIGINT):
        # on the loop, as the engine requires; a plain handler could run between any steps
        loop.add_signal_handler(number, stop)
    ready = partial(word.say, StartMessage(os.getpid()))
    return await serve(engine, job.settings, job.order, ready)


class _ReadySignal:
    """A file descriptor on which one message can be sent."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def say(self, word: StartMessage) -> None:
        if self._descriptor is not None:
            word.send(self._descriptor)
            self._descriptor = None
