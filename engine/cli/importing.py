"""`crosswind import`: takes files of other workspaces and logs into the store."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any, Final

from engine.cli.access import open_to_write
from engine.cli.commands.upkeep import ImportCommand
from engine.cli.console import out, out_json, tell
from engine.cli.lines import ImportBar, import_bar
from engine.cli.session import Session, open_session
from engine.config.templates import init_workspace
from engine.config.workspace import CONFIG_FILE, Workspace, find_workspace
from engine.display import plural
from engine.errors import FAILED, STOPPED, InputError, Problem
from engine.files import replace_file
from engine.importing.importer import Importer, complete_configuration, make_workspace
from engine.importing.inspect_logs import (
    LogChoice,
    LogFolder,
    Tested,
    folder_of_logs,
    known_settings,
    logs_in,
)
from engine.importing.report import BenchmarkReport, ImportReport
from engine.importing.source import ImportableFolder, look_through
from engine.pipeline.files import store_counts
from engine.report.archive import is_archive, unpack
from engine.store.imports import CONFIG
from engine.store.open_reader import reader_or_empty

ARCHIVE: Final = "an archive of a study"


def import_files(arguments: ImportCommand) -> int:
    try:
        with (
            _find_sources(arguments) as (folder, logs),
            _bar(plain=arguments.plain or arguments.json) as bar,
        ):
            made = _made_workspace(arguments, folder)
            session = open_session(arguments.workspace)
            report = _imported(session, folder, logs, arguments, bar)
            if made is not None:
                add = folder.config is not None
                complete_configuration(made, report.unknown_targets, report.samples, add=add)
                report.placed.append(made.config_path.name)
                report.unknown_targets = []
                session = open_session(arguments.workspace)
                _store_counts(session)
            if logs is not None:
                logs.tell(report)
    except KeyboardInterrupt:
        tell("stopped: the benchmarks that were complete are imported, and nothing of the one at")
        tell("work; import again to have the rest")
        return STOPPED
    if arguments.json:
        out_json("import", report.as_json())
    else:
        for line in report_lines(report, session.config.generation.num_samples):
            out(line)
        for line in complaints(report):
            tell(line)
    return FAILED if report.failed else 0


def _made_workspace(arguments: ImportCommand, folder: ImportableFolder) -> Workspace | None:
    """Make the workspace that is named but not there, and return it. Raises `InputError`, also
    where no workspace is named and none is around."""
    named: Path | None = arguments.workspace
    if named is None:
        try:
            find_workspace(Path.cwd())
        except InputError as error:
            words = " ".join(map(quote, map(str, arguments.place)))
            hint = f"`crosswind import {words} --workspace study` makes one in study/"
            raise InputError([replace(one, hint=hint) for one in error.problems]) from None
        return None
    if arguments.dry_run or (named.exists() and (not named.is_dir() or any(named.iterdir()))):
        return None
    if folder.kind == ARCHIVE and folder.config is not None:
        init_workspace(named)  # the study's own configuration, as a whole
        replace_file(named / CONFIG_FILE, folder.config.read_bytes())
        return None
    return make_workspace(named, folder.config)


def _store_counts(session: Session) -> None:
    """Store what counts by a configuration that changed since."""
    with open_to_write(session) as store:
        asyncio.run(store.set_mirrored({CONFIG: json.dumps(session.config.public())}))
        asyncio.run(store_counts(session.workspace, session.config, store))


@contextmanager
def _find_sources(
    arguments: ImportCommand,
) -> Iterator[tuple[ImportableFolder, LogFolder | None]]:
    """The folder to import, or a temporary one made from logs. Raises `InputError`."""
    places: list[Path] = arguments.place
    logs = [log for place in places for log in logs_in(place)]
    if len(places) == 1 and is_archive(places[0]):
        with TemporaryDirectory(prefix="crosswind-") as into:
            unpack(places[0], Path(into))
            yield replace(look_through(Path(into)), kind=ARCHIVE), None
        return
    if not logs and len(places) == 1:
        yield look_through(places[0]), None
        return
    others = [place for place in places if not logs_in(place)]
    if others:
        what = "expected a log of Inspect (.eval or .json), or the one folder that is imported"
        raise InputError([Problem(what, place) for place in others])
    choice = LogChoice(arguments.present_from, arguments.metric, _known_settings(arguments))
    with TemporaryDirectory(prefix="crosswind-") as into:
        log_folder = folder_of_logs(logs, Path(into), choice)
        yield log_folder.folder, log_folder


def _known_settings(arguments: ImportCommand) -> Tested:
    """The settings of models that the workspace has logs of, if there is a workspace."""
    try:
        session = open_session(arguments.workspace)
    except InputError:  # told when it is opened to import
        return {}
    if not session.store_path.exists():
        return {}
    with session.reader() as reader:
        return known_settings(reader)


def _imported(
    session: Session,
    folder: ImportableFolder,
    logs: LogFolder | None,
    arguments: ImportCommand,
    bar: ImportBar | None,
) -> ImportReport:
    workspace, config, path = session.workspace, session.config, session.store_path
    watched: dict[str, Any] = {} if bar is None else {"on_begin": bar.begin, "on_read": bar.read}
    if arguments.dry_run:
        with closing(reader_or_empty(path)) as reader:
            importer = Importer(workspace, config, reader, None, **watched)
            return asyncio.run(importer.run(folder, arguments.benchmark))
    with open_to_write(session) as store:
        importer = Importer(workspace, config, store.reader, store, **watched)
        report = asyncio.run(importer.run(folder, arguments.benchmark))
        if logs is not None:
            asyncio.run(logs.remember(store))
        asyncio.run(store_counts(workspace, config, store))
        return report


@contextmanager
def _bar(*, plain: bool) -> Iterator[ImportBar | None]:
    if plain or not sys.stderr.isatty():
        yield None
        return
    with import_bar() as bar:
        yield bar


def report_lines(report: ImportReport, num_samples: int | None = None) -> Iterator[str]:
    """What was imported, as text, and whether more samples than the `num_samples` that count."""
    yield f"{report.kind}: {plural(len(report.benchmarks), 'benchmark')}"
    for benchmark in report.benchmarks:
        yield f"{benchmark.name}: {_done_line(benchmark, dry=report.dry)}"
        if benchmark.mapped:
            listed = [f"{theirs} → {ours}" for theirs, ours in sorted(benchmark.mapped.items())[:3]]
            more = f" and {len(benchmark.mapped) - 3} more" if len(benchmark.mapped) > 3 else ""
            yield f"  renamed here: {', '.join(listed)}{more}"
        yield from (f"  {reading}" for reading in benchmark.read_as)
        for note, times in sorted(benchmark.notes.items()):
            yield f"  {times} {note}"
    for path in report.placed:
        yield f"written: {path}"
    if num_samples is not None and report.samples > num_samples:
        yield (
            f"there are up to {report.samples} samples of a scenario, of which {num_samples} will "
            f"count: write `num_samples: {report.samples}` under `generation:` in config.yaml"
        )
    if report.unknown_targets:
        yield "results show the targets of config.yaml only; to see these, add to its `targets:`"
        for target in report.unknown_targets:
            yield target.as_yaml()


def _done_line(report: BenchmarkReport, *, dry: bool) -> str:
    if report.refused:
        return "not taken"
    if report.unchanged is not None:
        return f"unchanged since it was imported: {plural(report.unchanged, 'conversation')}"
    known = sum(file.known for file in report.files)
    there = f"; {plural(known, 'row')} there already" if known else ""
    dropped = f"; {plural(report.dropped, 'row')} dropped" if report.dropped else ""
    if not report.is_new:
        return f"nothing new{there}{dropped}"
    return f"{'would add' if dry else 'added'} {report.added_text}{there}{dropped}"


def complaints(report: ImportReport) -> Iterator[str]:
    """What went wrong, file by file."""
    for problem in report.problems:
        yield f"crosswind: {problem}"
    for benchmark in report.benchmarks:
        for problem in benchmark.refused:
            yield f"crosswind: {problem}"
        left: Counter[str] = Counter()
        for file in benchmark.files:
            for problem in file.problems:
                yield f"crosswind: {problem}"
            if file.dropped > len(file.problems):
                left[str(file.path)] += file.dropped - len(file.problems)
        for path, count in left.items():
            yield f"crosswind: {path}: and {count} more rows like these"
