"""Logs of Inspect as a folder of our own files, which is imported like any other.

A task is a benchmark, the model under test a target, an epoch a sample. A scenario is made for one
metric, so a sample with several scores becomes as many scenarios, each with the same transcript.
What a sample came to is kept on disk until all of them are read: only then is it known which scale
the numbers have.
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
from engine.importing.fields import UnfitError, as_object, fitting_name
from engine.importing.inspect_files import OpenLog, is_log, open_log
from engine.importing.inspect_rows import write_folder
from engine.importing.inspect_samples import LogChoice, LoggedBenchmark, kept_of, target_of
from engine.importing.inspect_scores import behaviour_of
from engine.importing.inspect_shapes import InspectSample
from engine.importing.report import FileReport, ImportReport
from engine.importing.source import ImportableFolder, Source

KIND: Final = "logs of Inspect"


@dataclass(frozen=True, slots=True)
class LogFolder:
    """Logs, made into a folder."""

    found: ImportableFolder
    problems: list[Problem]
    made: Mapping[str, LoggedBenchmark]
    """By the name of a benchmark."""

    def tell(self, report: ImportReport, num_samples: int) -> None:
        """Complete a report of the folder's import: it is about logs, not about what was made of
        them. `num_samples` of a scenario count in the workspace."""
        report.problems[:0] = self.problems
        sources = {source.name: source for source in self.found.sources}
        for one in report.benchmarks:
            source = sources[one.name]
            one.notes.update(+self.made[one.name].notes)
            one.read_as += self.made[one.name].read_as
            most = max(self.made[one.name].numbers.values(), default=0)
            if most > num_samples:
                one.read_as.append(
                    f"there are up to {most} samples of a scenario, of which {num_samples} will "
                    f"count: write `num_samples: {most}` under `generation:` in config.yaml"
                )
            one.refused = [_of_log(problem, source) for problem in one.refused]
            for file in one.files:
                file.problems = [_of_log(problem, source) for problem in file.problems]
                file.path = source.place


def _of_log(problem: Problem, source: Source) -> Problem:
    if problem.path is None or source.folder not in problem.path.parents:
        return problem
    return replace(problem, path=source.place, line=None)


def logs_in(place: Path) -> list[Path]:
    """The logs that this is, or is the folder of; none where it is something else."""
    if place.is_dir():
        return sorted(one for one in place.iterdir() if one.suffix.lower() == ".eval")
    return [place] if is_log(place) else []


def folder_of_logs(logs: Sequence[Path], into: Path, choice: LogChoice) -> LogFolder:
    """`into` is an empty folder. Raises `InputError` where nothing of any log can be taken."""
    benchmarks: dict[str, LoggedBenchmark] = {}
    problems: list[Problem] = []
    for path in logs:
        try:
            with open_log(path) as log:
                _read(log, into, benchmarks, problems, choice)
        except InputError as error:
            problems += error.problems
    made = [one for one in benchmarks.values() if one.metrics.taken]
    told = {problem.path for problem in problems}
    empty = [one for one in benchmarks.values() if one not in made and told.isdisjoint(one.logs)]
    problems += map(_nothing, empty)
    if not made:
        raise InputError(problems)
    sources = []
    for one in made:
        write_folder(one, choice)
        origin = one.logs[0] if len(one.logs) == 1 else Path(commonpath(one.logs))
        sources.append(Source(one.name, one.folder, published=False, origin=origin))
    found = ImportableFolder(into, KIND, sources)
    return LogFolder(found, problems, {one.name: one for one in made})


def _nothing(benchmark: LoggedBenchmark) -> Problem:
    found = [f"{times} {kind}" for kind, times in sorted(benchmark.notes.items())]
    told = "; ".join(found) or "it has no samples"
    return Problem(f"there is nothing to take in it: {told}", benchmark.logs[0])


# Reading


def _read(
    log: OpenLog,
    into: Path,
    benchmarks: dict[str, LoggedBenchmark],
    problems: list[Problem],
    choice: LogChoice,
) -> None:
    """All of a log or, where it raises `InputError`, nothing."""
    benchmark = _benchmark(log, into, benchmarks)
    before = dict(benchmark.numbers)
    # very many samples may be wrong in the same way
    report = FileReport(log.path)
    with benchmark.kept.open("ab") as kept:
        start = kept.tell()
        try:
            for sample in log.samples:
                line = _line(sample, log, benchmark, before, choice)
                if isinstance(line, Problem):
                    report.dropped += 1
                    report.tell(line)
                else:
                    kept.write(line)
        except InputError:
            kept.truncate(start)
            benchmark.logs.pop()
            if not benchmark.logs:
                del benchmarks[benchmark.name]
            raise
    problems += report.problems
    if more := report.dropped - len(report.problems):
        problems.append(Problem(f"and {more} more samples like these", log.path))


def _line(
    sample: InspectSample | Problem,
    log: OpenLog,
    benchmark: LoggedBenchmark,
    before: Mapping[tuple[str, str], int],
    choice: LogChoice,
) -> bytes | Problem:
    """What is kept of it, which may be nothing."""
    if isinstance(sample, Problem):
        return sample
    try:
        row = kept_of(sample, log.about, target_of(log.about), benchmark, before, choice)
        return b"" if row is None else msgspec.json.encode(as_object(row)) + b"\n"
    except UnfitError as error:
        name = f"sample {str(sample.id)[:100]}"
        return Problem(error.what, log.path, key=name, hint=error.hint)


def _benchmark(log: OpenLog, into: Path, benchmarks: dict[str, LoggedBenchmark]) -> LoggedBenchmark:
    about = log.about
    behaviour, described = behaviour_of(about)
    task = behaviour or about.task.rsplit("/", 1)[-1]
    name = task if Branch.parse(task) else fitting_name(task)
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
