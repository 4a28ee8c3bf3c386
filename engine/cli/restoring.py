"""Where the store is gone and files hold what it held: says so before anything is asked again."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from dataclasses import replace

from engine.cli.console import tell
from engine.cli.session import Session


def restored(session: Session, arguments: argparse.Namespace, *, looks: bool) -> Session:
    """The session to go on with, after the store was made again from its files, or a person chose
    to begin anew. With `looks`, nothing is begun and it is only said.

    Raises `InputError` where nobody can be asked, or nobody chose either.
    """
    words = session.unread()
    if words is None:
        return session
    if looks:
        tell(f"note: {words}")
        return session
    if not sys.stdin.isatty():
        session.refuse_unread()
    tell(words)
    match _chosen():
        case "r":
            repair_now(arguments)
        case "a":
            return replace(session, anew=True)
        case _:
            session.refuse_unread()
    return session


def _chosen() -> str:
    tell("r makes it again from them and goes on · a asks everything anew · Enter leaves [r/a/-]")
    return sys.stdin.readline().strip().lower()[:1]


def repair_now(arguments: argparse.Namespace) -> None:
    """As `crosswind repair --yes` does."""
    # loaded only where something is to be repaired
    from engine.cli.repairing import run_repair

    # what it says is no result of the command that was typed
    with redirect_stdout(sys.stderr):
        run_repair(argparse.Namespace(**{**vars(arguments), "yes": True}))


def offered(words: str, arguments: argparse.Namespace) -> None:
    """Before the app opens: repair, or look at what little there is."""
    tell(words)
    tell("r makes it again from them · Enter opens the app without [r/-]")
    if sys.stdin.readline().strip().lower()[:1] == "r":
        repair_now(arguments)
