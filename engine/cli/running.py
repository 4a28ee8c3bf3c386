"""The commands that run something: demo, run, evaluate, simulate."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os.path import lexists
from pathlib import Path
from typing import Final

from engine.benchmark import ConversationKey, Stage
from engine.cli.access import STOPS, ahead_of, missing_for, planning
from engine.cli.commands.at_work import EvaluateCommand, RunCommand, SimulateCommand
from engine.cli.commands.upkeep import DemoCommand
from engine.cli.console import command_line, out, out_json, tell
from engine.cli.engine_requests import ask_and_follow
from engine.cli.gates import Gate, judge_gates, parse_gates
from engine.cli.headless import run_headless
from engine.cli.ids import conversations, find, still_asked_for
from engine.cli.lines import (
    NOT_REDONE,
    count_of,
    failure_lines,
    failures_json,
    rejected_sentence,
    stopped_line,
    tell_failures,
    waiting_sentence,
    what_next,
)
from engine.cli.linting import lint_json, lint_words, linted, split_silenced
from engine.cli.main import session_with_store
from engine.cli.making import place_samples, require_model
from engine.cli.piloting import report_pilot
from engine.cli.pricing import (
    called_by,
    checked,
    confirm_order,
    plan_lines,
    planned_json,
    plans_of,
    spent_so_far,
    total_lines,
)
from engine.cli.reporting import analyses_of, print_results
from engine.cli.session import Session, open_session, whole_order
from engine.config.wording import nearest_word
from engine.config.workspace import BENCHMARKS_FOLDER
from engine.errors import DONE, FAILED, REFUSED, STOPPED, InputError, Problem
from engine.jury import HUMAN
from engine.link import Command, Request, WorkRow, again_order
from engine.people import ReviewMode
from engine.pipeline.batch_ledger import batch_lines
from engine.pipeline.generate import rejected_metrics
from engine.pipeline.order import PILOT_SCENARIOS, Order
from engine.pipeline.plan import plan_run
from engine.pipeline.remedies import FailureGroup, standing_failures
from engine.pipeline.run import RunResult
from engine.service.spawning import EngineJob, spawn
from engine.stages.aggregate import as_rows
from engine.store.reader import Reader

NAMED: Final = 3
"""The most benchmarks whose files are named."""


_MADE: Final = {
    Stage.GEN_METRICS: ("benchmark.yaml", "the metrics; what you change there counts"),
    Stage.GEN_SCENARIOS: ("scenarios.json", "the scenarios; what you change there counts"),
}
_SHOWN: Final = {
    Stage.GEN_METRICS: "a metric",
    Stage.GEN_SCENARIOS: "a scenario, as it is played",
    Stage.SIMULATE: "a conversation",
}


def next_steps(session: Session, order: Order, last: Stage) -> Iterator[str]:
    """A line for each thing to look at after `--until`, and the command that continues."""
    on = partial(command_line, workspace=session.workspace.root)
    yield f"stopped after {last}, as `--until` asked. Look at what it made:"
    steps: list[tuple[str, str]] = []
    with session.reader_or_empty() as reader:
        named = order.benchmarks[:NAMED] if last in _MADE else ()
        for name in named:
            file, words = _MADE[last]
            path = session.workspace.definition_path(name).with_name(file)
            steps.append((str(path.relative_to(session.workspace.root)), words))
        for name in named:
            ahead = ahead_of(session, name, reader)
            then = " before anything follows" if ahead.required else " or reject, if you like"
            if ahead.to_review:
                steps.append((on(f"review {name}"), f"{ahead.to_review:,} to approve{then}"))
        if (unit := _first_id(reader, order.benchmarks, last)) is not None:
            shown = _SHOWN.get(last, "a conversation with its verdicts")
            steps.append((on(f"show {unit}"), shown))
    if last in {Stage.SIMULATE, Stage.EVALUATE}:
        steps.append((on(""), "all of them, in the app"))
    if last in {Stage.EVALUATE, Stage.AGGREGATE}:
        steps.append((on("results"), "pass rates, and which differences are significant"))
    width = max((len(what) for what, _ in steps), default=0)
    yield from (f"  {what.ljust(width)}   {why}" for what, why in steps)
    if last is not Stage.AGGREGATE:
        yield f"then `{on('run')}` goes on from there"


def _first_id(reader: Reader, names: Sequence[str], last: Stage) -> str | None:
    """The id of a first metric, scenario or conversation to show."""
    for name in names:
        if last is Stage.GEN_METRICS:
            ids = [metric.id for metric, _, _ in reader.metrics(name)]
        elif last is Stage.GEN_SCENARIOS:
            ids = [row.scenario.id for row in reader.scenarios(name) if row.played]
        else:
            ids = [str(take.key) for take in reader.counting_takes(name)]
        if ids:
            return ids[0]
    return None


LINGER_SECONDS: Final = 5.0
"""How long a detached engine waits for more work when all is done."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is checked and can start, headless or under the app."""

    session: Session
    order: Order
    gates: Sequence[Gate] = ()
    """The gates for its results."""
    until: Stage | None = None
    """The stage to stop after, where one was named."""


