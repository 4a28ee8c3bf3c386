"""Parses the command line, suggests corrections for typos, and decides what opens the app."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final, NoReturn

from engine.cli.commands import COMMAND_GROUPS, COMMANDS
from engine.cli.commands.at_work import RunCommand, WatchCommand
from engine.cli.commands.results import LabelCommand
from engine.cli.commands.typed import SHARED, CliCommand, OpenApp, add_own, add_shared
from engine.cli.commands.upkeep import DemoCommand
from engine.config.wording import nearest_word
from engine.errors import InputError, Problem

_EPILOG: Final = """\
exit codes:
  0  done
  1  finished, but rows failed or a --fail-under gate was missed
  2  usage, configuration or input error
  3  stopped before the end; the next run goes on from there
  4  another engine holds the workspace
  5  a --fail-under gate is undecided: an interval contains the bound

first steps: crosswind demo · crosswind init DIR · crosswind new NAME · crosswind run
`crosswind COMMAND --help` has the options of a command, and examples.
"""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `InputError` and takes no abbreviated options."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise InputError(Problem(_in_plain_words(message), hint=f"see `{self.prog} --help`"))


class HelpFormatter(argparse.HelpFormatter):
    """Leaves the shared options out of a command's usage line, as they are listed below it, and
    wraps each line of the description and the epilog by itself."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        own = [action for action in actions if action.dest not in SHARED]
        super().add_usage(usage, own, groups, prefix)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            textwrap.fill(line, width, initial_indent=indent, subsequent_indent=indent)
            for line in text.splitlines()
        )


class _CommandLine(Parser):
    """The parser of `crosswind` itself. Its help groups the commands by task, which argparse
    cannot do for the subcommands of one parser."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.command_groups: dict[str, Sequence[argparse.Action]] = {}
        """The commands under each title of the help."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage("crosswind [OPTION ...] COMMAND ...", self._actions, [])
        formatter.add_text(self.description)
        options = [action for action in self._actions if action.option_strings]
        for title, actions in {**self.command_groups, "options": options}.items():
            formatter.start_section(title)
            formatter.add_arguments(actions)
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


_EXPECTED: Final = {
    "int": "expected a whole number",
    "float": "expected a number",
    "dollars": "expected US dollars above 0, such as 2.50",
    "workers": "expected a whole number from 1 to 64",
}
"""What an option of each type takes, by the name of the function that reads it."""


def _in_plain_words(message: str) -> str:
    """argparse's message without its words for its own parts: people think of what they typed."""
    message = message.replace("the following arguments are required:", "missing:")
    option, separator, fault = message.replace("argument ", "").partition(": invalid ")
    kind, value, value_typed = fault.partition(" value: ")
    if not value or kind not in _EXPECTED:
        return f"{option}{separator}{fault}"
    typed = value_typed.strip("'")
    return f"{option} {typed}: {_EXPECTED[kind]}"


def parse(argv: Sequence[str]) -> CliCommand:
    """Raises `InputError`; `--help` and `--version` print and raise `SystemExit`."""
    if [*argv] in (["version"], ["--version"]):
        return OpenApp(version=True)  # without a parser of all commands, which takes half the time
    parser = build_parser()
    if [*argv[:1]] == ["help"]:
        argv = [*argv[1:], "--help"]
    commands = commands_of(parser)
    command = _first_word(argv, parser)
    if command is not None:
        _known_command(command, commands)
    arguments, unknown = parser.parse_known_args(argv)
    asked = commands.get(arguments.command, parser)
    not_taken = _with_names(asked, arguments, unknown)
    if not_taken:
        raise InputError([_unknown(word, asked) for word in not_taken])
    given = vars(arguments)
    kind = COMMANDS.get(given.pop("command") or "", OpenApp)
    return kind(**given)


def _with_names(
    asked: argparse.ArgumentParser, arguments: argparse.Namespace, unknown: Sequence[str]
) -> Sequence[str]:
    """Add words that follow an option to the names before it, which argparse does not; returns what
    is still unknown."""
    several = [
        action.dest
        for action in asked._actions  # noqa: SLF001  (no public way)
        if not action.option_strings and action.nargs in {"*", "+"}
    ]
    names = [word for word in unknown if not word.startswith("-")]
    if not several or len(names) != len(unknown):
        return unknown
    setattr(arguments, several[-1], [*getattr(arguments, several[-1], ()), *names])
    return ()


