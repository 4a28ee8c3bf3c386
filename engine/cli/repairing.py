"""The command that puts a damaged store right: repair."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

from engine.cli.console import out, tell
from engine.cli.importing import complaints, report_lines
from engine.cli.session import Session, open_session
from engine.errors import InputError, Problem, StoreError
from engine.importing.repair import Examination, Repair, examine, repair
from engine.store.reading import open_reader

DONE, INCOMPLETE, STOPPED = 0, 1, 3


def run_repair(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    session.make_way()
    found = examine(session.workspace, session.store_path, session.config)
    if found.is_sound:
        out(f"{found.path} is whole: {_up_to_date(session)}")
        return DONE
    if not found.exists and found.files is None:
        hint = "there is nothing to repair; `crosswind run` makes a new one"
        raise InputError(
            Problem("there is no store, and no file to rebuild it from", found.path, hint=hint)
        )
    for line in _plan(found):
        tell(line)
    if not (arguments.yes or _agreed()):
        return STOPPED
    done = asyncio.run(repair(session.workspace, session.config, found, now=datetime.now(UTC)))
    for line in _told(done):
        out(line)
    if done.filled is not None:
        for line in complaints(done.filled):
            tell(line)
    failed = done.filled is not None and done.filled.failed
    return INCOMPLETE if done.missing or failed else DONE


def _up_to_date(session: Session) -> str:
    """What an older version wrote can be written again once it is brought into today's form."""
    try:
        open_reader(session.store_path).close()
    except StoreError:
        with session.pipeline():
            return "it was brought up to date"
    return "every page and every message; nothing was changed"


def _plan(found: Examination) -> Iterator[str]:
    if found.unread:
        yield f"{found.path} holds nothing, and the files do"
    elif found.faults:
        yield f"{found.path} is damaged: {'; '.join(found.faults)}"
        yield "it will be copied aside, and what can be read of it saved into a new one"
    elif found.exists:
        yield f"{found.path} is whole, but the files hold more: {'; '.join(found.lacks)}"
    else:
        yield f"{found.path} does not exist"
    if found.files is not None:
        count = len(found.files.sources)
        what = "what is missing" if found.exists else "a new one"
        what = "it" if found.unread else what
        benchmarks = "benchmark" if count == 1 else "benchmarks"
        yield f"{what} will be filled from the files of {count} {benchmarks}"


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise InputError(
            Problem("this replaces the store", hint="add `--yes`: there is nobody here to ask")
        )
    tell("go on? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _told(done: Repair) -> Iterator[str]:
    if done.aside is not None:
        yield f"the damaged store is kept as {done.aside}"
    if done.saved is not None:
        yield f"saved from it: {done.saved.saved} rows"
        for table, one in done.saved.tables.items():
            lost = one.unreadable + one.dropped
            if lost:
                yield f"  {table}: {one.saved} saved, {one.unreadable} places unreadable, " + (
                    f"{one.dropped} rows left out"
                )
        if done.saved.problem is not None:
            yield f"  {done.saved.problem}"
    if done.filled is not None:
        yield "from the files:"
        for line in report_lines(done.filled):
            yield f"  {line}"
    if done.missing:
        yield "missing still; `crosswind run` does it again:"
        for line in done.missing:
            yield f"  {line}"
    else:
        yield "nothing that was done is missing"