def prepare_demo(arguments: DemoCommand) -> PreparedRun:
    """The demo's workspace, created if missing, and its order. Raises `CrosswindError`."""
    real = arguments.real
    folder = arguments.dir or Path("demo-real" if real else "demo")
    if real:
        require_model(arguments)
    place_samples(folder, real=real)
    arguments.workspace = folder
    session = open_session(folder)
    return PreparedRun(session, whole_order(session))


def prepare_run(arguments: RunCommand) -> PreparedRun:
    """The run that the arguments describe, with its gates. Raises `InputError`."""
    session = replace(
        open_session(arguments.workspace),
        anew=arguments.anew,
        workers=arguments.workers or 0,
    )
    for warning in session.config.warnings:
        tell(f"note: {warning}")
    looks = arguments.dry_run or arguments.explain or session.config.run.dry_run
    if arguments.strict and not looks:
        raise InputError(Problem("--strict goes with --dry-run", hint="it asks no model"))
    session = session_with_store(session, arguments, looks=looks)
    gates = parse_gates(arguments.fail_under)
    if gates and arguments.detach:
        hint = "leave out --detach, or ask `crosswind results --fail-under` when it has ended"
        raise InputError(Problem("--fail-under waits for the end, --detach does not", hint=hint))
    order = order_of(session, arguments)
    until = Stage(arguments.until) if arguments.until else None
    if gates and until is not None and Stage.EVALUATE not in order.stages:
        what = "--fail-under needs verdicts, and this run stops before it gives any"
        raise InputError(Problem(what, hint="leave one of the two out"))
    return PreparedRun(session, order, gates, until)


def order_of(session: Session, arguments: RunCommand) -> Order:
    """The order of `run`. Raises `InputError` with every word that names nothing."""
    problems: list[Problem] = []
    stages = _known_names(arguments.stage, [stage.value for stage in Stage], "stage", problems)
    ids = [target.id for target in session.config.targets]
    targets = _known_names(arguments.target, ids, "target", problems)
    benchmarks: list[str] = []
    only: dict[str, frozenset[str]] = {}
    try:
        benchmarks, only = _named_parts(session, arguments.names)
    except InputError as error:
        problems += error.problems
    until = [arguments.until] if arguments.until else []
    last = _known_names(until, [stage.value for stage in Stage], "stage", problems)
    if only and arguments.pilot:
        problems.append(Problem("a pilot is of whole benchmarks", hint="leave out the ids"))
    if only and targets:
        problems.append(Problem("an id says whose it is", hint="leave out --target"))
    if problems:
        raise InputError(problems)
    asked = up_to(last[0] if last else None, [Stage(stage) for stage in stages])
    policy = session.config.run
    return Order(
        benchmarks=tuple(benchmarks),
        stages=asked,
        targets=frozenset(targets) or None,
        force=arguments.force or policy.force,
        stale=arguments.stale,
        only=only,
        pilot=_pilot_size(arguments),
        resubmit=arguments.resubmit,
    )


