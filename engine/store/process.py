"""Which process an engine is, and whether that process is still there."""

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
"""Another one of these counts processes, or the time since they began, differently."""
_DEAD_STATES: Final = frozenset("ZX")
_ASK_SECONDS: Final = 2.0


class ProcessState(Enum):
    """What became of a process."""

    ALIVE = auto()
    GONE = auto()
    UNKNOWN = auto()
    """It is on another machine, or in a container of its own."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, so that no other one can be taken for it; what is not known is empty."""

    pid: int
    host: str
    boot: str
    """The machine, from when it was started until it goes down."""
    space: str
    """Within which `pid` and `began` mean something."""
    began: str
    """A number may be given to another process once its own has ended; not at the same moment."""


def this_process() -> Process:
    """Asked anew after a fork, of which the child has another number."""
    return _described(os.getpid())


@cache
def _described(pid: int) -> Process:
    """Asked once: some systems have to be asked by starting a program."""
    return Process(pid, socket.gethostname(), _boot(), _space(), _began(pid) or "")


def fate(other: Process, here: Process) -> ProcessState:
    """What became of `other`, as far as `here` can see."""
    # the boot id is of the machine and not of the container; without the namespaces a number in
    # one container would be looked up in another
    if other.boot and other.boot == here.boot and other.space == here.space:
        return ProcessState.ALIVE if _is_there(other) else ProcessState.GONE
    if other.boot and here.boot and other.boot != here.boot and other.host == here.host:
        return ProcessState.GONE  # this machine was started anew since
    return ProcessState.UNKNOWN


def send(number: signal.Signals, process: Process) -> bool:
    """Send a signal to a process; False where it is not sure to be that one, as on another machine
    or in another container, or is another user's."""
    if not process.began or fate(process, this_process()) is not ProcessState.ALIVE:
        return False
    try:
        # a handle: whoever gets the number next does not get the signal
        handle = os.pidfd_open(process.pid) if sys.platform == "linux" else None
        try:
            # looked at behind the handle: from here on the number cannot have gone to another
            # process
            if not _is_there(process) or not _is_own(process.pid):
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
    """The system itself says so where there is no `/proc`, but not to root."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.getuid()
    except OSError:
        # kill(2) asks the same of anybody but root, who may signal all
        return sys.platform != "linux" and os.getuid() != 0


def _is_there(process: Process) -> bool:
    began = _began(process.pid)
    # an empty start is one that could not be read: the number alone must do then
    return began is not None and process.began in {"", began}


def _boot() -> str:
    if sys.platform == "darwin":
        return _asked("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
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
    """When a process began, in whatever words the system has for it; None where it is not there."""
    if sys.platform == "darwin":
        return _began_as_told(pid)
    try:
        # the name in parentheses may hold anything, parentheses too
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    # behind the name: field 3 of proc(5) is the state, field 22 the start in ticks since boot; a
    # zombie has ended, though its number is still taken
    return None if fields[0] in _DEAD_STATES else fields[19]


def _began_as_told(pid: int) -> str | None:
    state, _, began = _asked("/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)).partition(" ")
    return None if not state or state[0] in _DEAD_STATES else began.strip()


def _asked(*command: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603  (a fixed command of the system)
            command, capture_output=True, text=True, check=False, timeout=_ASK_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip()
