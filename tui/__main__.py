"""`crosswind`: opens the app where a person watches, else hands over to the headless commands."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from engine.cli.command_line import opens_app, parse, why_no_app
from engine.cli.console import take_any_encoding, tell
from engine.cli.main import dispatch, guarded


def main(argv: Sequence[str] | None = None) -> None:
    """The console script. Leaves the process with the command's exit code."""
    words = sys.argv[1:] if argv is None else argv
    take_any_encoding()
    sys.exit(guarded(lambda: _command(parse(words))))


def _command(arguments: argparse.Namespace) -> int:
    if arguments.command == "keys":
        # beside the engine's commands, which load no screen: it is the screens that it tells of
        from tui.own_keys import print_keys

        return print_keys(arguments)
    if arguments.command == "themes":
        from tui.own_themes import print_themes

        return print_themes(arguments)
    if not opens_app(arguments):
        why = why_no_app(arguments)
        if why is not None:
            tell(why)
        return dispatch(arguments)
    # what has no screen loads nothing of Textual, which takes longer than most commands
    from tui.launch import open_app

    return open_app(arguments)


if __name__ == "__main__":
    main()
