"""The frame of all benchmarks.

A benchmark is a function of this folder that yields rows. Its parameters are its arguments: those
that may stand by place are given by place, the keyword-only ones as options. Its docstring is what
`--help` says. `tests/benchmarks/__main__.py` lists them. What it measures in processes of their own
are functions too (`command`).
"""

from __future__ import annotations

import inspect
import json
import os
import resource
import subprocess
import sys
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import NoneType
from typing import Literal, NamedTuple, TypeVar, get_args, get_origin

T = TypeVar("T")


class Row(NamedTuple):
    what: str
    takes: str
    may: str = ""
    """How much it may take, where that is bounded."""
    missed: bool = False
    """Whether that bound is one that fails the benchmark, and it was missed."""


Run = Callable[..., Iterable[Row]]


def parser(run: Run, name: str) -> ArgumentParser:
    made = ArgumentParser(
        prog=f"python -m tests.benchmarks {name}",
        description=inspect.getdoc(run),
        formatter_class=RawDescriptionHelpFormatter,
    )
    for parameter in _parameters(run):
        _add(made, parameter)
    return made


def rows(run: Run, name: str, words: Sequence[str]) -> Iterable[Row]:
    """Ends the process where the words are not those that the benchmark takes."""
    given: Mapping[str, object] = vars(parser(run, name).parse_args(words))
    by_place: list[object] = []
    by_name: dict[str, object] = {}
    for parameter in _parameters(run):
        value = given[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL and isinstance(value, list):
            by_place += value
        elif parameter.kind is parameter.KEYWORD_ONLY:
            by_name[parameter.name] = value
        else:
            by_place.append(value)
    return run(*by_place, **by_name)


def _parameters(run: Run) -> Iterable[inspect.Parameter]:
    return inspect.signature(run, eval_str=True).parameters.values()


def _add(made: ArgumentParser, one: inspect.Parameter) -> None:
    option = f"--{one.name.replace('_', '-')}"
    default = None if one.default is one.empty else one.default
    said = "" if default is None else f"{default} if nothing is said"
    [kind, *_] = [
        argument for argument in get_args(one.annotation) if argument is not NoneType
    ] or [one.annotation]
    choices = get_args(one.annotation) if get_origin(one.annotation) is Literal else None
    if one.kind is one.VAR_POSITIONAL:
        made.add_argument(one.name, nargs="*", type=kind)
    elif one.kind is not one.KEYWORD_ONLY:
        nargs = None if one.default is one.empty else "?"
        made.add_argument(one.name, nargs=nargs, default=default, type=kind, help=said)
    elif kind is bool:
        made.add_argument(option, action="store_true")
    elif choices:
        made.add_argument(option, default=default, choices=choices, help=said)
    else:
        made.add_argument(option, default=default, type=kind, help=said)


def chosen(words: Sequence[str], known: Mapping[str, T]) -> dict[str, T]:
    """All of them where none is named. Ends the process where one is not known."""
    if unknown := set(words) - set(known):
        sys.exit(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return {name: known[name] for name in words or known}


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


# Processes of their own


def command(function: Callable[..., None], *arguments: object) -> list[str]:
    """What calls a function of a module in a process of its own. The arguments go over as JSON."""
    words = [sys.executable, "-m", "tests.benchmarks.frame"]
    return [*words, function.__module__, function.__name__, json.dumps(arguments)]


def crosswind(root: Path, *words: str) -> tuple[float, float]:
    """Seconds that a command takes in a workspace, and seconds of CPU. Ends this process where the
    command fails, with what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tui", *words, "--workspace", str(root)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        # an installed Crosswind has its modules compiled, whatever this environment wants
        env={**os.environ, "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": ""},
    )
    wall = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# Pages of the manual


def page(path: Path, lines: Sequence[str], faults: Sequence[str], *, write: bool) -> Iterator[Row]:
    """Print a page, or keep it; and say which of its bars are missed."""
    text = "\n".join([*lines, ""])
    if write:
        path.write_text(text, "utf-8")
    else:
        say(f"{text}\n")
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    yield Row("bars missed by more than chance allows", str(len(faults)), "0", bool(faults))


def missed(faults: Sequence[str], why: str = "") -> list[str]:
    """Lines that name each bar that is missed, and why."""
    lines = [f"Bars missed by more than chance allows: {len(faults)}."]
    if faults:
        lines += ["", *(f"- {fault}" for fault in faults), *(["", why] if why else [])]
    return lines


if __name__ == "__main__":
    _module, _function, _arguments = sys.argv[1:]
    vars(import_module(_module))[_function](*json.loads(_arguments))
