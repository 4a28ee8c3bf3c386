"""The commands that run something: demo, run, evaluate, simulate."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from engine.benchmark import ConversationKey, Stage
from engine.cli.console import out, out_json, tell
from engine.cli.following import ask_and_follow
from engine.cli.gates import Gate, judge_all, parse_gates
from engine.cli.headless import run_headless
from engine.cli.ids import conversations
from engine.cli.reporting import analyses_of
from engine.cli.results_table import results_table
from engine.cli.samples import place_samples
from engine.cli.session import Session, again_order, open_session, order_of, whole_order
from engine.errors import InputError, Problem
from engine.link import Command, Request, Row
from engine.pipeline.estimate import FREE, Range, stage_price
from engine.pipeline.order import Order
from engine.pipeline.plan import RunPlan, plan_run
from engine.pipeline.power import Detectable, detectable_differences, power_sentences
from engine.pipeline.run import RunResult
from engine.service.spawning import Job, spawn
from engine.stages.aggregate import as_rows
from engine.store.reading import open_reader

DONE, FAILED, STOPPED = 0, 1, 3
LINGER_SECONDS: Final = 5.0
"""For so long an engine of its own waits for more when all is done."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is checked and can start, headless or under the app."""

    session: Session
    order: Order
    gates: Sequence[Gate] = ()
    """What its results are held to."""


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
    gates = parse_gates(arguments.fail_under)
    if gates and arguments.detach:
        hint = "leave out --detach, or ask `crosswind results --fail-under` when it has ended"
        raise InputError(Problem("--fail-under waits for the end, --detach does not", hint=hint))
    return Prepared(session, order_of(session, arguments), gates)


def demo(arguments: argparse.Namespace) -> int:
    prepared = prepare_demo(arguments)
    tell(
        f"demo: three benchmarks in {prepared.session.workspace.root}, played by scripted models, "
        "which are not language models"
    )
    # somebody may come and watch an engine of its own
    session = prepared.session if arguments.detach else prepared.session.paced("instant")
    return run_here(session, prepared.order, arguments)


def run(arguments: argparse.Namespace) -> int:
    prepared = prepare_run(arguments)
    session, order = prepared.session, prepared.order
    if arguments.dry_run or arguments.explain or session.config.run.dry_run:
        return _explain(session, order, arguments)
    if not confirmed(session, order, arguments):
        return STOPPED
    return run_here(session, order, arguments, prepared.gates)