def _pilot_size(arguments: RunCommand) -> int:
    """Base scenarios of each metric; 0 for no pilot. Raises `InputError`."""
    scenarios: int | None = arguments.scenarios
    if not arguments.pilot:
        if scenarios is not None or arguments.budget is not None:
            hint = "`run.budget` of config.yaml limits every run"
            raise InputError(Problem("--scenarios and --budget go with --pilot", hint=hint))
        return 0
    if scenarios is not None and scenarios < 1:
        raise InputError(Problem("--scenarios must be at least 1"))
    return scenarios or PILOT_SCENARIOS


def _named_parts(
    session: Session, words: Sequence[str]
) -> tuple[list[str], dict[str, frozenset[str]]]:
    """The benchmarks that the words name, or all; or the rows that the ids among them name, by
    benchmark, of which a named one limits the search. Raises `InputError`."""
    known = session.workspace.benchmark_names()
    ids = [word for word in words if word not in known]
    named = [word for word in words if word in known]
    folder = session.workspace.root / BENCHMARKS_FOLDER
    # a word near a benchmark's name, or of a folder that cannot be read, is no id
    is_name = any(nearest_word(word, known) or lexists(folder / word) for word in ids)
    if not ids or is_name or not session.store_path.exists():
        if (unit := next((word for word in ids if "__" in word), None)) is not None:
            hint = "name benchmarks, or nothing; ids are known from the first run on"
            raise InputError(Problem(f"{unit!r} is not known: nothing was run here yet", hint=hint))
        return session.benchmarks(words), {}
    if len(named) > 1:
        what = "ids are those of one benchmark, or of any"
        raise InputError(Problem(what, hint=f"name none or one of {', '.join(named)}"))
    within = named[0] if named else None
    units: defaultdict[str, set[str]] = defaultdict(set)
    with session.reader() as reader:
        for word in ids:
            benchmark, unit = _row_named(session, reader, word, within)
            units[benchmark].add(unit)
    return list(units), {name: frozenset(mine) for name, mine in units.items()}


def _row_named(session: Session, reader: Reader, word: str, within: str | None) -> tuple[str, str]:
    """Benchmark and id of what a word names, also of a conversation that was never begun. Raises
    `InputError`."""
    try:
        match = find(reader, word, benchmark=within)
    except InputError:
        scenario, _, rest = word.partition("__")
        # a sample's number may follow the target
        if rest.split("__")[0] not in session.target_ids:
            raise
        return find(reader, scenario, benchmark=within).benchmark, word
    return match.benchmark, match.id


def up_to(last: str | None, stages: Sequence[Stage]) -> frozenset[Stage]:
    """These stages, or all, up to `last`. Raises `InputError` where a named one comes after it."""
    every = list(Stage)
    asked = frozenset(stages or every)
    if last is None:
        return asked
    place = every.index(Stage(last))
    later = [stage for stage in stages if every.index(stage) > place]
    if later:
        what = f"--stage {later[0]} comes after --until {last}: nothing of it would be done"
        raise InputError(Problem(what, hint="leave one of the two out"))
    return asked & frozenset(every[: place + 1])


def _known_names(
    words: Sequence[str], known: Sequence[str], kind: str, problems: list[Problem]
) -> list[str]:
    for word in words:
        if word not in known:
            near = nearest_word(word, known)
            hint = f"did you mean {near!r}? " if near else ""
            listed = ", ".join(known)
            problems.append(
                Problem(f"there is no {kind} {word!r}", hint=f"{hint}there is: {listed}")
            )
    return [word for word in words if word in known]


def demo(arguments: DemoCommand) -> int:
    prepared = prepare_demo(arguments)
    played = (
        "a benchmark in {}: the target smollm2 is a small language model on this machine, all "
        "others are scripts, which are not language models"
        if arguments.real
        else "three benchmarks in {}, played by scripted models, which are not language models"
    )
    tell(f"demo: {played.format(prepared.session.workspace.root)}")
    # a detached engine may be watched, so its scripts speak at their usual pace
    session = prepared.session if arguments.detach else prepared.session.with_pace("instant")
    return run_here(session, checked(session, prepared.order).order, arguments)


