"""Every command and what it takes, from the parsers themselves."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from functools import partial
from typing import Final

from engine.cli.command_line import HEADING, HelpFormatter, build_parser, commands_of
from tools.manual.markdown import code, table

_WIDTH: Final = 88


def command_reference() -> str:
    """All of `crosswind`: what holds for every command, then each of them."""
    parser = build_parser()
    shared = _options(parser, without=set())
    commands = commands_of(parser)
    parts = [
        f"{parser.description}",
        table(("command", "does"), _short(parser)),
        "## For every command {#every-command}",
        table(("option", ""), shared),
        *_paragraphs(parser.epilog),
    ]
    known = {option for option, _ in shared}
    for name, command in commands.items():
        parts += [f"## `crosswind {name}` {{#{_anchor(name)}}}", *_told(command, known)]
    return "\n\n".join(parts)


def _short(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for name, command in commands_of(parser).items():
        yield f"[{code(name)}](#{_anchor(name)})", command.description or ""


def _anchor(name: str) -> str:
    return name.replace(" ", "-")


def _told(command: argparse.ArgumentParser, known: set[str]) -> Iterator[str]:
    yield command.description or ""
    yield f"```text\n{_usage(command)}\n```"
    options = _options(command, without=known)
    if options:
        yield table(("takes", ""), options)
    yield from _paragraphs(command.epilog)


def _usage(command: argparse.ArgumentParser) -> str:
    """In a line of its own or several, without what every command takes."""
    usual = command.formatter_class
    command.formatter_class = partial(HelpFormatter, width=10_000)
    try:
        line = command.format_usage().removeprefix("usage: ").replace("[-h] ", "")
    finally:
        command.formatter_class = usual  # the parsers are built once for all that this process does
    return textwrap.fill(
        " ".join(line.split()), _WIDTH, subsequent_indent="    ", break_on_hyphens=False
    )


def _options(parser: argparse.ArgumentParser, without: set[str]) -> list[tuple[str, str]]:
    """Each option and argument as it is typed, and what it says of itself."""
    found = []
    for action in parser._actions:  # noqa: SLF001  (argparse has no public way to them)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            continue
        typed = _typed(action)
        if typed not in without:
            said = (action.help or "") % {**vars(action), "prog": parser.prog}
            found.append((typed, said))
    return found


def _typed(action: argparse.Action) -> str:
    value = action.metavar or "|".join(map(str, action.choices or ())) or action.dest
    value = value if isinstance(value, str) else " ".join(value)
    if action.nargs == 0:
        return ", ".join(map(code, action.option_strings))
    if action.nargs in {"*", "+"}:
        value += " …"
    if action.nargs in {"?", "*"}:
        value = f"[{value}]"
    if not action.option_strings:
        return code(value)
    return ", ".join(code(f"{option} {value}") for option in action.option_strings)


def _paragraphs(text: str | None) -> Iterator[str]:
    """What stands below a command's options, whose line breaks are those of a terminal."""
    for paragraph in (text or "").strip().split("\n\n"):
        if paragraph.startswith(HEADING):
            yield f"```text\n{textwrap.dedent(paragraph.removeprefix(HEADING)).strip()}\n```"
        elif paragraph:
            yield " ".join(paragraph.split())
