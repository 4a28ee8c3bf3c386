"""Opens the app on a workspace, with an engine beside it where there is something to run."""

from __future__ import annotations

import argparse

from engine.cli.console import tell
from engine.cli.running import STOPPED, Prepared, confirmed, exit_code, prepare_demo, prepare_run
from engine.cli.session import open_session, whole_order
from engine.host import EngineThread
from engine.link import Command, Request
from engine.pipeline.run import RunResult
from engine.store.database import open_store
from engine.store.lock import hold_workspace
from engine.watch import Watch


def open_app(arguments: argparse.Namespace) -> int:
    """Returns the exit code."""
    match arguments.command:
        case "demo":
            return _run_and_watch(prepare_demo(arguments))
        case "run":
            prepared = prepare_run(arguments)
            if not confirmed(prepared.session, prepared.order, arguments):
                return STOPPED
            return _run_and_watch(prepared)
        case _:
            return _look(arguments)


def _run_and_watch(prepared: Prepared) -> int:
    """The engine runs on a thread of its own; leaving the app ends the run with it."""
    from tui.app import CrosswindApp

    session, order = prepared.session, prepared.order
    session.check(order)
    with session.pipeline() as pipeline:
        infos = session.infos(order.benchmarks)
        engine = EngineThread(pipeline, order)
        watch = Watch.open(session.store_path, infos, engine)
        engine.start()
        app = CrosswindApp(watch)
        try:
            app.run()
        finally:
            if not engine.join(0):
                engine.ask(Request(Command.STOP))
                tell("finishing what is being spoken; Ctrl-C stops now")
                _wait(engine)
            watch.close()
    if engine.error is not None:
        raise engine.error
    result = engine.result or RunResult(failed=0, stopped=True)
    _say_goodbye(watch, prepared, result)
    return app.return_code or exit_code(result)


def _wait(engine: EngineThread) -> None:
    try:
        engine.join()
    except KeyboardInterrupt:
        engine.ask(Request(Command.STOP_NOW))
        engine.join()


def _say_goodbye(watch: Watch, prepared: Prepared, result: RunResult) -> None:
    """What stays on the terminal when the app has gone."""
    root = prepared.session.workspace.root
    for info in watch.benchmarks:
        tallies = [one.simulate for one in watch.progress.targets_of(info.name).values()]
        done = sum(tally.done for tally in tallies)
        total = sum(tally.total for tally in tallies)
        tell(f"{info.name}: {done} of {total} conversations")
    if result.stopped:
        tell(f"stopped before the end; `crosswind run --workspace {root}` goes on from here")
    elif result.failed:
        tell(f"{result.failed} rows failed; `crosswind run --workspace {root}` tries them again")
    tell(f"results: `crosswind results --workspace {root}`")


def _look(arguments: argparse.Namespace) -> int:
    """The app on what is stored, with no engine."""
    from tui.app import CrosswindApp

    session = open_session(arguments)
    order = whole_order(session)
    if not session.store_path.exists():
        with hold_workspace(session.workspace.root):
            open_store(session.store_path).close()
    watch = Watch.open(session.store_path, session.infos(order.benchmarks))
    app = CrosswindApp(watch)
    app.run()
    watch.close()
    return app.return_code or 0
