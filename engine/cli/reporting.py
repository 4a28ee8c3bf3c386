"""`crosswind results`: a table, JSON or a methods text; and rates as CSV."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shutil import get_terminal_size
from textwrap import fill
from typing import Final

from engine.analysis.figures import Analysis, Estimate
from engine.analysis.methods import methods
from engine.analysis.overall import overall
from engine.analysis.provenance import served_words
from engine.cli.commands.results import ExportCommand, ResultsCommand
from engine.cli.console import out, out_json, tell
from engine.cli.gates import judge_gates, parse_gates
from engine.cli.results_table import (
    brief_results,
    detailed_results,
    page_of_output,
)
from engine.cli.session import Session, open_to_read
from engine.config.benchmark_file import load_definition
from engine.config.schema import config_of
from engine.display import one_line
from engine.errors import DONE, InputError, Problem
from engine.pipeline.results import CountedResults, counted_of
from engine.report.writing import refuse_ours, refuse_taken, write_file
from engine.stages.aggregate import as_object, as_rows
from engine.store.reader import Reader


def results(arguments: ResultsCommand) -> int:
    session = open_to_read(arguments.workspace)
    names = session.benchmarks(arguments.benchmarks)
    gates = parse_gates(arguments.fail_under)
    targets = _targets(session, arguments.target)
    with session.reader() as reader:
        counted = counted_results(session, reader, names, fresh=arguments.fresh)
        analyses = {name: counted.analysis for name, counted in counted}
    every = list(analyses.values())
    together = overall(every)
    shown: list[Analysis] = [together] if arguments.overall else every
    lines, code = judge_gates(shown, gates, targets) if gates else ([], DONE)
    if arguments.json:
        if arguments.overall:
            out_json("overall", as_object(together))
        else:
            rows = {name: as_rows(analysis) for name, analysis in analyses.items()}
            out_json("results", rows)
    elif arguments.methods:
        _print_methods([*every, together] if arguments.overall else every)
    else:
        print_results(shown, details=arguments.details)
    for line in lines:
        tell(line)
    return code


def export_rates(arguments: ExportCommand) -> int:
    """Write the rates as CSV. Raises `InputError`."""
    session = open_to_read(arguments.workspace)
    names, place = session.benchmarks(arguments.names), arguments.out
    if place is not None:
        refuse_ours(place, root=session.workspace.root, store=session.store_path)
        refuse_taken(place, force=arguments.force, folder=False)
    with session.reader() as reader:
        counted = counted_results(session, reader, names, fresh=arguments.fresh)
        analyses = {name: counted.analysis for name, counted in counted}
    rows = _rates(analyses)
    if place is None:
        for line in rows:
            sys.stdout.write(line)
    else:
        write_file(place, rows)
    return 0


def analyses_of(session: Session, reader: Reader, names: Iterable[str]) -> dict[str, Analysis]:
    """The analysis of each benchmark, from the verdicts that are stored now."""
    return {name: counted.analysis for name, counted in counted_results(session, reader, names)}


def counted_results(
    session: Session,
    reader: Reader,
    names: Iterable[str],
    *,
    fresh: bool = False,
) -> Iterator[tuple[str, CountedResults]]:
    """Each benchmark with its results. `fresh` leaves out what is stale."""
    for name in names:
        definition = load_definition(session.workspace.definition_path(name))
        yield (
            name,
            counted_of(
                definition,
                config_of(session.config, definition.name),
                reader,
                fresh=fresh,
            ),
        )


def _targets(session: Session, words: Sequence[str]) -> frozenset[str] | None:
    """The targets that the gates apply to; None for all. Raises `InputError`."""
    known = [target.id for target in session.config.targets]
    problems = [
        Problem(
            f"there is no target {word!r}",
            path=session.config.path,
            key="targets",
            hint=f"there is: {', '.join(known)}",
        )
        for word in words
        if word not in known
    ]
    if problems:
        raise InputError(problems)
    return frozenset(words) or None


def print_results(analyses: Sequence[Analysis], *, details: bool = False) -> None:
    """Print about ten lines for each, or all details."""
    page = page_of_output()
    if not details and analyses:
        out(brief_results(analyses, page))
        return
    for analysis in analyses:
        out(detailed_results(analysis, page))
        out()


def _print_methods(analyses: Iterable[Analysis]) -> None:
    """Print wrapped paragraphs on a terminal, and one line for each in a pipe."""
    width = max(80, get_terminal_size().columns) if sys.stdout.isatty() else None
    for analysis in analyses:
        for paragraph in methods(analysis):
            out(paragraph if width is None else fill(paragraph, width))
            out()


# For a spreadsheet


def _rates(analyses: Mapping[str, Analysis]) -> Iterator[str]:
    """One line for each benchmark, target and metric."""
    figures = ["pass_rate", "low", "high", "n_passed", "n_total", "served_by_others", "n_stale"]
    more = ["metric_name", "metric_type", "unscored", "n_effective", "base_scenarios"]
    yield _csv_line(["benchmark", "target", "metric", *figures, *more, *_MADE_WITH])
    for name, analysis in analyses.items():
        metrics = {metric.id: metric for metric in analysis.metrics}
        for target in analysis.targets:
            others = "; ".join(
                str(other) for other in analysis.others if other.target == target.target
            )
            made_with = _made_with(analysis, target.target)
            for metric, cell in target.metrics.items():
                if cell.scored:
                    about = metrics[metric]
                    names = [
                        _without_formula(name),
                        _without_formula(target.target),
                        _without_formula(metric),
                    ]
                    stale = target.staleness[metric].stale
                    row = [*names, *_cells(cell), _without_formula(others), stale]
                    row += [_without_formula(about.name), about.track.value, cell.of - cell.scored]
                    row += [round(cell.effective_n, 3), cell.base_scenarios, *made_with]
                    yield _csv_line(row)


_MADE_WITH: Final = (
    *("crosswind", "configuration", "prompts", "target_model", "user_model", "judges"),
    *("first_at", "last_at", "left_out", "checkers", "stances", "settings"),
)


def _csv_line(cells: Iterable[object]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def _made_with(analysis: Analysis, target: str) -> list[str | int | None]:
    provenance = analysis.provenances.get(target)
    if provenance is None:
        return [None for _ in _MADE_WITH]
    prompts = " ".join(
        f"{stage}:{digest}" for stage, of in provenance.prompts.items() for digest in of
    )
    models = (provenance.targets, provenance.user_models, provenance.judges)
    return [
        *(provenance.version, provenance.configuration, prompts),
        *(_without_formula(served_words(served)) for served in models),
        *(provenance.first_at, provenance.last_at, analysis.left_out.conversations),
        _without_formula(served_words(provenance.checkers)),
        " ".join(provenance.stances),
        _without_formula(provenance.settings_words),
    ]


def _cells(cell: Estimate) -> list[float | int | None]:
    ends = [None if end is None else round(end, 6) for end in (cell.low, cell.high)]
    return [cell.rate, *ends, cell.passed, cell.scored]


def _without_formula(cell: str) -> str:
    """The cell as text that neither a spreadsheet takes for a formula nor a terminal for a control
    sequence."""
    cell = one_line(cell)
    return f"'{cell}" if cell[:1] in {"=", "+", "-", "@", "\t", "\r"} else cell