def evaluate(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    if arguments.evaluator:
        judge = session.config.model_named(arguments.evaluator).label
        if judge not in session.config.jury.judges:
            configured = " and ".join(session.config.jury.judges)
            tell(
                f"note: {judge} is not a judge of this configuration: its verdicts stand beside "
                f"the others, and count only where {configured} has given none"
            )
    keys = _asked(session, arguments)
    return _again(session, arguments, Command.EVALUATE, keys)


def simulate(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    keys = _asked(session, arguments)
    gone = {key.target_id for found in keys.values() for key in found} - {
        target.id for target in session.config.targets
    }
    if gone:
        raise InputError(
            Problem(
                f"targets no longer in the configuration: {', '.join(sorted(gone))}",
                path=session.config.path,
                key="targets",
                hint="a conversation can only be played again with a target that is there",
            )
        )
    return _again(session, arguments, Command.SIMULATE, keys)


_STAGES: Final = {
    Command.EVALUATE: frozenset({Stage.EVALUATE}),
    Command.SIMULATE: frozenset({Stage.SIMULATE, Stage.EVALUATE}),
}

Keys = Mapping[str, frozenset[ConversationKey]]


def _asked(session: Session, arguments: argparse.Namespace) -> Keys:
    with closing(open_reader(session.store_path)) as reader:
        return conversations(reader, arguments.ids, benchmark=arguments.benchmark)


def _again(session: Session, arguments: argparse.Namespace, command: Command, keys: Keys) -> int:
    """By the engine that is at work where there is one, else by one that is started for it."""
    evaluator: str | None = getattr(arguments, "evaluator", None)
    order = again_order(keys, _STAGES[command], evaluator)
    if not confirmed(session, order, arguments):
        return STOPPED
    if session.holder() is None:
        return run_here(session, order, arguments)
    rows = tuple(Row.of(name, key) for name, found in keys.items() for key in sorted(found))
    return ask_here(session, order, Request(command, rows=rows, evaluator=evaluator), arguments)


def ask_here(
    session: Session, order: Order, request: Request, arguments: argparse.Namespace
) -> int:
    """Have the engine at work do what `order` would, and wait for it unless that is not wanted."""
    as_json: bool = arguments.json
    result = ask_and_follow(session, request, wait=not arguments.detach, as_json=as_json)
    if result is None:
        return DONE
    if as_json:
        report(session, order, result, as_json=True)
    return exit_code(result)


def run_here(
    session: Session, order: Order, arguments: argparse.Namespace, gates: Sequence[Gate] = ()
) -> int:
    """In the foreground, or where that is asked for by an engine of its own."""
    session.check(order)
    session.make_way()
    if getattr(arguments, "detach", False):
        return detach(session, order)
    infos = session.infos(order.benchmarks)
    plain = getattr(arguments, "plain", False)
    result = run_headless(session.place, session.store_path, order, infos, plain=plain)
    as_json = getattr(arguments, "json", False)
    if order.again and not as_json:
        _report_again(session, order.again)
    else:
        report(session, order, result, as_json=as_json)
    return exit_code(result) or held_to(session, order, gates)


def _report_again(session: Session, keys: Keys) -> None:
    """What came of conversations that were judged or played again, one line each."""
    words = {True: "passes", False: "fails", None: "is unscored"}
    with closing(open_reader(session.store_path)) as reader:
        for name, found in keys.items():
            for key in sorted(found):
                take = reader.counting_take(name, key)
                given = [] if take is None else reader.verdicts(take.seq)
                if take is None or not given:
                    out(f"{key}: no verdict")
                    continue
                *before, last = given
                said = last.unscored or words[last.passed]
                line = f"{key}: {said} by {last.judge}, take {take.number}"
                out(f"{line}; it {words[last.counted]} on the whole")
                for one in before:
                    out(f"  before: {one.unscored or words[one.passed]} by {one.judge}")


def detach(session: Session, order: Order) -> int:
    """Start an engine that goes on by itself, and say how to reach it."""
    pid = spawn(Job(session.place, order, LINGER_SECONDS))
    root = session.workspace.root
    tell(f"running as process {pid}; it goes on when this terminal is closed")
    for word, what in (("watch", "opens the app on it"), ("status", "says how far it is")):
        tell(f"  crosswind {word} --workspace {shlex.quote(str(root))}   {what}")
    tell(f"  crosswind stop --workspace {shlex.quote(str(root))}   finishes what is being spoken")
    return DONE


def held_to(session: Session, order: Order, gates: Sequence[Gate]) -> int:
    """Say how the results stand to the gates; the exit code that follows. Raises `InputError`."""
    if not gates:
        return DONE
    with closing(open_reader(session.store_path)) as reader:
        found = analyses_of(session, reader, order.benchmarks)
    outcome = judge_all(list(found.values()), gates, order.targets)
    for line in outcome.lines:
        tell(line)
    return outcome.exit_code


def exit_code(result: RunResult) -> int:
    if result.stopped:
        return STOPPED
    return FAILED if result.failed else DONE


def report(session: Session, order: Order, result: RunResult, *, as_json: bool) -> None:
    """What came of a run: the table to stdout, what to do next to stderr."""
    with closing(open_reader(session.store_path)) as reader:
        found = analyses_of(session, reader, order.benchmarks)
    if as_json:
        rows = {name: as_rows(one) for name, one in found.items()}
        out_json({"failed": result.failed, "stopped": result.stopped, "results": rows})
        return
    for one in found.values():
        out(results_table(one))
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
    power: Sequence[Detectable]
    """What could be found out with it."""

    @property
    def total(self) -> Range | None:
        known = [price for price in self.prices if price is not None]
        return sum(known, FREE) if len(known) == len(self.prices) else None


def _plans(session: Session, order: Order) -> list[PricedPlan]:
    named = order.evaluator
    evaluator = None if named is None else session.config.model_named(named)
    with session.planning() as pipeline:
        benches = pipeline.check(order)
        plans = [plan_run(bench, order, evaluator) for bench in benches]
        powers = [
            detectable_differences(bench.definition, bench.config, bench.reader)
            for bench in benches
        ]
        estimator = pipeline.estimator()
    return [
        PricedPlan(
            plan,
            [
                stage_price(
                    estimator,
                    session.config,
                    evaluator,
                    stage=calls.stage,
                    target=calls.target,
                    calls=calls.calls,
                    by_judge=calls.by_judge or None,
                )
                for calls in plan.calls
            ],
            power,
        )
        for plan, power in zip(plans, powers, strict=True)
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
    lines += [f"  {sentence}" for sentence in power_sentences(priced.power)]
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
    power = [asdict(one) for one in priced.power]
    return {**asdict(priced.plan), "prices_usd": prices, "power": power}


def cost_of(session: Session, order: Order) -> list[str]:
    """What an order would call and cost, the whole of it last; empty where nothing is paid for."""
    specs = (session.config.user_model, *session.config.judges, session.config.generator)
    named = [] if order.evaluator is None else [session.config.model_named(order.evaluator)]
    if all(spec.is_offline for spec in (*specs, *named, *session.config.targets)):
        return []
    plans = _plans(session, order)
    if not any(priced.plan.calls for priced in plans):
        return []
    lines = [line for priced in plans for line in _plan_lines(priced, every_row=False)]
    if session.config.run.budget is not None:
        most = session.config.run.budget
        lines.append(f"the run stops before it has cost more than ${most:.2f}")
    return [*lines, f"all together: {_total_words(plans)}"]


def confirmed(session: Session, order: Order, arguments: argparse.Namespace) -> bool:
    """Whether to go on: asked on a terminal before real money is spent, unless `--yes` is given."""
    cost = cost_of(session, order)
    for line in cost:
        tell(line)
    if not cost or arguments.yes or not sys.stdin.isatty():
        return True
    tell("go on? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
