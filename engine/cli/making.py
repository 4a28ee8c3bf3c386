"""The commands that make files: init, new, mirror."""

from __future__ import annotations

import argparse
import asyncio
import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from engine.cli.console import out, tell
from engine.cli.pipelines import planning, writing
from engine.cli.session import Session, open_session
from engine.config.benchmark_file import load_definition
from engine.config.templates import init_workspace, new_benchmark
from engine.config.workspace import find_workspace
from engine.errors import InputError, Problem
from engine.pipeline.files import differences
from engine.pipeline.run import mirror_benchmark
from engine.store.mirror import EditPolicy


def init(arguments: argparse.Namespace) -> int:
    for path in init_workspace(arguments.dir):
        out(str(path))
    tell("next: `crosswind new NAME` in that folder, describe what you measure, `crosswind run`")
    return 0


def new(arguments: argparse.Namespace) -> int:
    start = getattr(arguments, "workspace", None) or Path.cwd()
    for path in new_benchmark(find_workspace(start), arguments.name):
        out(str(path))
    tell("next: describe what you measure in it, then `crosswind run`")
    return 0


def mirror(arguments: argparse.Namespace) -> int:
    session: Session = open_session(arguments)
    names = session.benchmarks(arguments.benchmarks)
    if arguments.diff:
        return _differences(session, names)
    failed = False
    with writing(session) as pipeline:
        for name in names:
            report = asyncio.run(mirror_benchmark(pipeline, name, _edits(arguments)))
            for path in report.written:
                out(str(path))
            for path in report.accepted:
                tell(f"note: {path} stays as it is; remove it to have it written again")
            for sentence in (*report.kept, *report.failed):
                tell(f"note: {sentence}")
            failed = failed or bool(report.failed)
    return 1 if failed else 0


def _edits(arguments: argparse.Namespace) -> EditPolicy:
    if arguments.keep:
        return EditPolicy.KEEP
    return EditPolicy.OVERWRITE if arguments.overwrite else EditPolicy.LEAVE


def _differences(session: Session, names: Sequence[str]) -> int:
    """Print the differences. This changes nothing, so an engine may be at work."""
    edited = False
    with planning(session) as planner:
        for name in names:
            definition = load_definition(session.workspace.definition_path(name))
            for line in differences(planner.context(definition)):
                edited = True
                out(line)
    if not edited:
        tell("no file was edited by hand")
    return 0


def place_samples(folder: Path) -> None:
    """Copy the samples into a new folder; a demo that is there already is left as it is.

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
                ignore=shutil.ignore_patterns("__init__.py", "__pycache__", "*.pyc"),
            )
    except OSError as error:
        why = error.strerror or type(error).__name__
        hint = "name another place with --dir"
        raise InputError(Problem(f"cannot be written: {why}", path=folder, hint=hint)) from error
