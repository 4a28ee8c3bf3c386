"""Starts an engine for a job in a session of its own, so that it outlives the terminal."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final

from engine.config.schema import Config, load_config
from engine.config.secrets import Environment
from engine.config.workspace import LOG_FILE
from engine.errors import CrosswindError
from engine.pipeline.order import Order
from engine.scripted import Pace
from engine.service.protocol import encode_value


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Where and how an engine works."""

    root: Path
    config_path: Path
    pace: Pace | None = None
    """The speed of scripted models; None for the configuration's."""
    workers: int = 0
    """The number of local worker processes that make its calls. With none, those of the
    configuration's cluster do; without that, the engine itself."""

    def config(self) -> Config:
        """Read the configuration from its file. Raises `InputError`."""
        config = load_config(self.config_path, environment=Environment(self.root))
        return config if self.pace is None else config.at_pace(self.pace)


@dataclass(frozen=True, slots=True)
class EngineJob:
    """What an engine is started for."""

    settings: EngineSettings
    order: Order | None
    linger: float
    """Seconds to wait for further orders when all is done."""


LONGEST_LOG: Final = 1024 * 1024
"""In bytes. A longer log is emptied before an engine starts."""


class EngineStartError(CrosswindError):
    """An engine did not start; the message is its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class StartMessage:
    """The single message from a new engine to its starter."""

    pid: int
    problem: str | None = None
    """Why it did not start; None where it is ready."""
    exit_code: int = 0

    def send(self, descriptor: int) -> None:
        """Send it and close the descriptor. The starter may have gone."""
        try:
            os.write(descriptor, json.dumps(asdict(self)).encode())
        except BrokenPipeError:
            pass
        finally:
            os.close(descriptor)


def spawn(job: EngineJob) -> int:
    """Start an engine and wait until it is ready; return its process id.

    Raises `EngineStartError` with the engine's message and exit code.
    """
    listen, speak = os.pipe()
    with open_log(job.settings.root) as log, os.fdopen(listen, "rb") as pipe:
        try:
            child = subprocess.Popen(  # noqa: S603  (our own program, by its absolute path)
                # `-P`: the current folder may contain a file that is named like a module
                [sys.executable, "-P", "-m", "engine.service", str(speak)],
                # the job is passed on stdin, since every user of the machine can read arguments
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(speak,),
                # a new session has no controlling terminal: neither Ctrl-C nor the hang-up of a
                # closed window reaches it
                start_new_session=True,
                text=True,
            )
        finally:
            # our copy must be closed, or the pipe would never reach its end
            os.close(speak)
        child.communicate(encode_value(job).decode("ascii"))  # it forks the engine and exits
        # until the end of the pipe: one message, or nothing if the engine ended before it had one
        output = pipe.read()
    word = _understood(output)
    if word is None:
        log_path = job.settings.root / LOG_FILE
        raise EngineStartError(f"the engine ended before it was ready: see {log_path}", 2)
    if word.problem is not None:
        raise EngineStartError(word.problem, word.exit_code)
    return word.pid


def open_log(root: Path) -> BinaryIO:
    """Open the log for an engine's start, its end, its pauses and its faults. Raises
    `EngineStartError`."""
    path = root / LOG_FILE
    # O_NONBLOCK: if a pipe is at this path, it may never be read
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise EngineStartError(
            f"{path} cannot be written ({error.strerror}): the engine keeps its log there; check "
            "who may write in the workspace's folder",
            2,
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise EngineStartError(f"{path} is a pipe or a device, expected a file: remove it", 2)
    # O_CREAT does not change the mode of an existing file, and tracebacks may be confidential
    os.fchmod(descriptor, 0o600)
    if os.fstat(descriptor).st_size > LONGEST_LOG:
        # emptied, not replaced: another engine that is just ending still writes to it
        os.ftruncate(descriptor, 0)
    return os.fdopen(descriptor, "ab")


def _understood(output: bytes) -> StartMessage | None:
    try:
        return StartMessage(**json.loads(output))
    except (ValueError, TypeError):
        return None
