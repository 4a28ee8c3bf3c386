"""The commands about an engine that is at work: pause, resume, stop, retry, status, watch."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from engine.benchmark import Stage
from engine.cli.console import out, out_json, table, tell
from engine.cli.following import ask, ask_and_follow
from engine.cli.headless import LinePrinter, tally_of
from engine.cli.ids import find
from engine.cli.running import STOPPED, confirmed, run_here
from engine.cli.session import Session, open_session
from engine.errors import InputError, Problem
from engine.link import Board, Command, EngineState, Request, Row
from engine.pipeline.order import Order
from engine.service.engine import failed_rows
from engine.store.database import open_reader
from engine.store.lock import Holder
from engine.watch import Watch

NOBODY: Final = "no engine is at work in {}"
POLL_SECONDS: Final = 0.1


def pause(arguments: argparse.Namespace) -> int:
    return _say(arguments, Command.PAUSE)


def resume(arguments: argparse.Namespace) -> int:
    return _say(arguments, Command.RESUME)


def _say(arguments: argparse.Namespace, command: Command) -> int:
    session = open_session(arguments)
    _holder(session)
    tell(ask(session, Request(command)).text)
    return 0


def stop(arguments: argparse.Namespace) -> int:
    """Done, too, where there is nothing to stop."""
    session = open_session(arguments)
    root = session.workspace.root
    if session.holder() is None:
        tell(NOBODY.format(root))
        return 0
    tell(ask(session, Request(Command.STOP_NOW if arguments.now else Command.STOP)).text)
    while arguments.wait and session.holder() is not None:
        time.sleep(POLL_SECONDS)
    return 0


def _holder(session: Session) -> Holder:
    holder = session.holder()
    if holder is None:
        hint = "`crosswind run` starts one"
        raise InputError(Problem(NOBODY.format(session.workspace.root), hint=hint))
    return holder


def retry(arguments: argparse.Namespace) -> int:
    """What failed, once more, by the engine at work or by one that is started for it."""
    session = open_session(arguments)
    known = [target.id for target in session.config.targets]
    if arguments.target is not None and arguments.target not in known:
        there = f"there is: {', '.join(known)}"
        raise InputError(Problem(f"there is no target {arguments.target!r}", hint=there))
    rows = _named_rows(session, arguments)
    if session.holder() is not None:
        request = Request(Command.RETRY, rows=rows, target=arguments.target)
        return ask_and_follow(session, request, wait=not arguments.detach)
    return _retry_here(session, arguments, rows)


def _named_rows(session: Session, arguments: argparse.Namespace) -> tuple[Row, ...]:
    with closing(open_reader(session.store_path)) as reader:
        named = [find(reader, text, benchmark=arguments.benchmark) for text in arguments.ids]
    return tuple(Row(one.benchmark, one.id) for one in named)


def _retry_here(session: Session, arguments: argparse.Namespace, rows: Sequence[Row]) -> int:
    with session.planning() as pipeline:
        failed = failed_rows(pipeline)
    if arguments.target is not None:
        failed = {row: target for row, target in failed.items() if target == arguments.target}
    others = [row.unit for row in rows if row not in failed]
    if others:
        raise InputError(Problem(f"not among what has failed: {', '.join(others)}"))
    asked = rows or tuple(failed)
    if not asked:
        tell("nothing has failed")
        return 0
    only: dict[str, set[str]] = {}
    for row in asked:
        only.setdefault(row.benchmark, set()).add(row.unit)
    order = Order(
        benchmarks=tuple(only), only={name: frozenset(units) for name, units in only.items()}
    )
    if not confirmed(session, order, arguments):
        return STOPPED
    return run_here(session, order, arguments)


# Watching without the app


def watch(arguments: argparse.Namespace) -> int:
    """Lines for as long as an engine is at work; the app does it where there is a terminal."""
    session = open_session(arguments)
    _holder(session)
    infos = session.watched()
    with (
        closing(session.link()) as link,
        closing(Watch.open(session.store_path, infos, link)) as watched,
    ):
        printer = LinePrinter()
        while session.holder() is not None:
            watched.poll()
            printer.show(watched)
            time.sleep(POLL_SECONDS)
        watched.poll()
        printer.show(watched, last=True)
    return 0


# Status


@dataclass(frozen=True, slots=True)
class Status:
    """Where a workspace stands."""

    session: Session
    holder: Holder | None
    board: Board | None
    """None where no engine is at work."""
    watch: Watch


def status(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    infos = session.watched()
    holder = session.holder()
    with closing(Watch.open(session.store_path, infos)) as watched:
        found = Status(session, holder, _board(session, holder), watched)
        if arguments.json:
            out_json(_as_json(found))
        else:
            _print(found)
    return 0


def _board(session: Session, holder: Holder | None) -> Board | None:
    if holder is None:
        return None
    with closing(session.link()) as link:
        return link.board()


def _as_json(status: Status) -> dict[str, Any]:
    board, holder, progress = status.board, status.holder, status.watch.progress
    engine = holder and {
        "pid": holder.pid,
        "host": holder.host,
        "since": holder.since and holder.since.isoformat(),
        "state": board and board.state,
        "speaking": board and len(board.speaking),
        "problem": board and board.problem,
        "waits": [{"model": one.model, "why": one.why} for one in board.waits] if board else [],
        "parked": dict(board.parked) if board else {},
        "concurrency": dict(board.concurrency) if board else {},
        "notices": list(board.notices) if board else [],
    }
    benchmarks = {}
    for info in status.watch.benchmarks:
        benchmarks[info.name] = {
            "stages": {
                stage: _tally_json(progress.stage_tally(info.name, stage)) for stage in Stage
            },
            "targets": {
                target.id: {
                    "simulate": _tally_json(progress.target(info.name, target.id).simulate),
                    "evaluate": _tally_json(progress.target(info.name, target.id).evaluate),
                    "calls": progress.target(info.name, target.id).usage.calls,
                    "cost_usd": progress.target(info.name, target.id).usage.cost_usd,
                    "last_problem": progress.target(info.name, target.id).last_problem,
                }
                for target in info.targets
            },
        }
    return {
        "workspace": str(status.session.workspace.root),
        "engine": engine,
        "last": progress.run_state,
        "benchmarks": benchmarks,
    }


def _tally_json(tally: Any) -> dict[str, int]:
    return {
        "queued": tally.queued,
        "running": tally.running,
        "done": tally.done,
        "failed": tally.failed,
    }


def _print(status: Status) -> None:
    board, progress = status.board, status.watch.progress
    out(_engine_line(status))
    for text in _remarks(board):
        out(f"  {text}")
    body = []
    for info in status.watch.benchmarks:
        for target in info.targets:
            one = progress.target(info.name, target.id)
            cells = [tally_of(one, stage) for stage in (Stage.SIMULATE, Stage.EVALUATE)]
            failed = sum(tally.failed for tally in cells)
            cost = one.usage.cost_usd
            body.append(
                [
                    info.name,
                    target.id,
                    *(f"{tally.done}/{tally.total}" for tally in cells),
                    str(failed),
                    "—" if cost is None else f"${cost:.2f}",
                ]
            )
    head = ["benchmark", "target", "played", "judged", "failed", "spent"]
    out(table(head, body, right=frozenset({2, 3, 4, 5})))


def _engine_line(status: Status) -> str:
    holder, board = status.holder, status.board
    if holder is None:
        last = status.watch.progress.run_state
        ran = "nothing has run yet" if last is None else f"the last that happened: {last}"
        return f"{NOBODY.format(status.session.workspace.root)}; {ran}"
    doing = EngineState.RUNNING if board is None else board.state
    speaking = f", {len(board.speaking)} messages being spoken" if board else ""
    return f"{doing}{speaking}: {holder}"


def _remarks(board: Board | None) -> Sequence[str]:
    if board is None:
        return ()
    waits = [f"{wait.model} waits: {wait.why}" for wait in board.waits]
    parked = [f"{target} is parked: {why}" for target, why in board.parked.items()]
    problem = [board.problem] if board.problem else []
    return [*problem, *waits, *parked, *board.notices]