def run(arguments: RunCommand) -> int:
    prepared = prepare_run(arguments)
    session, order = prepared.session, prepared.order
    if arguments.dry_run or arguments.explain or session.config.run.dry_run:
        return _explain(session, order, arguments)
    if joins(prepared):
        return join(prepared, arguments)
    # before anybody agrees to a price
    session.require_free()
    agreed = confirm_order(session, order, arguments)
    if agreed is None:
        return STOPPED
    code = run_here(session, agreed, arguments, prepared.gates)
    if prepared.until is not None and code == DONE:
        tell_next(session, agreed, prepared.until, is_over=not arguments.detach)
    return code if arguments.detach else held_by_people(session, agreed, code)


def joins(prepared: PreparedRun) -> bool:
    """Whether an engine is at work and is to do it: all that is missing or failed of some ids, or
    of the one target that it may have parked."""
    session, order = prepared.session, prepared.order
    plain = Order(order.benchmarks, only=order.only, targets=order.targets)
    named = order.only or len(order.targets or ()) == 1
    if not named or order != plain:
        return False
    session.make_way()
    return session.holder() is not None


def join(prepared: PreparedRun, arguments: RunCommand) -> int:
    """Have the engine at work try again what failed of the named ids or of the target, which it
    then calls again."""
    session, order = prepared.session, prepared.order
    rows = tuple(WorkRow(name, unit) for name, ids in order.only.items() for unit in sorted(ids))
    request = Request(Command.RETRY, rows=rows, target=next(iter(order.targets or ()), None))
    agreed = confirm_order(session, order, arguments)
    if agreed is None:
        return STOPPED
    return ask_here(session, order, replace(request, quote=agreed.quote), arguments)


def held_by_people(session: Session, order: Order, code: int) -> int:
    """Print what waits for a person's approval; returns the exit code, given the run's own."""
    held = False
    with planning(session) as planner:
        for bench in planner.contexts(order):
            is_required = session.config.review is ReviewMode.REQUIRED
            ids = plan_run(bench, order, with_stale=False).waiting if is_required else ()
            if ids:
                lets = f"`crosswind review {bench.name} --approve ID …` lets it go on"
                tell(f"{bench.name}: {waiting_sentence(bench.name, ids)}, {lets}")
            if rejected := rejected_metrics(bench):
                tell(rejected_sentence(bench.name))
            held = held or bool(ids or rejected)
    return STOPPED if held and code == DONE else code


def tell_next(session: Session, order: Order, last: Stage, *, is_over: bool) -> None:
    if not is_over:
        tell(f"it stops after {last}, as `--until` asked; the next run goes on from there")
        return
    for line in next_steps(session, order, last):
        tell(line)


def evaluate(arguments: EvaluateCommand) -> int:
    session = open_session(arguments.workspace)
    if arguments.evaluator:
        judge = session.config.model_named(arguments.evaluator).label
        if judge not in session.config.jury.judges:
            configured = " and ".join(session.config.jury.judges)
            tell(
                f"note: {judge} is not a judge of this configuration: its verdicts stand beside "
                f"the others, and count only where {configured} has given none"
            )
    keys = _asked_conversations(session, arguments)
    return _redo(session, arguments, Command.EVALUATE, keys)


def simulate(arguments: SimulateCommand) -> int:
    session = open_session(arguments.workspace)
    if arguments.invalid:
        keys = _invalid(session, arguments)
        if not keys:
            tell("no fault of a user model is known here, so nothing is played again")
            return DONE
        return _redo(session, arguments, Command.SIMULATE, keys)
    if not arguments.ids:
        raise InputError(
            Problem(
                "no conversation is named",
                hint="name some by their ids, or `--invalid` for those whose user model did not "
                "do its part",
            )
        )
    keys = _asked_conversations(session, arguments)
    unknown = {key.target_id for of_benchmark in keys.values() for key in of_benchmark} - {
        target.id for target in session.config.targets
    }
    if unknown:
        raise InputError(
            Problem(
                f"targets no longer in the configuration: {', '.join(sorted(unknown))}",
                path=session.config.path,
                key="targets",
                hint="a conversation can only be played again with a target that is there",
            )
        )
    return _redo(session, arguments, Command.SIMULATE, keys)


Keys = Mapping[str, frozenset[ConversationKey]]
Again = EvaluateCommand | SimulateCommand


