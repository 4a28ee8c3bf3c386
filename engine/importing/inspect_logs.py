"""Converts logs of Inspect to a folder of our own files, which is imported like any other.

A task is a benchmark, the model under test a target, an epoch a sample.
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
from engine.importing.fields import Names
from engine.importing.inspect_benchmark import LogChoice, LoggedBenchmark, Tested
from engine.importing.inspect_files import OpenLog, is_log, open_log
from engine.importing.inspect_shapes import InspectResults
from engine.importing.inspect_speech import AUDITOR
from engine.importing.inspect_targets import LoggedTargets
from engine.importing.report import ImportReport
from engine.importing.source import ImportableFolder, Source
from engine.store.database import Store
from engine.store.imports import TESTED
from engine.store.reader import Reader

KIND: Final = "logs of Inspect"


def known_settings(reader: Reader) -> Tested:
    """Return the settings that earlier imports found."""
    noted = reader.mirrored(TESTED)
    if noted is None:
        return {}
    try:
        return msgspec.json.decode(noted.digest, type=dict[str, dict[str, list[dict[str, str]]]])
    except msgspec.DecodeError:  # a damaged store's
        return {}


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The folder that was made from logs."""

    folder: ImportableFolder
    problems: list[Problem]
    made: Mapping[str, LoggedBenchmark]
    """By benchmark."""

    async def remember(self, store: Store) -> None:
        """Store the settings that were found, so that a log of others, imported later, is a target
        of its own."""
        found = {name: benchmark.targets.tested for name, benchmark in self.made.items()}
        known = {**known_settings(store.reader), **found}
        await store.set_mirrored({TESTED: msgspec.json.encode(known).decode()})

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
                benchmark = _benchmark(log, into, benchmarks, names, choice)
                problems += benchmark.read(log)
        except InputError as error:
            problems += error.problems
    with_problem = {problem.path for problem in problems}
    sources: list[Source] = []
    for benchmark in benchmarks.values():
        if benchmark.metrics.by_key and not benchmark.refused:
            benchmark.write()
            logged = benchmark.logs
            origin = logged[0] if len(logged) == 1 else Path(commonpath(logged))
            sources.append(Source(benchmark.name, benchmark.folder, published=False, origin=origin))
        elif with_problem.isdisjoint(benchmark.logs):
            problems.append(benchmark.nothing_problem())
    if not sources:
        raise InputError(problems)
    folder = ImportableFolder(into, KIND, sources)
    return LogFolder(folder, problems, {one.name: benchmarks[one.name] for one in sources})


def _benchmark(
    log: OpenLog,
    into: Path,
    benchmarks: dict[str, LoggedBenchmark],
    names: Names,
    choice: LogChoice,
) -> LoggedBenchmark:
    """Return the benchmark of a log's task, adding a new one. Raises `InputError`."""
    about = log.about
    behaviour, described = _behaviour(about)
    task = behaviour or about.task.rsplit("/", 1)[-1]
    name = task if Branch.parse(task) else names.ours(task)
    if name is None:
        raise InputError(Problem(f"{task[:100]!r} cannot be the name of a benchmark", log.path))
    if name not in benchmarks:
        folder = into / folder_of(name)
        folder.joinpath("runs", "logs").mkdir(parents=True)
        title = behaviour or about.task_display_name or about.task
        otherwise = f"From logs of Inspect, of the task {about.task}."
        description = described or about.task_description or otherwise
        tested = {role: list(known) for role, known in choice.tested.get(name, {}).items()}
        benchmarks[name] = LoggedBenchmark(
            name, title, description, folder, choice, LoggedTargets(tested)
        )
    benchmarks[name].logs.append(log.path)
    return benchmarks[name]


def _behaviour(about: InspectResults) -> tuple[str | None, str | None]:
    """Return name and description of the behaviour that a log of Bloom measures: all its logs have
    the same task name."""
    behaviour = (about.metadata or {}).get("behavior")
    if AUDITOR not in (about.model_roles or {}) or not isinstance(behaviour, dict):
        return None, None
    name, described = (behaviour.get(key) for key in ("name", "description"))
    if not isinstance(name, str) or not name:
        return None, None
    return name, described if isinstance(described, str) else None
