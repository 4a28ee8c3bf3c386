"""The commands that control the engine at work: pause, resume, stop."""

from __future__ import annotations

import signal
import time
from contextlib import closing
from typing import Final

from engine.cli.commands.at_work import PauseCommand, ResumeCommand, StopCommand
from engine.cli.console import tell
from engine.cli.engine_handle import NOBODY, EngineHandle, RefusedError, accepted, handle_of
from engine.link import Command, Request
from engine.store.lock import Holder, send

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
