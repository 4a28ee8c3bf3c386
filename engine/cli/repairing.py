"""`crosswind repair` rebuilds a damaged or missing store, or the files from the store; `crosswind
prune` removes replaced takes and old notes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from engine.cli.access import open_to_write, planning, writing
from engine.cli.commands.upkeep import PruneCommand, RepairCommand
from engine.cli.console import goes_on_for_good, out, out_json, tell
from engine.cli.importing import complaints, report_lines
from engine.cli.session import Session, open_session
from engine.config.benchmark_file import load_definition
from engine.display import plural
from engine.errors import DONE, FAILED, STOPPED, InputError, Problem
from engine.importing.repair import Examination, Repair, examine, repair
from engine.pipeline.files import differences, store_counts
from engine.pipeline.run import mirror_benchmark
from engine.store.maintenance import plan_prune, prune, shrink
from engine.store.mirror import EditPolicy
from engine.store.open_reader import is_older
from engine.store.salvage import RowRange, SalvageReport


def run_repair(arguments: RepairCommand) -> int:
    session = open_session(arguments.workspace)
    if arguments.files:
        return _write_files(session, arguments)
    if arguments.benchmarks or arguments.diff or arguments.keep or arguments.overwrite:
        hint = "the store is mended as a whole: add `--files` to write files from it"
        raise InputError(Problem("benchmarks and edited files belong to `--files`", hint=hint))
    session.make_way()
    examination = examine(session.workspace, session.store_path, session.config)
    if examination.is_sound:
        whole = f"{examination.path} is whole: {_up_to_date(session)}"
        if arguments.json:
            out_json("repair", _as_json(examination, Repair()))
        else:
            out(whole)
        return DONE
    if not examination.exists and examination.files is None:
        hint = "there is nothing to repair; `crosswind run` makes a new one"
        raise InputError(
            Problem(
                "there is no store, and no file to rebuild it from", examination.path, hint=hint
            )
        )
    for line in _plan(examination):
        tell(line)
    # nothing is replaced where there is no store
    asks = examination.exists and not arguments.yes
    if asks and not goes_on_for_good("replaces the store"):
        return STOPPED
    done = asyncio.run(
        repair(session.workspace, session.config, examination, now=datetime.now(UTC))
    )
    with writing(session) as pipeline:
        asyncio.run(store_counts(session.workspace, session.config, pipeline.store))
    if arguments.json:
        out_json("repair", _as_json(examination, done))
    else:
        for line in _report_lines(done, session.config.generation.num_samples):
            out(line)
    if done.filled is not None:
        for line in complaints(done.filled):
            tell(line)
    failed = done.filled is not None and done.filled.failed
    return FAILED if done.missing or failed else DONE


def _up_to_date(session: Session) -> str:
    """Migrate a sound store that an older version wrote; returns what was done."""
    if is_older(session.store_path):
        session.handle.make_store()
        return "it was brought up to date"
    return "every page and every message; nothing was changed"


def _plan(examination: Examination) -> Iterator[str]:
    if examination.unread:
        yield f"{examination.path} holds nothing, and the files do"
    elif examination.faults:
        yield f"{examination.path} is damaged: {'; '.join(examination.faults)}"
        yield "it will be copied aside, and what can be read of it saved into a new one"
    elif examination.exists:
        lacks = "; ".join(examination.lacks)
        yield f"{examination.path} is whole, but the files hold more: {lacks}"
    else:
        yield f"{examination.path} does not exist"
    if examination.files is not None:
        what = "what is missing" if examination.exists else "a new one"
        what = "it" if examination.unread else what
        benchmarks = plural(len(examination.files.sources), "benchmark")
        yield f"{what} will be filled from the files of {benchmarks}"


_MOST: Final = 20


def _loss_words(report: SalvageReport) -> Iterator[str]:
    """Say what could not be saved, a sentence for each kind of loss."""
    if report.left_out:
        yield f"{plural(report.left_out, 'row')} left out, as what they belong to is lost"
    if report.lost:
        yield f"nothing could be read of {_numbers(report.lost)}"
    if report.is_cut_off and report.saved:
        yield "its end cannot be read: how many rows came after cannot be told"
    if report.unlogged:
        yield f"the log does not hold {_numbers(report.unlogged)}"


def _numbers(lost: Sequence[RowRange]) -> str:
    count = sum(last - first + 1 for first, last in lost)
    named = ", ".join(
        str(first) if first == last else f"{first}-{last}" for first, last in lost[:_MOST]
    )
    more = ", …" if len(lost) > _MOST else ""
    return f"{plural(count, 'row')}: {named}{more}"


def _as_json(examination: Examination, done: Repair) -> dict[str, object]:
    saved, filled = done.saved, done.filled
    return {
        "store": str(examination.path),
        "faults": list(examination.faults),
        "damaged_store": None if done.aside is None else str(done.aside),
        "saved": None
        if saved is None
        else {
            "rows": saved.saved,
            "left_out": saved.left_out,
            "unreadable_rows": [list(pair) for pair in saved.lost],
            "cut_off": saved.is_cut_off,
            "missing_from_log": [list(pair) for pair in saved.unlogged],
        },
        "filled": None if filled is None else filled.as_json(),
        "missing": done.missing,
    }


def _report_lines(done: Repair, num_samples: int) -> Iterator[str]:
    if done.aside is not None:
        yield f"the damaged store is kept as {done.aside}"
    if done.saved is not None:
        saved = done.saved.saved
        yield f"saved from it: {plural(saved, 'row') if saved else 'nothing, as none can be read'}"
        for words in _loss_words(done.saved):
            yield f"  {words}"
    if done.filled is not None:
        yield "from the files:"
        for line in report_lines(done.filled, num_samples):
            yield f"  {line}"
    if done.missing:
        yield "still missing; what was played or judged, `crosswind run` does again:"
        for line in done.missing:
            yield f"  {line}"
    else:
        yield "nothing that was done is missing"


# The files, from the store


def _write_files(session: Session, arguments: RepairCommand) -> int:
    """Write the files of the benchmarks from the store."""
    names = session.benchmarks(arguments.benchmarks)
    if arguments.diff:
        return _differences(session, names)
    failed = False
    with writing(session) as pipeline:
        for name in names:
            report = asyncio.run(mirror_benchmark(pipeline, name, _edits(arguments)))
            for path in report.written:
                out(str(path))
            for path in report.accepted:
                tell(f"note: {path} stays as it is; remove it to have it written again")
            for sentence in (*report.kept, *report.failed):
                tell(f"note: {sentence}")
            failed = failed or bool(report.failed)
    return 1 if failed else 0


def _edits(arguments: RepairCommand) -> EditPolicy:
    if arguments.keep:
        return EditPolicy.KEEP
    return EditPolicy.OVERWRITE if arguments.overwrite else EditPolicy.LEAVE


def _differences(session: Session, names: Sequence[str]) -> int:
    """Print the differences. This changes nothing, so an engine may be at work."""
    edited = False
    with planning(session) as planner:
        for name in names:
            definition = load_definition(session.workspace.definition_path(name))
            for line in differences(planner.context(definition)):
                edited = True
                out(line)
    if not edited:
        tell("no file was edited by hand")
    return 0


def run_prune(arguments: PruneCommand) -> int:
    session = open_session(arguments.workspace)
    before = _cutoff(arguments.older_than)
    with session.reader() as reader:
        plan = plan_prune(reader, before)
    if plan.is_empty:
        out("there is nothing to remove")
        return DONE
    if arguments.dry_run:
        out(f"would be removed: {plan}")
        return DONE
    if not arguments.yes and not goes_on_for_good(f"removes {plan}, permanently"):
        return STOPPED
    return _prune(session, before)


def _cutoff(days: int | None) -> datetime | None:
    if days is None:
        return None
    if not 0 <= days <= 36_500:
        raise InputError(Problem(f"--older-than {days}: expected days, from 0 to 36500"))
    return datetime.now(UTC) - timedelta(days=days)


def _prune(session: Session, before: datetime | None) -> int:
    with open_to_write(session) as store:
        plan = plan_prune(store.reader, before)
        prune(store, plan)
        asyncio.run(store_counts(session.workspace, session.config, store))
        out(f"removed: {plan}")
        freed = shrink(store)
        if freed is None:
            tell(
                f"note: {store.path.name} keeps its size, as the disk has no room to rewrite it; "
                "the next runs use what is free in it"
            )
        else:
            out(f"{store.path.name} is smaller by {freed / 1e6:.1f} MB")
    return DONE
