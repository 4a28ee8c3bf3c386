"""`crosswind export site`: results and transcripts as web pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from engine.cli.commands.results import ExportCommand
from engine.cli.console import out, tell
from engine.cli.pages import names_to_hide
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.display import plural
from engine.errors import InputError, Problem
from engine.pipeline.results import counted_of
from engine.pipeline.validation import report_of, validations
from engine.report.site.build import CountedBenchmark, refuse_others, write_site
from engine.report.writing import refuse_ours
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
