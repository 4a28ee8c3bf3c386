"""`crosswind export site` and `archive`: results and transcripts as web pages, and a whole study in
one file, which `crosswind import` opens again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from engine.cli.access import writing
from engine.cli.commands.results import ExportCommand
from engine.cli.console import out, tell
from engine.cli.pages import names_to_hide
from engine.cli.session import Session, open_session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.config.schema import secret_values
from engine.config.secrets import Environment
from engine.display import plural
from engine.errors import InputError, Problem
from engine.files import is_stream, read_regular
from engine.pipeline.results import counted_of
from engine.pipeline.run import mirror_benchmark
from engine.pipeline.validation import report_of, validations
from engine.report.archive import archive_pieces, archived_files
from engine.report.site.build import refuse_others, write_site
from engine.report.site.transcripts import CountedBenchmark
from engine.report.writing import hiding, refuse_ours, refuse_taken, write_file
from engine.store.mirror import EditPolicy
from engine.store.reader import Reader


def site(arguments: ExportCommand) -> int:
    session = open_to_read(arguments.workspace)
    names = session.benchmarks(arguments.names)
    if arguments.out is None:
        what = "a site is a folder of many files"
        raise InputError(Problem(what, hint="name it with --out: a new one, or an earlier site"))
    refuse_ours(arguments.out, root=session.workspace.root, store=session.store_path)
    refuse_others(arguments.out)
    with session.reader() as reader:
        built = write_site(
            arguments.out,
            _counted_benchmarks(session, reader, names),
            reader,
            datetime.now(UTC),
            names_to_hide(session, reader, names),
        )
    tell(f"{plural(built.conversations, 'conversation')} in {plural(built.files, 'file')}")
    out(str(arguments.out / "index.html"))
    return 0


def _counted_benchmarks(
    session: Session, reader: Reader, names: Sequence[str]
) -> Iterator[CountedBenchmark]:
    for name in names:
        definition = load_definition(session.workspace.definition_path(name))
        counted = counted_of(definition, session.config, reader)
        begun = validations(session.workspace, session.config, name)
        reports = [report_of(validation, reader) for validation in begun]
        yield CountedBenchmark(
            definition, counted.analysis, counted.outcomes, counted.counts, reports
        )


def export_archive(arguments: ExportCommand) -> int:
    """Write the files from the store, and then the archive. Raises `InputError`."""
    session = open_session(arguments.workspace)
    workspace, place = session.workspace, arguments.out or Path("study.zip")
    names = session.benchmarks(arguments.names)
    refuse_ours(place, root=workspace.root, store=session.store_path)
    refuse_taken(place, force=arguments.force, folder=False)
    if session.store_path.exists():
        with writing(session) as pipeline:
            for name in names:
                report = asyncio.run(mirror_benchmark(pipeline, name, EditPolicy.LEAVE))
                if faults := [*report.kept, *report.failed]:
                    hint = "`crosswind repair --files` with --keep or --overwrite decides"
                    raise InputError([Problem(fault, hint=hint) for fault in faults])
    hide = hiding(secret_values(session.config.every_model, Environment(workspace.root)))
    config = read_regular(workspace.config_path).decode("utf-8")
    if hide(config) != config:
        what = "this file holds a key in plain text, and an archive holds none"
        hint = 'put it into .env and write its variable here, as in "${OPENAI_API_KEY}"'
        raise InputError(Problem(what, workspace.config_path, hint=hint))
    folders = (workspace.definition_path(name).parent for name in names)
    files = archived_files(workspace.root, folders)
    write_file(place, archive_pieces(files, workspace.root, hide))
    studied = plural(len(names), "benchmark")
    tell(f"{plural(len(files), 'file')} of {studied}, each with its checksum")
    if not is_stream(place):
        out(str(place))
    return 0
