"""The commands that make files: init, new; and the samples of the demo."""

from __future__ import annotations

import shutil
from importlib import resources
from pathlib import Path
from typing import Final

from engine.cli.commands.begin import InitCommand, NewCommand
from engine.cli.console import out, table, tell
from engine.config.starter_benchmarks import read_starter, starter_names
from engine.config.templates import init_workspace, new_benchmark
from engine.config.workspace import find_workspace
from engine.errors import InputError, Problem


def init(arguments: InitCommand) -> int:
    for path in init_workspace(arguments.dir):
        out(str(path))
    tell("next: `crosswind new NAME` in that folder, describe what you measure, `crosswind run`")
    return 0


def new(arguments: NewCommand) -> int:
    if arguments.lists:
        out(_starters())
        return 0
    if arguments.name is None:
        raise InputError(Problem("a benchmark needs a name", hint="crosswind new NAME"))
    start = arguments.workspace or Path.cwd()
    for path in new_benchmark(find_workspace(start), arguments.name, arguments.starter):
        out(str(path))
    first = "describe what you measure in it" if arguments.starter is None else "read it"
    tell(f"next: {first}, then `crosswind run`")
    return 0


def _starters() -> str:
    rows = [
        [
            starter.name,
            starter.title,
            starter.version,
            ", ".join(starter.demographics),
            starter.licence,
        ]
        for starter in map(read_starter, starter_names())
    ]
    return table(
        ["starter", "measures", "version", "groups by", "licence"], rows, right=frozenset()
    )


REAL_CONFIG: Final = "real.yaml"
"""The configuration of the demo with a real language model, among the samples."""
REAL_BENCHMARK: Final = "own-judgement"


def place_samples(folder: Path, *, real: bool = False) -> None:
    """Copy the samples into a new folder; a demo that is there already is left as it is. With
    `real`, one benchmark alone, and the configuration with a language model as a target.

    Raises `InputError` where the folder holds something else, or cannot be written.
    """
    if (folder / "config.yaml").is_file() and (folder / "benchmarks").is_dir():
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(
            Problem(
                "there is something here that is not a demo",
                path=folder,
                hint="name another place with --dir",
            )
        )
    try:
        with resources.as_file(resources.files("sample_benchmarks")) as source:
            shutil.copytree(
                source,
                folder,
                dirs_exist_ok=True,
                ignore=_real_alone if real else _NOT_COPIED,
            )
        if real:
            (folder / REAL_CONFIG).replace(folder / "config.yaml")
    except OSError as error:
        why = error.strerror or type(error).__name__
        hint = "name another place with --dir"
        raise InputError(Problem(f"cannot be written: {why}", path=folder, hint=hint)) from error


_PROGRAMS: Final = ("__init__.py", "__pycache__", "*.pyc")
_NOT_COPIED: Final = shutil.ignore_patterns(*_PROGRAMS, REAL_CONFIG)


def _real_alone(folder: str, names: list[str]) -> set[str]:
    """As `shutil.copytree` asks: what is not copied for the demo with a language model."""
    left_out = shutil.ignore_patterns(*_PROGRAMS, "config.yaml")(folder, names)
    others = set(names) - {REAL_BENCHMARK} if Path(folder).name == "benchmarks" else set()
    return left_out | others
