"""The engine at work on a workspace, for commands that only speak to it: pause, resume, stop.

It imports little and does not read the configuration, so these commands are quick and work while
`config.yaml` is half-written.
"""

from __future__ import annotations

import signal
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.branches import Branch
from engine.cli.commands.at_work import PauseCommand, ResumeCommand, StopCommand
from engine.cli.commands.typed import CliCommand
from engine.cli.console import tell
from engine.config.workspace import STORE_FILE, Workspace, find_workspace
from engine.errors import CrosswindError, InputError, Problem
from engine.link import Command, Request, Response
from engine.store.lock import Holder, hold_workspace, send, workspace_holder
from engine.store.open_reader import writer_of

if TYPE_CHECKING:
    from engine.service.client import SocketLink
    from engine.store.tables import RunRow


NOBODY: Final = "no engine is at work in {}"


class RefusedError(CrosswindError):
    """An engine refused a request; the message is its reason."""


@dataclass(frozen=True, slots=True)
class EngineHandle:
    """A workspace, and the way to its engine."""

    workspace: Workspace
    store: Path | None = None
    """The path of its store, where the caller has read the configuration."""

    def holder(self) -> Holder | None:
        """Who runs the engine at work on it, if any: also where the lock file was deleted."""
        holder = workspace_holder(self.workspace.root)
        if holder is not None:
            return holder
        store = self.store_path
        if not store.exists():
            return None
        return writer_of(store)

    def require_holder(self) -> Holder:
        """Raises `InputError` where no engine is at work."""
        holder = self.holder()
        if holder is None:
            hint = "`crosswind run` starts one"
            raise InputError(Problem(NOBODY.format(self.workspace.root), hint=hint))
        return holder

    def link(self) -> SocketLink:
        """A link to the engine at work on it, or to the next one. The caller closes it."""
        # 22 ms: the app shows what is stored before it speaks to an engine
        from engine.service.client import connect_to

        return connect_to(self.workspace.root, self.holder)

    def ask(self, request: Request) -> Response:
        """The engine's answer. Raises `RefusedError` with its reason."""
        with closing(self.link()) as link:
            return accepted(link.ask(request))

    def make_store(self) -> None:
        """Bring the store up to date, or make one where there is none. Raises `StoreError`, and
        `WorkspaceBusyError`."""
        # 25 ms to load, and most commands write nothing
        from engine.store.database import open_store

        # an engine that starts meanwhile would migrate it, too, and both would write
        with hold_workspace(self.workspace.root):
            open_store(self.store_path).close()

    @property
    def store_path(self) -> Path:
        if self.store is not None:
            return self.store
        try:
            return self.workspace.written_store_path(self.workspace.config_path)
        except InputError:
            return self.workspace.root / STORE_FILE


def accepted(answer: Response) -> Response:
    """`answer`, if the engine accepted the request. Raises `RefusedError` if it refused."""
    if not answer.accepted:
        raise RefusedError(answer.text)
    return answer


def names_at_work(workspace: Workspace, run: RunRow | None) -> list[str]:
    """The names of all benchmarks, and of any validation run that `run` works on."""
    at_work = () if run is None else run.benchmarks
    branches = [name for name in at_work if Branch.parse(name) is not None]
    return [*workspace.benchmark_names(), *branches]


def handle_of(arguments: CliCommand) -> EngineHandle:
    """A handle on the workspace that a command is about. Raises `InputError`."""
    return EngineHandle(find_workspace(arguments.workspace or Path.cwd()))


POLL_SECONDS: Final = 0.1


def pause(arguments: PauseCommand) -> int:
    return _send_command(arguments, Command.PAUSE)


def resume(arguments: ResumeCommand) -> int:
    return _send_command(arguments, Command.RESUME)


def _send_command(arguments: PauseCommand | ResumeCommand, command: Command) -> int:
    handle = handle_of(arguments)
    handle.require_holder()
    tell(handle.ask(Request(command)).text)
    return 0


def stop(arguments: StopCommand) -> int:
    """Stop the engine. Without one, the exit code is 0, too."""
    handle = handle_of(arguments)
    if handle.holder() is None:
        tell(NOBODY.format(handle.workspace.root))
        return 0
    with closing(handle.link()) as link:
        answer = link.ask(Request(Command.STOP_NOW if arguments.now else Command.STOP))
        # read while the link is open: tells an engine that refused from one that did not answer
        reached, is_silent = link.is_connected, link.is_silent
    if reached and is_silent:
        raise RefusedError(f"{answer.text}{_kill_advice(handle.holder())}")
    if answer.accepted or reached:
        tell(accepted(answer).text)
    else:
        _signal(handle, answer.text, now=arguments.now)
    while arguments.wait and handle.holder() is not None:
        time.sleep(POLL_SECONDS)
    return 0


def _kill_advice(holder: Holder | None) -> str:
    """How to end an engine that is reached and does nothing any more."""
    if holder is None or holder.process is None:
        return ""
    return f"; `kill -9 {holder.pid}` ends it, and the next run goes on from what is stored"


def _signal(handle: EngineHandle, why: str, *, now: bool) -> None:
    """Stop, by a signal, an engine that holds the workspace and does not answer. Raises
    `RefusedError` where its process is not this user's on this machine."""
    holder = handle.holder()
    if holder is None:
        tell(NOBODY.format(handle.workspace.root))
        return
    # two different signals, which cannot be merged: the second one means "at once"
    signals = (signal.SIGTERM, signal.SIGINT) if now else (signal.SIGTERM,)
    for number in signals:
        if holder.process is None or not send(number, holder.process):
            raise RefusedError(f"{why}; {holder} is not this user's on this machine: stop it there")
    asked = "to stop at once" if now else "to finish what is being spoken and stop"
    tell(f"{why}: process {holder.pid} was asked by a signal {asked}")
