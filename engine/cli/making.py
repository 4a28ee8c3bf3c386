"""The commands that make files: init, new, mirror."""

from __future__ import annotations

import argparse
import asyncio

from engine.cli.console import out, tell
from engine.cli.session import Session, open_session
from engine.config.templates import init_workspace, new_benchmark
from engine.config.workspace import find_workspace
from engine.pipeline.run import mirror_benchmark


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
    with session.pipeline() as pipeline:
        for name in names:
            report = asyncio.run(mirror_benchmark(pipeline, name))
            for path in report.written:
                out(str(path))
            for sentence in report.kept:
                tell(f"note: {sentence}")
    return 0
