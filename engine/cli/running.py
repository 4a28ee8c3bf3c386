"""The commands that run something: demo, run, evaluate, simulate."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.benchmark import Stage
from engine.cli.console import out, out_json, tell
from engine.cli.headless import run_headless
from engine.cli.ids import conversations
from engine.cli.reporting import results_of, results_table
from engine.cli.samples import place_samples
from engine.cli.session import Session, again_order, open_session, order_of, whole_order
from engine.config.settings import ModelSpec
from engine.errors import InputError, Problem
from engine.pipeline.models import at_pace
from engine.pipeline.order import Order
from engine.pipeline.plan import RunPlan, plan_run
from engine.pipeline.run import RunResult
from engine.store.database import open_reader

DONE, FAILED, STOPPED = 0, 1, 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is checked and can start, headless or under the app."""

    session: Session
    order: Order


def prepare_demo(arguments: argparse.Namespace) -> Prepared:
    """Raises `InputError`."""
    folder: Path = arguments.dir or Path("demo")
    place_samples(folder)
    arguments.workspace = folder
    session = open_session(arguments)
    return Prepared(session, whole_order(session))


def prepare_run(arguments: argparse.Namespace) -> Prepared:
    """Raises `InputError`."""
    session = open_session(arguments)
    for warning in session.config.warnings:
        tell(f"note: {warning}")
    return Prepared(session, order_of(session, arguments))


def demo(arguments: argparse.Namespace) -> int:
    prepared = prepare_demo(arguments)
    tell(
        f"demo: three benchmarks in {prepared.session.workspace.root}, played by scripted models, "
        "which are not language models"
    )
    instant = Session(prepared.session.workspace, at_pace(prepared.session.config, "instant"))
    return _do(instant, prepared.order, arguments)


def run(arguments: argparse.Namespace) -> int:
    prepared = prepare_run(arguments)
    session, order = prepared.session, prepared.order
    if arguments.dry_run or arguments.explain or session.config.run.dry_run:
        return _explain(session, order, arguments)
    return _do(session, order, arguments)


def evaluate(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    evaluator = session.config.model_named(arguments.evaluator) if arguments.evaluator else None
    order = _again(session, arguments, frozenset({Stage.EVALUATE}))
    return _do(session, order, arguments, evaluator)


def simulate(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    order = _again(session, arguments, frozenset({Stage.SIMULATE, Stage.EVALUATE}))
    return _do(session, order, arguments)


def _again(session: Session, arguments: argparse.Namespace, stages: frozenset[Stage]) -> Order:
    with closing(open_reader(session.store_path)) as reader:
        keys = conversations(reader, arguments.ids, benchmark=arguments.benchmark)
    gone = {key.target_id for found in keys.values() for key in found} - {
        target.id for target in session.config.targets
    }
    if gone and Stage.SIMULATE in stages:
        raise InputError(
            Problem(
                f"targets no longer in the configuration: {', '.join(sorted(gone))}",
                path=session.config.path,
                key="targets",
                hint="a conversation can only be played again with a target that is there",
            )
        )
    return again_order(keys, stages)


def _do(
    session: Session,
    order: Order,
    arguments: argparse.Namespace,
    evaluator: ModelSpec | None = None,
) -> int:
    session.check(order, evaluator)
    with session.pipeline(evaluator) as pipeline:
        infos = session.infos(order.benchmarks)
        plain = getattr(arguments, "plain", False)
        result = run_headless(pipeline, order, infos, plain=plain)
    report(session, order, result, as_json=getattr(arguments, "json", False))
    return exit_code(result)


def exit_code(result: RunResult) -> int:
    if result.stopped:
        return STOPPED
    return FAILED if result.failed else DONE


def report(session: Session, order: Order, result: RunResult, *, as_json: bool) -> None:
    """What came of a run: the table to stdout, what to do next to stderr."""
    with closing(open_reader(session.store_path)) as reader:
        found = {name: results_of(session, reader, name) for name in order.benchmarks}
    if as_json:
        out_json({"failed": result.failed, "stopped": result.stopped, "results": found})
        return
    for name, rows in found.items():
        out(results_table(name, rows))
        out()
    if result.failed:
        tell(f"{result.failed} rows failed; `crosswind run` tries them again")
    if result.stopped:
        tell("stopped before the end; `crosswind run` goes on from here")


# Plans


def _explain(session: Session, order: Order, arguments: argparse.Namespace) -> int:
    """Say what would be done, and do none of it."""
    plans = _plans(session, order)
    if arguments.json:
        out_json([_plan_json(plan) for plan in plans])
        return DONE
    for plan in plans:
        out("\n".join(_plan_lines(plan, every_row=arguments.explain)))
    return DONE


def _plans(session: Session, order: Order) -> list[RunPlan]:
    with session.planning() as pipeline:
        evaluator = session.config.evaluator_model
        return [plan_run(bench, order, evaluator) for bench in pipeline.check(order)]


def _plan_lines(plan: RunPlan, *, every_row: bool) -> Sequence[str]:
    lines = [
        f"{plan.benchmark}: {len(plan.work)} rows to do"
        if plan.work
        else f"{plan.benchmark}: nothing is missing"
    ]
    for calls in plan.calls:
        who = f" {calls.target}" if calls.target else ""
        most = "at most " if calls.at_most else ""
        lines.append(f"  {calls.stage}{who}: {calls.rows} rows, {most}{calls.calls} calls")
    if plan.unknown:
        lines.append(f"  {plan.unknown}")
    if plan.stale:
        lines.append(f"  {len(plan.stale)} rows are stale; `--stale` does them again")
    if every_row:
        lines += [f"    {work}" for work in (*plan.work, *plan.stale)]
    return lines


def _plan_json(plan: RunPlan) -> dict[str, Any]:
    return asdict(plan)
