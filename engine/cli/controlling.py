"""Short words to the engine at work: pause, resume, stop."""

from __future__ import annotations

import argparse
import time
from typing import Final

from engine.cli.console import tell
from engine.cli.reach import NOBODY, reach_of
from engine.link import Command, Request

POLL_SECONDS: Final = 0.1


def pause(arguments: argparse.Namespace) -> int:
    return _say(arguments, Command.PAUSE)


def resume(arguments: argparse.Namespace) -> int:
    return _say(arguments, Command.RESUME)


def _say(arguments: argparse.Namespace, command: Command) -> int:
    reach = reach_of(arguments)
    reach.require_holder()
    tell(reach.ask(Request(command)).text)
    return 0


def stop(arguments: argparse.Namespace) -> int:
    """Done, too, where there is nothing to stop."""
    reach = reach_of(arguments)
    if reach.holder() is None:
        tell(NOBODY.format(reach.workspace.root))
        return 0
    tell(reach.ask(Request(Command.STOP_NOW if arguments.now else Command.STOP)).text)
    while arguments.wait and reach.holder() is not None:
        time.sleep(POLL_SECONDS)
    return 0
