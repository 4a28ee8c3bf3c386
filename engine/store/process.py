"""Identifies the process of an engine, and says whether it is still running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Final

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACES: Final = ("pid", "time")
"""In another namespace of these kinds, process ids or start times mean something else."""
_DEAD_STATES: Final = frozenset("ZX")
# `ps` answers in milliseconds; a system that hangs must not hang the engine
_TIMEOUT_S: Final = 2.0


class ProcessState(Enum):
    """Whether a process is running."""

    ALIVE = auto()
    GONE = auto()
    UNKNOWN = auto()
    """It is on another machine or in another container."""


@dataclass(frozen=True, slots=True)
class Process:
    """The identity of a process, which no other process can have; an unknown part is empty."""

    pid: int
    host: str
    boot: str
    """Identifies the machine's present boot."""
    space: str
    """The namespaces within which `pid` and `began` are valid."""
    began: str
    """The start time: a process id may be reused, but not with the same start."""


def this_process() -> Process:
    """Return this process. Correct in a forked child, too, whose process id differs."""
    return _describe(os.getpid())


@cache
def _describe(pid: int) -> Process:
    """Cached, as some systems can only be asked by starting a program."""
    return Process(pid, socket.gethostname(), _boot(), _space(), _began(pid) or "")


def state_of_process(other: Process, here: Process) -> ProcessState:
    """Return whether `other` is running, as far as `here` can see."""
    # containers of one machine share its boot id; without comparing namespaces a process id of
    # one container would be looked up in another
    if other.boot and other.boot == here.boot and other.space == here.space:
        return ProcessState.ALIVE if _is_there(other) else ProcessState.GONE
    if other.boot and here.boot and other.boot != here.boot and other.host == here.host:
        return ProcessState.GONE  # this machine was restarted since
    return ProcessState.UNKNOWN


def send(number: signal.Signals, process: Process) -> bool:
    """Send a signal to a process. False if it may not be that very process, as on another machine
    or in another container, or if it belongs to another user."""
    if not process.began or state_of_process(process, this_process()) is not ProcessState.ALIVE:
        return False
    try:
        # a handle, so that a process that gets the id next does not get the signal
        handle = os.pidfd_open(process.pid) if sys.platform == "linux" else None
        try:
            # checked after opening the handle: from here on the id cannot refer to another process
            if _began(process.pid) != process.began or not _is_own(process.pid):
                return False
            if sys.platform == "linux" and handle is not None:
                signal.pidfd_send_signal(handle, number)
            else:
                os.kill(process.pid, number)
        finally:
            if handle is not None:
                os.close(handle)
    except OSError:
        return False
    return True


def _is_own(pid: int) -> bool:
    """Whether this user owns a process. Without `/proc`, kill(2) checks that, but not for root."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        # kill(2) checks the owner for everybody but root
        return sys.platform != "linux" and os.getuid() != 0


def _is_there(process: Process) -> bool:
    began = _began(process.pid)
    # an empty start could not be read, then or now: the process id alone must do
    return began is not None and (began == process.began or "" in {began, process.began})


def _boot() -> str:
    if sys.platform == "darwin":
        return _output_of("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _space() -> str:
    try:
        return " ".join(str(Path(f"/proc/self/ns/{name}").readlink()) for name in _NAMESPACES)
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """Return when a process started, in the system's own format; None if it is not running, empty
    if that cannot be read."""
    if sys.platform == "darwin":
        return _began_by_ps(pid)
    try:
        # the name in parentheses may hold anything, parentheses too
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends in this moment
        return None
    except OSError:
        return ""
    # after the name: field 3 of proc(5) is the state, field 22 the start in ticks since boot; a
    # zombie has ended, though its process id is still taken
    return None if fields[0] in _DEAD_STATES else fields[19]


def _began_by_ps(pid: int) -> str | None:
    state, _, began = _output_of("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    if state:
        return None if state[0] in _DEAD_STATES else began.strip()
    # ps says nothing of a process that is not there, or it failed or took too long
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it is there, and another user's
    return ""


def _output_of(*command: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603  (a fixed command of the system)
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
            # ps writes times in the language and time zone of whoever asks
            env={"LC_ALL": "C", "TZ": "UTC"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()
