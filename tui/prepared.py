"""The commands that prepare something before they open the app: demo, run, label."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

from engine.cli.commands.at_work import RunCommand
from engine.cli.commands.results import LabelCommand
from engine.cli.commands.upkeep import DemoCommand
from engine.cli.console import tell
from engine.cli.labelling import opened_disputes, opened_sample, progress_lines
from engine.cli.piloting import report_pilot
from engine.cli.pricing import checked, confirm_order
from engine.cli.running import (
    PreparedRun,
    held_to,
    join,
    joins,
    prepare_demo,
    prepare_run,
    start,
    tell_next,
)
from engine.errors import DONE, STOPPED
from engine.facts import NoteKind
from tui.launch import open_app, run_app, tell_outcome, watch_of
from tui.navigation import OpenedScreen


def run(arguments: DemoCommand | RunCommand) -> int:
    """Start a run and open the app on it. The engine outlives the app."""
    if isinstance(arguments, DemoCommand):
        prepared = prepare_demo(arguments)
    else:
        prepared = prepare_run(arguments)
        if joins(prepared):
            return join(prepared, arguments)
    checked_run = _checked_run(prepared, arguments)
    if checked_run is None:
        return STOPPED
    prepared = checked_run
    session = prepared.session
    pilot = _pilot_before(prepared)
    pid = start(session, prepared.order)
    with closing(watch_of(session)) as watch:
        run_app(
            arguments,
            session.workspace,
            lambda: session,
            watch,
            place="Live",
            started=pid,
            pilot=pilot,
        )
        watch.poll()
        code = tell_outcome(session.handle, watch, _next_steps(prepared))
        over = watch.progress.run_state is NoteKind.RUN_ENDED
        return code or (held_to(session, prepared.order, prepared.gates) if over else DONE)


def _checked_run(prepared: PreparedRun, arguments: DemoCommand | RunCommand) -> PreparedRun | None:
    """Check and price what `demo` or `run` asks for; None if the user rejects the price. Raises
    `CrosswindError`."""
    prepared.session.require_free()
    if isinstance(arguments, DemoCommand):  # costs nothing, so there is no price to agree to
        checked(prepared.session, prepared.order)
        return prepared
    order = confirm_order(prepared.session, prepared.order, arguments)
    return None if order is None else replace(prepared, order=order)


def _pilot_before(prepared: PreparedRun) -> tuple[str, int] | None:
    """A pilot's benchmark, with the `seq` of the run before it; None for any other run, and for a
    pilot of several benchmarks, whose pages are opened on each."""
    if not prepared.order.pilot or len(prepared.order.benchmarks) != 1:
        return None
    with prepared.session.reader_or_empty() as reader:
        last = reader.last_run()
    return prepared.order.benchmarks[0], 0 if last is None else last.seq


def _next_steps(prepared: PreparedRun) -> Callable[[], None] | None:
    """Prints what a pilot found, or the next steps; None unless it is a pilot, or `--until` stops
    the run before its results."""
    until = prepared.until
    if prepared.order.pilot:
        return lambda: report_pilot(prepared.session, prepared.order, as_json=False)
    if until is None:
        return None
    return lambda: tell_next(prepared.session, prepared.order, until, is_over=True)


# The sample and the disputes are opened before the app, so that errors are printed on the terminal
# and no other screen is seen.


def label(arguments: LabelCommand) -> int:
    if arguments.decide is not None:
        return open_app(arguments, OpenedScreen("adjudicate", (opened_disputes(arguments),)))
    sample = opened_sample(arguments)
    code = open_app(arguments, OpenedScreen("label", (sample,)))
    for line in progress_lines(sample.progress()):
        tell(line)
    return code