def _invalid(session: Session, arguments: SimulateCommand) -> Keys:
    """The counting conversations of the configured targets that have a fault of the user model:
    among the named ids, or all."""
    targets = {target.id for target in session.config.targets}
    with session.reader() as reader:
        asked: Keys | None = None
        names = session.benchmarks([arguments.benchmark] if arguments.benchmark else [])
        if arguments.ids:
            asked = conversations(reader, arguments.ids, benchmark=arguments.benchmark)
            names = list(asked)
        takes = {name: reader.counting_takes(name) for name in names}
    invalid = {
        name: frozenset(
            take.key
            for take in of_benchmark
            if take.faults
            and take.key.target_id in targets
            and (asked is None or take.key in asked[name])
        )
        for name, of_benchmark in takes.items()
    }
    return still_asked_for(session, invalid)


def _asked_conversations(session: Session, arguments: Again) -> Keys:
    with session.reader() as reader:
        asked = conversations(reader, arguments.ids, benchmark=arguments.benchmark)
    return still_asked_for(session, asked, named=arguments.ids) or asked


def _redo(session: Session, arguments: Again, command: Command, keys: Keys) -> int:
    """Have it done by the engine at work, or by one that is started for it."""
    rows = tuple(
        WorkRow.of(name, key) for name, of_benchmark in keys.items() for key in sorted(of_benchmark)
    )
    request = Request(
        command,
        rows=rows,
        evaluator=arguments.evaluator if isinstance(arguments, EvaluateCommand) else None,
    )
    order = confirm_order(session, again_order(request), arguments)
    if order is None:
        return STOPPED
    if session.holder() is None:
        return run_here(session, order, arguments)
    return ask_here(session, order, replace(request, quote=order.quote), arguments)


def ask_here(
    session: Session, order: Order, request: Request, arguments: RunCommand | Again
) -> int:
    """Have the engine at work carry out `request`, and wait for it unless `--detach` is given."""
    as_json: bool = arguments.json
    result = ask_and_follow(session, request, wait=not arguments.detach, as_json=as_json)
    if result is None:
        return DONE
    if as_json:
        report(session, order, result, as_json=True)
    return exit_code(result)


def run_here(
    session: Session,
    order: Order,
    arguments: DemoCommand | RunCommand | Again,
    gates: Sequence[Gate] = (),
) -> int:
    """Carry out a checked order in the foreground, or with `--detach` by an engine of its own."""
    # a finished engine that still lingers would hold the workspace for some seconds
    session.make_way()
    if arguments.detach:
        return detach(session, order)
    infos = session.benchmark_infos(order.benchmarks)
    plain = arguments.plain
    result = run_headless(
        session.engine_settings,
        session.store_path,
        order,
        infos,
        plain=plain,
    )
    as_json = not isinstance(arguments, DemoCommand) and arguments.json
    if order.again and not as_json:
        _report_again(session, order.again)
        if result.stopped:
            tell(f"stopped before the end; {NOT_REDONE}")
    elif order.pilot:
        report_pilot(session, order, as_json=as_json)
        if result.stopped:
            tell("stopped before the end; `crosswind run --pilot` goes on from here")
    else:
        report(session, order, result, as_json=as_json)
    return exit_code(result) or held_to(session, order, gates)


def _report_again(session: Session, keys: Keys) -> None:
    """Print a line for each conversation that was judged or played again."""
    words = {True: "passes", False: "fails", None: "is unscored"}
    with session.reader() as reader:
        for name, of_benchmark in keys.items():
            for key in sorted(of_benchmark):
                take = reader.counting_take(name, key)
                given = [] if take is None else reader.verdicts(take.seq)
                verdicts = [one for one in given if one.source != HUMAN]
                if take is None or not verdicts:
                    out(f"{key}: no verdict")
                    continue
                *before, last = verdicts
                outcome = last.unscored or words[last.passed]
                line = f"{key}: {outcome} by {last.judge}, take {take.number + 1}"
                out(f"{line}; it {words[last.counted]} on the whole")
                for verdict in before:
                    out(f"  before: {verdict.unscored or words[verdict.passed]} by {verdict.judge}")


def start(session: Session, order: Order | None) -> int:
    """Start a detached engine and return its process id. Without an order it waits for requests.
    Raises `EngineStartError`."""
    return spawn(EngineJob(session.engine_settings, order, LINGER_SECONDS))


