"""Converts logs of Inspect to a folder of our own files, which is imported like any other.

A task is a benchmark, the model under test a target, an epoch a sample. A scenario is made for one
metric, so a sample with several scores becomes as many scenarios, each with the same transcript.
What is kept of the samples waits on disk until all are read: only then is the scale of the numbers
known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os.path import commonpath
from pathlib import Path
from typing import Final

import msgspec

from engine.branches import Branch, folder_of
from engine.errors import InputError, Problem
from engine.importing.fields import Names, UnfitError, as_object
from engine.importing.inspect_files import OpenLog, is_log, open_log
from engine.importing.inspect_rows import write_folder
from engine.importing.inspect_samples import LogChoice, LoggedBenchmark, kept_of
from engine.importing.inspect_scores import behaviour_of
from engine.importing.inspect_shapes import InspectSample
from engine.importing.report import FileReport, ImportReport
from engine.importing.source import ImportableFolder, Source

KIND: Final = "logs of Inspect"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder that was made from logs."""

    folder: ImportableFolder
    problems: list[Problem]
    made: Mapping[str, LoggedBenchmark]
    """By benchmark."""

    def tell(self, report: ImportReport) -> None:
        """Complete the report of the folder's import, so that it is about the logs."""
        report.problems[:0] = self.problems
        sources = {source.name: source for source in self.folder.sources}
        for benchmark in report.benchmarks:
            source = sources[benchmark.name]
            benchmark.notes.update(+self.made[benchmark.name].notes)
            benchmark.read_as += self.made[benchmark.name].read_as
            benchmark.refused = [_of_log(problem, source) for problem in benchmark.refused]
            for file in benchmark.files:
                file.problems = [_of_log(problem, source) for problem in file.problems]
                file.path = source.place


def _of_log(problem: Problem, source: Source) -> Problem:
    if problem.path is None or source.folder not in problem.path.parents:
        return problem
    return replace(problem, path=source.place, line=None)


def logs_in(place: Path) -> list[Path]:
    """Return the logs in this folder, or this log; empty if it is something else."""
    if place.is_dir():
        return sorted(path for path in place.iterdir() if path.suffix.lower() == ".eval")
    return [place] if is_log(place) else []


def folder_of_logs(logs: Sequence[Path], into: Path, choice: LogChoice) -> LogFolder:
    """Convert logs into the empty folder `into`. Raises `InputError` if nothing can be taken."""
    benchmarks: dict[str, LoggedBenchmark] = {}
    names = Names(otherwise="task")
    problems: list[Problem] = []
    for path in logs:
        try:
            with open_log(path) as log:
                _read(log, _benchmark(log, into, benchmarks, names), problems, choice)
        except InputError as error:
            problems += error.problems
    usable = [benchmark for benchmark in benchmarks.values() if benchmark.metrics.taken]
    with_problem = {problem.path for problem in problems}
    empty = [
        benchmark
        for benchmark in benchmarks.values()
        if benchmark not in usable and with_problem.isdisjoint(benchmark.logs)
    ]
    problems += map(_nothing_problem, empty)
    if not usable:
        raise InputError(problems)
    sources = []
    for benchmark in usable:
        write_folder(benchmark, choice)
        origin = benchmark.logs[0] if len(benchmark.logs) == 1 else Path(commonpath(benchmark.logs))
        sources.append(Source(benchmark.name, benchmark.folder, published=False, origin=origin))
    folder = ImportableFolder(into, KIND, sources)
    return LogFolder(folder, problems, {benchmark.name: benchmark for benchmark in usable})


def _nothing_problem(benchmark: LoggedBenchmark) -> Problem:
    counts = [f"{times} {kind}" for kind, times in sorted(benchmark.notes.items())]
    counted = "; ".join(counts) or "it has no samples"
    return Problem(f"there is nothing to take in it: {counted}", benchmark.logs[0])


# Reading


def _read(
    log: OpenLog, benchmark: LoggedBenchmark, problems: list[Problem], choice: LogChoice
) -> None:
    """Add a log's samples to their benchmark."""
    target = benchmark.target(log.about)
    before = dict(benchmark.numbers)
    # thousands of samples may have the same fault
    report = FileReport(log.path)
    with benchmark.kept.open("ab") as file:
        for sample in log.samples:
            line = _line(sample, log, target, benchmark, before, choice)
            if isinstance(line, Problem):
                report.dropped += 1
                report.tell(line)
            else:
                file.write(line)
    problems += report.problems
    if more := report.dropped - len(report.problems):
        problems.append(Problem(f"and {more} more samples like these", log.path))


def _line(
    sample: InspectSample | Problem,
    log: OpenLog,
    target: Mapping[str, str],
    benchmark: LoggedBenchmark,
    before: Mapping[tuple[str, str], int],
    choice: LogChoice,
) -> bytes | Problem:
    """Return the line that is kept of a sample, possibly empty, or its problem."""
    if isinstance(sample, Problem):
        return sample
    try:
        row = kept_of(sample, log.about, target, benchmark, before, choice)
        return b"" if row is None else msgspec.json.encode(as_object(row)) + b"\n"
    except UnfitError as error:
        name = f"sample {str(sample.id)[:100]}"
        return Problem(error.what, log.path, key=name, hint=error.hint)


def _benchmark(
    log: OpenLog, into: Path, benchmarks: dict[str, LoggedBenchmark], names: Names
) -> LoggedBenchmark:
    """Return the benchmark of a log's task, adding a new one. Raises `InputError`."""
    about = log.about
    behaviour, described = behaviour_of(about)
    task = behaviour or about.task.rsplit("/", 1)[-1]
    name = task if Branch.parse(task) else names.ours(task)
    if name is None:
        raise InputError(Problem(f"{task[:100]!r} cannot be the name of a benchmark", log.path))
    if name not in benchmarks:
        folder = into / folder_of(name)
        folder.mkdir(parents=True, exist_ok=True)
        title = behaviour or about.task_display_name or about.task
        description = (
            described
            or about.task_description
            or f"From logs of Inspect, of the task {about.task}."
        )
        benchmarks[name] = LoggedBenchmark(name, title, description, folder)
    benchmarks[name].logs.append(log.path)
    return benchmarks[name]
