"""How a command says what it takes: an attribute for each argument."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

ArgumentContainer = argparse._ActionsContainer  # noqa: SLF001  (argparse has no public name for it)


class Argument:
    """An argument of argparse, which takes its name from the attribute that it is."""

    def __init__(self, default: Any = None, *, one_of: str = "", **given: Any) -> None:
        self.default = default
        self.one_of = one_of
        """Arguments with the same word here exclude each other."""
        self.given = given

    def add_to(self, parser: ArgumentContainer, attribute: str) -> None:
        given = {"name": f"--{attribute.replace('_', '-')}", **self.given}
        name = given.pop("name")
        if name is None:
            # a suppressed default would be read as if somebody had typed it
            parser.add_argument(attribute, default=self.default, **given)
        else:
            # what was said before the command must not give way to a default of the command
            parser.add_argument(name, dest=attribute, default=argparse.SUPPRESS, **given)


def required(metavar: str, text: str, **given: Any) -> Any:
    """A word that may not be left out."""
    return Argument(name=None, metavar=metavar, help=text, **given)


def flag(text: str, **given: Any) -> Any:
    return Argument(default=False, action="store_true", help=text, **given)


def option(
    metavar: str | tuple[str, ...] | None, text: str, *, default: Any = None, **given: Any
) -> Any:
    """The help names the default."""
    text = f"{text} (default: {default})" if default else text
    return Argument(default, metavar=metavar, help=text, **given)


def several(metavar: str, text: str) -> Any:
    """An option that may be repeated: a list, empty by default."""
    return Argument([], metavar=metavar, help=text, action="append")


def word(metavar: str, text: str, *, default: Any = None, **given: Any) -> Any:
    """A word that may be left out."""
    return Argument(default, name=None, metavar=metavar, nargs="?", help=text, **given)


def words(metavar: str, text: str, *, least: int = 0, **given: Any) -> Any:
    nargs = "+" if least else "*"
    return Argument([], name=None, metavar=metavar, nargs=nargs, help=text, **given)


class CliCommand:
    """What was typed."""

    does: ClassVar[str] = ""
    """Its line in the list of commands."""
    more: ClassVar[str] = ""
    """What its own help says besides."""
    examples: ClassVar[Mapping[str, str]] = {}
    """What is typed, and what that does or gives."""
    runs: ClassVar[str] = ""
    """The module of `engine.cli` and the function that carry it out. It is imported then, so that
    `--help` does not wait for it."""

    workspace: Path | None = option(
        "DIR",
        "the workspace (default: the one that holds the current folder)",
        type=Path,
    )
    plain: bool = flag("plain lines: no colours, no progress bars, no app")
    slow: bool = flag("redraw the app less often, for slow connections")
    no_mouse: bool = flag("leave the mouse to the terminal while the app is open")

    def __init__(self, **given: Any) -> None:
        for name, argument in arguments_of(type(self)).items():
            value = given.get(name, argument.default)
            setattr(self, name, [*value] if isinstance(value, list) else value)

    def carried_out_by(self) -> str:
        """As `runs`, where that depends on the arguments. Raises `InputError` if they do not go
        together."""
        return self.runs

    @classmethod
    def word(cls) -> str:
        """What is typed for it."""
        return cls.__name__.removesuffix("Command").lower()


class OpenApp(CliCommand):
    """`crosswind` without a command."""

    version: bool = flag("print the version")


class Spends(Protocol):
    """A command that may cost money."""

    yes: bool
    trust: bool


def arguments_of(kind: type[CliCommand]) -> Mapping[str, Argument]:
    """By attribute, those of every command first."""
    return {
        name: value
        for base in reversed(kind.__mro__)
        for name, value in vars(base).items()
        if isinstance(value, Argument)
    }


SHARED: Final[Sequence[str]] = tuple(arguments_of(CliCommand))
"""The attributes of every command."""


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command, as a group of their own."""
    group = parser.add_argument_group("for every command")
    for name, argument in arguments_of(CliCommand).items():
        argument.add_to(group, name)


def add_own(parser: argparse.ArgumentParser, kind: type[CliCommand]) -> None:
    """Add the arguments of this command."""
    groups: dict[str, ArgumentContainer] = {"": parser}
    for name, argument in arguments_of(kind).items():
        if name not in SHARED:
            if argument.one_of not in groups:
                groups[argument.one_of] = parser.add_mutually_exclusive_group()
            argument.add_to(groups[argument.one_of], name)


# What several commands take
BENCHMARKS: Any = words("BENCHMARK", "(default: all)")
BENCHMARK: Any = word("BENCHMARK", "(default: the only one)")
WHOSE_ID: Any = option("NAME", "which benchmark, where several have this id")
JSON: Any = flag("print JSON, for scripts")
YES: Any = flag("do not ask before money is spent")
TRUST: Any = flag("allow the workspace to send, import and connect to what it names")
HEADLESS: Any = flag(
    "do not open the app: progress on stderr, the result on stdout", one_of="where it runs"
)
DETACH: Any = flag("return at once; the engine goes on in the background", one_of="where it runs")
FAIL_UNDER: Any = several(
    "TRACK=RATE",
    "exit with 1 if a target's interval lies below RATE, with 5 if it contains RATE",
)
BY: Any = option("NAME", "your name (default: CROSSWIND_PERSON, else your account's name)")
