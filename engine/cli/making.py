"""The commands that make files: init, new, mirror."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence

from engine.cli.console import out, tell
from engine.cli.session import Session, open_session
from engine.config.benchmark_file import load_definition
from engine.config.templates import init_workspace, new_benchmark
from engine.config.workspace import find_workspace
from engine.pipeline.files import differences
from engine.pipeline.run import mirror_benchmark
from engine.store.mirror import Edits


def init(arguments: argparse.Namespace) -> int:
    for path in init_workspace(arguments.dir):
        out(str(path))
    tell("next: `crosswind new NAME` in that folder, describe what you measure, `crosswind run`")
    return 0


def new(arguments: argparse.Namespace) -> int:
    from pathlib import Path

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
    with session.pipeline() as pipeline:
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


def _edits(arguments: argparse.Namespace) -> Edits:
    if arguments.keep:
        return Edits.KEEP
    return Edits.OVERWRITE if arguments.overwrite else Edits.LEAVE


def _differences(session: Session, names: Sequence[str]) -> int:
    """To show them changes nothing, and needs no engine to be gone."""
    with session.planning() as pipeline:
        for name in names:
            definition = load_definition(session.workspace.definition_path(name))
            for line in differences(pipeline.bench(definition)):
                out(line)
    return 0
