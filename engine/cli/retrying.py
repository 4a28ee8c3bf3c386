"""`crosswind retry`: what failed, once more."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing

from engine.cli.console import tell
from engine.cli.ids import find
from engine.cli.pricing import confirmed
from engine.cli.running import DONE, STOPPED, ask_here, run_here
from engine.cli.session import Session, open_session
from engine.errors import InputError, Problem
from engine.link import Command, Request, Row
from engine.pipeline.order import Order
from engine.service.engine import failed_rows
from engine.store.reading import open_reader


def retry(arguments: argparse.Namespace) -> int:
    """What failed, once more, by the engine at work or by one that is started for it."""
    session = open_session(arguments)
    known = [target.id for target in session.config.targets]
    if arguments.target is not None and arguments.target not in known:
        there = f"there is: {', '.join(known)}"
        raise InputError(Problem(f"there is no target {arguments.target!r}", hint=there))
    rows = _rows(session, arguments)
    at_work = session.holder() is not None
    if not rows and not (at_work and arguments.target):
        tell("nothing has failed")
        return DONE
    order = confirmed(session, _order(rows), arguments)
    if order is None:
        return STOPPED
    if not at_work:
        return run_here(session, order, arguments)
    request = Request(Command.RETRY, rows=rows, target=arguments.target, quote=order.quote)
    return ask_here(session, order, request, arguments)


def _rows(session: Session, arguments: argparse.Namespace) -> tuple[Row, ...]:
    """Those that are named, else all that failed. Raises `InputError`."""
    named = _named_rows(session, arguments)
    with session.planning() as pipeline:
        failed = failed_rows(pipeline)
    others = [row.unit for row in named if row not in failed]
    if others:
        raise InputError(Problem(f"not among what has failed: {', '.join(others)}"))
    target, benchmark = arguments.target, arguments.benchmark
    return named or tuple(
        row
        for row, owner in failed.items()
        if target in {None, owner} and benchmark in {None, row.benchmark}
    )


def _named_rows(session: Session, arguments: argparse.Namespace) -> tuple[Row, ...]:
    if not arguments.ids:
        return ()
    with closing(open_reader(session.store_path)) as reader:
        named = [find(reader, text, benchmark=arguments.benchmark) for text in arguments.ids]
    return tuple(Row(one.benchmark, one.id) for one in named)


def _order(rows: Sequence[Row]) -> Order:
    only: dict[str, set[str]] = {}
    for row in rows:
        only.setdefault(row.benchmark, set()).add(row.unit)
    return Order(
        benchmarks=tuple(only), only={name: frozenset(units) for name, units in only.items()}
    )