def detach(session: Session, order: Order) -> int:
    """Start a detached engine, and print the commands that reach it."""
    pid = start(session, order)
    root = session.workspace.root
    tell(f"running as process {pid}; it goes on when this terminal is closed")
    for word, what in (("watch", "opens the app on it"), ("status", "says how far it is")):
        tell(f"  {command_line(word, root)}   {what}")
    tell(f"  {command_line('stop', root)}   finishes what is being spoken")
    return DONE


def held_to(session: Session, order: Order, gates: Sequence[Gate]) -> int:
    """Print how the results stand to the gates; returns the exit code. Raises `InputError`."""
    if not gates:
        return DONE
    with session.reader() as reader:
        analyses = analyses_of(session, reader, order.benchmarks)
    lines, code = judge_gates(list(analyses.values()), gates, order.targets)
    for line in lines:
        tell(line)
    return code


def exit_code(result: RunResult) -> int:
    if result.stopped:
        return STOPPED
    return FAILED if result.failed else DONE


def report(session: Session, order: Order, result: RunResult, *, as_json: bool) -> None:
    """Print the results of a run to stdout, and failures and next steps to stderr."""
    with session.reader() as reader:
        analyses = analyses_of(session, reader, order.benchmarks)
        failures = standing_failures(reader, order.benchmarks, session.target_ids, {})
        progress = reader.snapshot()
    if as_json:
        rows = {name: as_rows(analysis) for name, analysis in analyses.items()}
        out_json(
            "run",
            {
                "failed": count_of(failures),
                "failures": failures_json(failures),
                "stopped": result.stopped,
                "results": rows,
            },
        )
        return
    # a run that judged nothing leaves the results as they were
    if order.stages & {Stage.EVALUATE, Stage.AGGREGATE}:
        print_results(list(analyses.values()))
    tell_failures(failures)
    if result.stopped:
        tell(stopped_line(progress))
        if order.force or order.stale:
            tell(NOT_REDONE)


def _explain(session: Session, order: Order, arguments: RunCommand) -> int:
    """Print the plan; nothing is run."""
    with planning(session) as planner:
        refused = planner.refusals(order, anew=session.anew, asks=sys.stdin.isatty())
        left_out = {problem.path for problem in planner.templates(order)}
    if refused.faults:
        raise InputError(refused.all)
    definitions = {name: session.workspace.definition_path(name) for name in order.benchmarks}
    written = tuple(name for name, path in definitions.items() if path not in left_out)
    planned = plans_of(session, replace(order, benchmarks=written), powers=True)
    stops = [*refused.beside, *missing_for(session, called_by(planned.plans))]
    for problem in stops:
        tell(f"{STOPS}{problem}")
    if not written and not arguments.json:
        return REFUSED
    spent = spent_so_far(session)
    found = linted(session, written)
    standing, _ = split_silenced(found)
    failed = FAILED if arguments.strict and standing else DONE
    code = REFUSED if stops else failed
    if arguments.json:
        out_json("plan", {**planned_json(planned, session.config, spent), **lint_json(found)})
        return code
    for priced, power in zip(planned.plans, planned.powers, strict=True):
        out("\n".join(plan_lines(priced, power, every_row=arguments.explain)))
    if arguments.explain:
        failures = _failures(session, order)
        for line in failure_lines(failures):
            out(line)
        if failures:
            out(what_next(failures, "crosswind run"))
    out("\n".join(total_lines(planned.total, session.config, spent, planned.call_usd)))
    with session.reader_or_empty() as reader:
        for line in batch_lines(reader):
            out(line)
    for finding in standing if arguments.strict else ():
        out(str(finding))
    lists = "; `--strict` lists them" if standing and not arguments.strict else ""
    tell(f"{lint_words(found, len(written))}{lists}")
    return code


def _failures(session: Session, order: Order) -> Sequence[FailureGroup]:
    """What has failed and is tried again by a run for everything."""
    with planning(session) as planner:
        over = {name: planner.remaining(name).corrections for name in order.benchmarks}
        return standing_failures(planner.reader, order.benchmarks, session.target_ids, over)
