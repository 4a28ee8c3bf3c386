"""The entry point: runs the function of a command and turns errors into exit codes."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Final

from engine.cli.command_line import build_parser, parse
from engine.cli.console import out, tell
from engine.errors import CrosswindError

INTERRUPTED: Final = 3
_STOPPED: Final = "crosswind: stopped by Ctrl-C; what was stored is kept"


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    return guarded(lambda: dispatch(parse(argv)))


def guarded(command: Callable[[], int]) -> int:
    """Run a command; an error becomes its message on stderr and its exit code."""
    try:
        return command()
    except CrosswindError as error:
        for line in str(error).splitlines():
            tell(f"crosswind: {line}")
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        tell(f"crosswind: {interrupt}" if interrupt.args else _STOPPED)
        return INTERRUPTED
    except BrokenPipeError:
        return _broken_pipe()
    except Exception as error:  # noqa: BLE001  (the edge)
        # a bug: its traceback may hold what a model said, so it is printed only on request
        if os.environ.get("CROSSWIND_DEBUG"):
            tell("".join(traceback.format_exception(error)))
        tell(f"crosswind: a bug in Crosswind: {type(error).__name__}; nothing stored is lost")
        tell("crosswind: run again with CROSSWIND_DEBUG=1 to see where")
        return 2


def _broken_pipe() -> int:
    """The reader of our output has gone, as in `| head`: that is no error."""
    # without this, Python fails again at exit, when it flushes what is left
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def dispatch(arguments: argparse.Namespace) -> int:
    if arguments.version:
        # 19 ms, more than half of what `--help` takes to load
        from importlib.metadata import version

        out(f"crosswind {version('crosswind')}")
        return 0
    if arguments.command is None:
        build_parser().print_help()
        return 0
    return _loaded(*COMMANDS[arguments.command])(arguments)


def _loaded(module: str, function: str) -> Callable[[argparse.Namespace], int]:
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
    command: Callable[[argparse.Namespace], int] = getattr(sys.modules[name], function)
    return command


COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "demo": ("running", "demo"),
    "init": ("making", "init"),
    "new": ("making", "new"),
    "run": ("running", "run"),
    "show": ("showing", "show"),
    "evaluate": ("running", "evaluate"),
    "simulate": ("running", "simulate"),
    "results": ("reporting", "results"),
    "site": ("publishing", "site"),
    "lint": ("linting", "lint"),
    "review": ("reviewing", "review"),
    "pilot": ("piloting", "run_pilot"),
    "validate": ("validating", "validate"),
    "label": ("labelling", "label"),
    "adjudicate": ("labelling", "adjudicate"),
    "calibrate": ("labelling", "run_calibrate"),
    "search": ("showing", "search"),
    "mirror": ("making", "mirror"),
    "prune": ("pruning", "run_prune"),
    "import": ("importing", "import_files"),
    "export": ("exporting", "export"),
    "repair": ("repairing", "run_repair"),
    "watch": ("watching", "watch"),
    "status": ("status", "status"),
    "pause": ("controlling", "pause"),
    "resume": ("controlling", "resume"),
    "stop": ("controlling", "stop"),
    "retry": ("running", "retry"),
    "doctor": ("doctor", "doctor"),
    "cluster": ("workers", "cluster"),
}
"""The module of this package and the function of each command. A module is imported when its
command is called, so that `--help` does not wait for it."""
