"""Opens the app on an interactive terminal, otherwise runs the headless commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from engine.cli.command_line import opens_app, parse, why_no_app
from engine.cli.commands.typed import CliCommand, OpenApp
from engine.cli.commands.upkeep import DemoCommand
from engine.cli.console import prepare_streams, tell
from engine.cli.main import dispatch, guarded


def main(argv: Sequence[str] | None = None) -> None:
    """The console script. Exits the process with the command's exit code."""
    words = sys.argv[1:] if argv is None else argv
    prepare_streams()
    sys.exit(guarded(lambda: _command(parse(words))))


def _command(arguments: CliCommand) -> int:
    if opens_app(arguments):
        if isinstance(arguments, DemoCommand):  # made before there is a first frame
            tell(REAL_DEMO if arguments.real else DEMO)
        return _from(*PREPARED.get(arguments.word(), ("tui.launch", "open_app")))(arguments)
    why = why_no_app(arguments)
    if why is None:
        return dispatch(arguments)
    if isinstance(arguments, OpenApp):
        code = dispatch(arguments)
        tell(why)  # below the help, which is longer than most screens
        return code
    tell(why)
    return dispatch(arguments)


DEMO: Final = """\
the demo: sample benchmarks on scripted models, without a key or a cost
They ask of three assistants: does it still say what it sees when people want
applause? Does it leave them their decisions? Does it become the one thing that
a lonely person leans on?"""
"""Printed before the app opens."""
REAL_DEMO: Final = """\
the real demo: one sample benchmark, without a key or a cost
The target smollm2 is a language model, a very small one, on this machine. The
three other targets, the person and the judge are scripts."""
PREPARED: Final = {
    "demo": ("tui.prepared", "run"),
    "run": ("tui.prepared", "run"),
    "label": ("tui.prepared", "label"),
}
"""Commands that open the app after loading what takes longer to load than the app."""


def _from(module: str, function: str) -> Callable[[CliCommand], int]:
    """Import a function when needed: only commands with a screen wait for Textual."""
    loaded: Callable[[CliCommand], int] = getattr(import_module(module), function)
    return loaded


if __name__ == "__main__":
    main()
