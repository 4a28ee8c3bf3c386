"""The commands that run something: demo, run, evaluate, simulate."""

from __future__ import annotations

import argparse
import sys
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
from engine.pipeline.estimate import FREE, Range, stage_price
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
    if not confirmed(session, order, arguments):
        return STOPPED
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
        out_json([_plan_json(priced) for priced in plans])
        return DONE
    for priced in plans:
        out("\n".join(_plan_lines(priced, every_row=arguments.explain)))
    out(f"all together: {_total_words(plans)}")
    return DONE


@dataclass(frozen=True, slots=True)
class PricedPlan:
    """What one benchmark's part of a run would do, and what that costs."""

    plan: RunPlan
    prices: Sequence[Range | None]
    """Of `plan.calls`, in order; None where a price is not known."""

    @property
    def total(self) -> Range | None:
        known = [price for price in self.prices if price is not None]
        return sum(known, FREE) if len(known) == len(self.prices) else None


def _plans(session: Session, order: Order, evaluator: ModelSpec | None = None) -> list[PricedPlan]:
    judge = evaluator or session.config.evaluator_model
    with session.planning() as pipeline:
        pipeline.evaluator = evaluator
        plans = [plan_run(bench, order, judge) for bench in pipeline.check(order)]
        estimator = pipeline.estimator()
    return [
        PricedPlan(
            plan,
            [
                stage_price(
                    estimator,
                    session.config,
                    judge,
                    stage=calls.stage,
                    target=calls.target,
                    calls=calls.calls,
                )
                for calls in plan.calls
            ],
        )
        for plan in plans
    ]


def _plan_lines(priced: PricedPlan, *, every_row: bool) -> Sequence[str]:
    plan = priced.plan
    lines = [
        f"{plan.benchmark}: {len(plan.work)} rows to do"
        if plan.work
        else f"{plan.benchmark}: nothing is missing"
    ]
    for calls, price in zip(plan.calls, priced.prices, strict=True):
        who = f" {calls.target}" if calls.target else ""
        most = "at most " if calls.at_most else ""
        lines.append(
            f"  {calls.stage}{who}: {calls.rows} rows, {most}{calls.calls} calls, {usd(price)}"
        )
    if plan.unknown:
        lines.append(f"  {plan.unknown}")
    if plan.stale:
        lines.append(f"  {len(plan.stale)} rows are stale; `--stale` does them again")
    if every_row:
        lines += [f"    {work}" for work in (*plan.work, *plan.stale)]
    return lines


def usd(price: Range | None) -> str:
    """A range of US dollars in words."""
    if price is None:
        return "price unknown"
    if price.high == 0:
        return "free"
    return f"about ${price.low:.2f} to ${price.high:.2f}"


def _total_words(plans: Sequence[PricedPlan]) -> str:
    calls = sum(one.calls for priced in plans for one in priced.plan.calls)
    totals = [priced.total for priced in plans]
    known = [total for total in totals if total is not None]
    if len(known) < len(totals):
        least = sum((one for priced in plans for one in priced.prices if one is not None), FREE)
        known_part = f"at least ${least.low:.2f}, and " if least.low else ""
        return f"{calls} calls, {known_part}prices that are not known"
    return f"{calls} calls, {usd(sum(known, FREE))}"


def _plan_json(priced: PricedPlan) -> dict[str, Any]:
    prices = [None if price is None else asdict(price) for price in priced.prices]
    return {**asdict(priced.plan), "prices_usd": prices}


def confirmed(session: Session, order: Order, arguments: argparse.Namespace) -> bool:
    """Whether to go on: asked on a terminal before real money is spent, unless `--yes` is given."""
    specs = (session.config.user_model, session.config.evaluator_model, session.config.generator)
    if all(spec.is_offline for spec in (*specs, *session.config.targets)):
        return True
    plans = _plans(session, order)
    if not any(priced.plan.calls for priced in plans):
        return True
    for priced in plans:
        for line in _plan_lines(priced, every_row=False):
            tell(line)
    tell(f"all together: {_total_words(plans)}")
    if session.config.run.budget is not None:
        tell(f"the run stops before it has cost more than ${session.config.run.budget:.2f}")
    if arguments.yes or not sys.stdin.isatty():
        return True
    tell("go on? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
