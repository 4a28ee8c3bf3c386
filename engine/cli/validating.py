"""`crosswind validate`: does a ranking hold with another model in one role?"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence

from engine.analysis.validation_figures import ValidationReport
from engine.analysis.validation_words import swap_words, validation_sections
from engine.benchmark import Role
from engine.branches import STANCE, Branch
from engine.cli.access import STOPS, missing_for, pass_gate, planning
from engine.cli.commands.at_work import ValidateCommand
from engine.cli.console import out, out_json, tell
from engine.cli.headless import run_headless
from engine.cli.lines import failure_lines, what_next
from engine.cli.pricing import (
    answered,
    called_by,
    looked_first,
    plan_json,
    spent_so_far,
    stage_lines,
    total_lines,
)
from engine.cli.section_lines import NARROW_LAYOUT, section_lines
from engine.cli.session import Session, open_session
from engine.errors import DONE, FAILED, REFUSED, STOPPED, InputError, Problem
from engine.pipeline.order import Order, PricedOrder
from engine.pipeline.plan import RunPlan, with_quote
from engine.pipeline.remedies import grouped, standing_failures
from engine.pipeline.validation import (
    Validation,
    check_validation,
    place_branch,
    plan_validation,
    report_json,
    report_of,
    state_bound,
    validations,
    write_report,
)
from engine.store.lock import hold_workspace
from engine.store.reader import Reader


def validate(arguments: ValidateCommand) -> int:
    session = open_session(arguments.workspace)
    name = session.one_benchmark(arguments.benchmark)
    if arguments.report:
        return _show_again(session, name, arguments)
    asked = _validation_asked_for(session, name, arguments)
    # without it, there seems to be nothing to compare with
    session.refuse_unread()
    with planning(session) as planner:
        check_validation(asked, planner.reader)
        plan = plan_validation(asked, planner, stale=arguments.stale)
        untrusted = () if sys.stdin.isatty() else planner.untrusted(asked.order())
    if arguments.dry_run:
        return _explain(session, asked, plan, untrusted, as_json=arguments.json)
    # before anything is written into a folder that another engine may be working in
    session.require_free()
    session.require_store()
    pass_gate(session, arguments)
    notes = looked_first(session, [plan])
    order = asked.order(stale=arguments.stale)
    offer = PricedOrder(order, notes=notes)
    if not plan.total.is_free:
        agreed = with_quote(order, plan.total, asked.config, unasked=arguments.yes)
        offer = PricedOrder(agreed, list(_plan_lines(session, asked, plan)), notes=notes)
    order_agreed_to = answered(offer, arguments)
    if order_agreed_to is None:
        return STOPPED
    return _run_validation(session, asked, order_agreed_to, arguments)


def _validation_asked_for(session: Session, name: str, arguments: ValidateCommand) -> Validation:
    """The validation run that the options describe. Raises `InputError` with every option that is
    missing or names nothing."""
    problems = list(_options(arguments))
    for look in (
        lambda: session.workspace.require_benchmarks([name]),
        lambda: session.config.model_named(arguments.model or next(iter(_targets(session)))),
    ):
        try:
            look()
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return _validation(session, name, arguments)


def _options(arguments: ValidateCommand) -> Iterator[Problem]:
    hint = "see `crosswind validate --help`"
    if arguments.replay is not None:
        if arguments.model is not None:
            yield Problem("--with names another model, and --replay takes the same one", hint=hint)
        return
    if arguments.swap == STANCE:
        if arguments.model is not None:
            yield Problem("--with names another model, and --swap stance takes the same", hint=hint)
        return
    if arguments.swap is None:
        yield Problem("--swap is missing, or --replay", hint=hint)
    elif arguments.model is None:
        yield Problem("--with is missing", hint=hint)


def _targets(session: Session) -> Sequence[str]:
    return [target.id for target in session.config.targets]


def _validation(session: Session, name: str, arguments: ValidateCommand) -> Validation:
    workspace, config = session.workspace, session.config
    if arguments.swap == STANCE:
        stance = config.user_model.stance.other
        branch = Branch(name, Role.USER, None, stance)
    else:
        role = Role(arguments.swap or arguments.replay or "")
        branch = Branch(name, role, arguments.model)
    return Validation(workspace, config, branch)


def _run_validation(
    session: Session, asked: Validation, order: Order, arguments: ValidateCommand
) -> int:
    # nothing is written before the price is agreed to
    with hold_workspace(session.workspace.root):
        place_branch(asked)
    with session.reader() as reader:
        state_bound(asked, reader)
    infos = session.benchmark_infos(order.benchmarks)
    plain = arguments.plain
    result = run_headless(session.engine_settings, session.store_path, order, infos, plain=plain)
    if result.stopped:
        tell("stopped before the end; the same command goes on from here")
        return STOPPED
    with session.reader() as reader:
        report = report_of(asked, reader)
    path = write_report(asked, report)
    _print_reports([report], as_json=arguments.json)
    tell(f"written to {path.relative_to(session.workspace.root)}")
    if result.failed:
        _tell_failures(session, asked, arguments)
    return FAILED if result.failed else DONE


def _tell_failures(session: Session, asked: Validation, arguments: ValidateCommand) -> None:
    with session.reader() as reader:
        groups = standing_failures(reader, [asked.benchmark], session.target_ids, {})
    name = asked.played_benchmark
    failed = grouped(unit for group in groups for unit in group.units if unit.benchmark == name)
    for line in failure_lines(failed):
        tell(line)
    if failed:
        tell(what_next(failed, _command(asked.benchmark, arguments)))


def _command(name: str, arguments: ValidateCommand) -> str:
    asked = ("--replay", arguments.replay) if arguments.replay else ("--swap", arguments.swap or "")
    model = ["--with", arguments.model] if arguments.model else []
    return shlex.join(["crosswind", "validate", name, *asked, *model])


def _show_again(session: Session, name: str, arguments: ValidateCommand) -> int:
    """Print the reports of a benchmark's validation runs, from what the store holds now."""
    session.workspace.require_benchmarks([name])
    begun = [
        validation
        for validation in validations(session.workspace, session.config, name)
        if _is_asked(validation, arguments)
    ]
    if not begun:
        what = f"there is no such validation run of `{name}` yet"
        hint = (
            "begin one with `crosswind validate BENCHMARK --swap ROLE --with NAME`, or with "
            "--replay ROLE"
        )
        raise InputError(Problem(what, hint=hint))
    with session.reader_or_empty() as reader:
        reports, problems = _reports(begun, reader)
    if not reports:
        raise InputError(problems)
    _print_reports(reports, as_json=arguments.json)
    for problem in problems:
        tell(f"left out: {problem}")
    return DONE


