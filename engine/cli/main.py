"""The entry point: runs the function of a command and turns errors into exit codes."""

from __future__ import annotations

import gc
import os
import resource
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from engine.cli.command_line import build_parser, parse
from engine.cli.commands.typed import CliCommand, OpenApp
from engine.cli.console import discard, out, output_failure, tell
from engine.errors import DONE, CrosswindError

if TYPE_CHECKING:
    from engine.cli.session import Session


INTERRUPTED: Final = 3
OLDEST_SQLITE: Final = (3, 37)
"""The first version with strict tables, of which every store is made."""
_STOPPED: Final = "crosswind: stopped by Ctrl-C; what was stored is kept"


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    return guarded(lambda: dispatch(parse(argv)))


def guarded(command: Callable[[], int]) -> int:
    """Run a command; an error becomes its message on stderr and its exit code."""
    try:
        code = _run(command)
    except SystemExit as end:  # argparse has printed its help
        code = int(end.code or 0)
    failure = output_failure()
    if failure is None:
        return code
    discard(sys.stdout)
    if isinstance(failure, BrokenPipeError):  # its reader has gone, as in `| head`
        return code
    tell(f"crosswind: the output could not be written: {failure.strerror}")
    return CrosswindError.exit_code


def _run(command: Callable[[], int]) -> int:
    try:
        require_sqlite()
        return command()
    except CrosswindError as error:
        for line in str(error).splitlines():
            tell(f"crosswind: {line}")
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        tell(f"crosswind: {interrupt}" if interrupt.args else _STOPPED)
        return INTERRUPTED
    except BrokenPipeError:
        return DONE
    except Exception as error:  # noqa: BLE001  (the edge)
        if output_failure() is error:
            return CrosswindError.exit_code
        if (cause := _outer_cause(error)) is not None:
            tell(f"crosswind: {cause}")
            return CrosswindError.exit_code
        # a bug: its traceback may hold what a model said, so it is printed only on request
        if os.environ.get("CROSSWIND_DEBUG"):
            tell("".join(traceback.format_exception(error)))
        tell(f"crosswind: a bug in Crosswind: {type(error).__name__}; nothing stored is lost")
        tell("crosswind: run again with CROSSWIND_DEBUG=1 to see where")
        return CrosswindError.exit_code


def require_sqlite() -> None:
    """Raise `CrosswindError` if SQLite is too old: it would take every store for damaged."""
    try:
        import sqlite3
    except ImportError:
        found = "this Python was built without SQLite"
    else:
        if sqlite3.sqlite_version_info >= OLDEST_SQLITE:
            return
        found = f"this Python has SQLite {sqlite3.sqlite_version}"
    needed = ".".join(map(str, OLDEST_SQLITE))
    raise CrosswindError(
        f"{found}, and Crosswind needs {needed} or newer: install it with a Python that brings "
        "a newer one, such as that of `uv python install` or conda; no store was opened"
    )


def _outer_cause(error: Exception) -> str | None:
    """Say what is wrong around the program, if that explains an unexpected error."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return "the current folder was deleted: change to another one"
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if isinstance(error, MemoryError) or limit != resource.RLIM_INFINITY:
        limited = "" if limit == resource.RLIM_INFINITY else f" of {limit >> 20} MB (`ulimit -v`)"
        return f"there is too little memory{limited}: {type(error).__name__}"
    return None


def dispatch(command: CliCommand) -> int:
    if not isinstance(command, OpenApp):
        return _loaded(*command.carried_out_by().split("."))(command)
    if command.version:
        # 19 ms, more than half of what `--help` takes to load
        from importlib.metadata import version

        out(f"crosswind {version('crosswind')}")
    else:
        build_parser().print_help()
    return 0


def _loaded(module: str, function: str) -> Callable[[CliCommand], int]:
    name = f"engine.cli.{module}"
    if name not in sys.modules:
        # what is loaded is no garbage: looking through it takes a fifth of the time of loading it,
        # and later makes each process that is forked copy it
        gc.disable()
        try:
            import_module(name)
            gc.freeze()
        finally:
            gc.enable()
    carried_out: Callable[[CliCommand], int] = getattr(sys.modules[name], function)
    return carried_out


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