def _first_word(argv: Sequence[str], parser: argparse.ArgumentParser) -> str | None:
    """The word in the place of the command. Raises `InputError` for an unknown option before it,
    whose value would look like the command."""
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return word
        option = parser._option_string_actions.get(word.split("=")[0])  # noqa: SLF001  (no public way)
        if option is None:
            raise InputError(_unknown(word, parser))
        if option.nargs is None and "=" not in word:
            next(words, None)  # its value, which is not the command
    return None


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers by command."""
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way to its commands)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            return dict(action.choices)
    return {}


def _known_command(word: str, commands: Iterable[str]) -> None:
    if word not in commands:
        near = nearest_word(word, commands)
        hint = f"did you mean `crosswind {near}`?" if near else "see `crosswind --help`"
        raise InputError(Problem(f"there is no command {word!r}", hint=hint))


def _unknown(word: str, parser: argparse.ArgumentParser) -> Problem:
    options = {
        option.lstrip("-"): option
        for action in parser._actions  # noqa: SLF001
        for option in action.option_strings
    }
    near = nearest_word(word.split("=")[0].lstrip("-"), options) if word.startswith("-") else None
    hint = f"did you mean {options[near]}?" if near else f"see `{parser.prog} --help`"
    what = "option" if word.startswith("-") else "argument"
    return Problem(f"{parser.prog} takes no {what} {word!r}", hint=hint)


@cache
def build_parser() -> argparse.ArgumentParser:
    """Of all commands; parsing does not change it, so that one serves all that a process parses."""
    # suppressed, or a command's default would replace what was said before the command
    shared = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    add_shared(shared)
    parser = _CommandLine(
        prog="crosswind",
        description="Measure how AI assistants behave under conversational pressure, and read the "
        "conversation behind every number. Without a command, opens the app on the workspace "
        "that holds the current folder.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
        parents=[shared],
    )
    add_own(parser, OpenApp)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    listed = commands._choices_actions  # noqa: SLF001  (argparse has no public way to them)
    for title, kinds in COMMAND_GROUPS.items():
        before = len(listed)
        for kind in kinds:
            end = "" if kind.does.endswith("?") else "."
            command = commands.add_parser(
                kind.word(),
                help=kind.does,
                description=f"{kind.does[0].upper()}{kind.does[1:]}{end}",
                epilog="\n\n".join(filter(None, (kind.more, _example_lines(kind)))),
                parents=[shared],
                formatter_class=HelpFormatter,
            )
            add_own(command, kind)
        parser.command_groups[title] = listed[before:]
    return parser


HEADING: Final = "examples:"


def _example_lines(kind: type[CliCommand]) -> str:
    """The examples as lines below `HEADING`; empty if there are none."""
    width = max(map(len, kind.examples), default=0) + 2
    lines = [f"  {typed:<{width}}{does}".rstrip() for typed, does in kind.examples.items()]
    return "\n".join([HEADING, *lines]) if lines else ""


def opens_app(command: CliCommand) -> bool:
    """Whether this command opens the app on this terminal."""
    return _wants_app(command) and not _is_dumb()


def why_no_app(command: CliCommand) -> str | None:
    """Why the app does not open here, for a command that opens it on other terminals; else None."""
    if not (_wants_app(command) and _is_dumb()):
        return None
    goes_on = "" if isinstance(command, OpenApp) else "; this goes on here, in plain lines"
    return (
        "the app cannot open here: TERM is dumb or not set. If this terminal can show it, "
        f"`TERM=xterm-256color crosswind` opens it{goes_on}"
    )


def _is_dumb() -> bool:
    return os.environ.get("TERM", "dumb") in {"", "dumb"}


def _wants_app(command: CliCommand) -> bool:
    match command:
        case OpenApp():
            asked = not command.version
        case WatchCommand():
            asked = True
        case LabelCommand():
            asked = not (command.write or command.read or command.json or command.decide)
        case DemoCommand():
            asked = not (command.headless or command.detach)
        case RunCommand():
            looks = command.dry_run or command.explain
            asked = not (command.headless or command.detach or looks or command.json)
        case _:
            asked = False
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()
    return asked and terminal and not command.plain