def _is_asked(validation: Validation, arguments: ValidateCommand) -> bool:
    role = arguments.swap or arguments.replay
    if role == STANCE or validation.branch.stance is not None:
        return validation.branch.stance is not None and role in {None, STANCE}
    is_of_kind = role is None or validation.branch.is_replay is (arguments.replay is not None)
    is_by_it = arguments.model in {None, validation.branch.name}
    return is_of_kind and is_by_it and role in {None, validation.branch.role.value}


def _reports(
    begun: Sequence[Validation], reader: Reader
) -> tuple[Sequence[ValidationReport], Sequence[Problem]]:
    """The reports, and the problems of those runs whose model or files are gone."""
    reports: list[ValidationReport] = []
    problems: list[Problem] = []
    for validation in begun:
        try:
            reports.append(report_of(validation, reader))
        except InputError as error:
            problems += error.problems
    return reports, problems


# Before money is spent


def _explain(
    session: Session,
    asked: Validation,
    plan: RunPlan,
    untrusted: Sequence[Problem],
    *,
    as_json: bool,
) -> int:
    missing = [*untrusted, *missing_for(session, called_by([plan]))]
    for problem in missing:
        tell(f"{STOPS}{problem}")
    if as_json:
        out_json("validation plan", plan_json(plan))
    else:
        out("\n".join(_plan_lines(session, asked, plan)))
    return REFUSED if missing else DONE


def _plan_lines(session: Session, asked: Validation, plan: RunPlan) -> Iterator[str]:
    once_more = " once more" if asked.branch.is_replay else ""
    yield f"{asked.played_benchmark}: {asked.labels[1]} as {asked.branch.role.value}{once_more}"
    yield from (f"  {sentence}" for sentence in plan.assumed)
    yield from stage_lines(plan)
    if not plan.calls:
        yield "  nothing is missing"
    if plan.stale:
        yield f"  {len(plan.stale)} rows are stale; `--stale` does them again"
    yield from total_lines(plan.total, asked.config, spent_so_far(session))


# What came of it


def _print_reports(reports: Sequence[ValidationReport], *, as_json: bool) -> None:
    if as_json:
        out_json("validation", list(map(report_json, reports)))
        return
    for number, report in enumerate(reports):
        if number:
            out()
        out("\n".join(report_lines(report)))


def report_lines(report: ValidationReport) -> Iterator[str]:
    """The report as text, within 80 columns."""
    yield f"{report.swap.benchmark}: {swap_words(report)}"
    yield from section_lines(validation_sections(report), NARROW_LAYOUT)
