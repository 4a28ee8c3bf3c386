"""Asks what to do where the store is gone and files hold what it held. Imports little, as the app
asks before its first frame."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from typing import TYPE_CHECKING

from engine.cli.command_line import parse
from engine.cli.commands.typed import CliCommand
from engine.cli.console import tell
from engine.cli.main import dispatch

if TYPE_CHECKING:
    from engine.cli.session import Session


def session_with_store(session: Session, arguments: CliCommand, *, looks: bool) -> Session:
    """The session to continue with. If the store is gone and files hold earlier results, a person
    on the terminal chooses to rebuild it from them or to start over; not with `looks`. Raises
    `InputError` where neither is chosen."""
    words = session.unread()
    # neither choice can be undone, so only a person makes it; else it is refused with all else
    if words is None or looks or not sys.stdin.isatty():
        return session
    tell(words)
    match _read_choice():
        case "r":
            repair_now(arguments)
        case "a":
            return replace(session, anew=True)
        case _:
            session.refuse_unread()
    return session


def _read_choice() -> str:
    tell("r rebuilds it from them and goes on · a asks everything again · Enter stops [r/a/-]")
    return sys.stdin.readline().strip().lower()[:1]


def repair_now(arguments: CliCommand) -> None:
    """Do what `crosswind repair --yes` does, with all output on stderr."""
    repairing = parse(["repair", "--yes"])
    repairing.workspace = arguments.workspace
    # its output is not the result of the command that was typed
    with redirect_stdout(sys.stderr):
        dispatch(repairing)


def offer_repair(words: str, arguments: CliCommand) -> None:
    """Offer to repair the store before the app opens."""
    tell(words)
    tell("r rebuilds it from them · Enter opens the app without it [r/-]")
    if sys.stdin.readline().strip().lower()[:1] == "r":
        repair_now(arguments)
