"""Opens the app on a workspace; where there is something to run, an engine is started beside it."""

from __future__ import annotations

import argparse
import os
import shlex
from contextlib import closing
from typing import TYPE_CHECKING

from engine.benchmark import Stage
from engine.cli.console import tell
from engine.cli.session import Session, open_session
from engine.errors import WorkspaceBusyError
from engine.facts import NoteKind
from engine.pipeline.order import Order
from engine.store.database import open_store
from engine.store.lock import hold_workspace
from engine.watch import BenchmarkInfo, Watch
from tui.remembered import Memory

if TYPE_CHECKING:
    from engine.cli.running import Prepared
    from tui.results.report import Report

# What a run needs takes longer to load than the first frame may: it is loaded when there is one.


def open_app(arguments: argparse.Namespace) -> int:
    """Returns the exit code."""
    slow: bool = getattr(arguments, "slow", False)
    if arguments.command not in {"demo", "run"}:
        _look(open_session(arguments), slow=slow)
        return 0
    from engine.cli.running import STOPPED, confirmed, prepare_demo, prepare_run

    if arguments.command == "demo":
        return _run_and_watch(prepare_demo(arguments), slow=slow)
    prepared = prepare_run(arguments)
    if not confirmed(prepared.session, prepared.order, arguments):
        return STOPPED
    return _run_and_watch(prepared, slow=slow)


def _run_and_watch(prepared: Prepared, *, slow: bool) -> int:
    """The engine outlives the app, which may be left at any time."""
    from engine.cli.running import DONE, held_to

    session, order = prepared.session, prepared.order
    session.check(order)
    session.make_way()
    holder = session.holder()
    if holder is not None:
        raise WorkspaceBusyError(
            f"{session.workspace.root} is being worked on by {holder}: `crosswind watch` shows it, "
            "`crosswind stop` ends it"
        )
    _start(session, order)
    with closing(_watch(session)) as watch:
        _show(session, watch, place="Live", slow=slow)
        watch.poll()
        code = _goodbye(session, order, watch)
        over = watch.progress.run_state is NoteKind.RUN_ENDED
        return code or (held_to(session, order, prepared.gates) if over else DONE)


def _look(session: Session, *, slow: bool) -> None:
    """The app on what is stored, and on the engine at work where there is one."""
    if not session.store_path.exists():
        with hold_workspace(session.workspace.root):
            open_store(session.store_path).close()
    place = "Benchmarks" if session.holder() is None else "Live"
    with closing(_watch(session)) as watch:
        _show(session, watch, place=place, slow=slow)


def _watch(session: Session) -> Watch:
    infos = session.watched()
    return Watch.open(session.store_path, infos, session.link())


def _show(session: Session, watch: Watch, *, place: str, slow: bool) -> None:
    from tui.app import CrosswindApp

    def start(order: Order | None) -> None:
        if order is not None:
            session.check(order)
        _start(session, order)

    def cost(order: Order) -> str | None:
        """In words; None where nothing is paid for."""
        from engine.cli.running import cost_of

        return next(reversed(cost_of(session, order)), None)

    def make(name: str) -> BenchmarkInfo:
        from engine.config.templates import new_benchmark

        new_benchmark(session.workspace, name)
        [made] = session.infos([name])
        return made

    def report(benchmark: str) -> Report:
        # Imported when results are first asked for: it takes more than the first frame may.
        from tui.results.adding_up import added_up

        return added_up(session.workspace, session.config, session.store_path, benchmark)

    app = CrosswindApp(
        watch,
        place=place,
        start=start,
        cost=cost,
        make=make,
        memory=Memory.of(os.environ),
        slow=slow,
        report=report,
        attach=f"crosswind watch{_on(session)}",
    )
    app.run()
    if app.return_code:
        raise SystemExit(app.return_code)


def _start(session: Session, order: Order | None) -> None:
    from engine.cli.running import LINGER_SECONDS
    from engine.service.spawning import Job, spawn

    spawn(Job(session.place, order, LINGER_SECONDS))


def _on(session: Session) -> str:
    return f" --workspace {shlex.quote(str(session.workspace.root))}"


def _goodbye(session: Session, order: Order, watch: Watch) -> int:
    """What stays on the terminal when the app has gone, and how it went as an exit code: a run
    that goes on is no failure."""
    from engine.cli.running import DONE, FAILED, STOPPED

    for info in watch.benchmarks:
        tallies = [one.simulate for one in watch.progress.targets_of(info.name).values()]
        done = sum(tally.done for tally in tallies)
        total = sum(tally.total for tally in tallies)
        tell(f"{info.name}: {done} of {total} conversations")
    on = _on(session)
    ended = [note for note in watch.progress.notes if note.kind is NoteKind.RUN_ENDED]
    if session.holder() is not None:
        over = watch.progress.run_state is NoteKind.RUN_ENDED
        if not over:
            return DONE  # the app has said how to see it again
    if watch.progress.run_state is not NoteKind.RUN_ENDED or ended[-1].text == "stopped":
        tell(f"stopped before the end; `crosswind run{on}` goes on from here")
        return STOPPED
    failed = sum(
        watch.progress.stage_tally(name, stage).failed
        for name in order.benchmarks
        for stage in Stage
    )
    if failed:
        tell(f"{failed} rows failed; `crosswind retry{on}` tries them again")
    tell(f"results: `crosswind results{on}`")
    return FAILED if failed else DONE
