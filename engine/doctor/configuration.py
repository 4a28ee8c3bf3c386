"""Whether the files that people write can be read: configuration, benchmarks, scenarios."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.config.definition import load_definition
from engine.config.settings import Config, load_config
from engine.config.workspace import Workspace, find_workspace
from engine.doctor.findings import Area, Finding, State, of_error
from engine.errors import InputError
from engine.store.files import read_scenarios

SCENARIOS_FILE = "scenarios.json"


@dataclass(frozen=True, slots=True)
class Written:
    """What was read, as far as it could be."""

    findings: tuple[Finding, ...]
    workspace: Workspace | None = None
    config: Config | None = None


def read_workspace(start: Path, *, named: bool) -> Written:
    """`named` says that somebody asked for this folder, so that it must be a workspace."""
    try:
        workspace = find_workspace(start)
    except InputError as error:
        if named:
            return Written(tuple(of_error(Area.CONFIGURATION, "workspace", error)))
        [problem] = error.problems
        return Written((_finding("workspace", State.NOTE, problem.what, problem.hint),))
    findings = [_finding("workspace", State.OK, str(workspace.root))]
    config = None
    try:
        config = load_config(workspace.config_path)
    except InputError as error:
        findings += of_error(Area.CONFIGURATION, workspace.config_path.name, error)
    else:
        count = len(config.targets)
        targets = "1 target" if count == 1 else f"{count} targets"
        findings.append(_finding(config.path.name, State.OK, f"can be read; {targets}"))
        findings += _warnings(config.path.name, config.warnings)
    findings += _benchmarks(workspace, config)
    return Written(tuple(findings), workspace, config)


def _benchmarks(workspace: Workspace, config: Config | None) -> Iterator[Finding]:
    try:
        names = workspace.benchmark_names()
        unusable = workspace.benchmark_problems()
    except InputError as error:
        yield from of_error(Area.CONFIGURATION, "benchmarks", error)
        return
    if unusable:
        yield from of_error(Area.CONFIGURATION, "benchmarks", InputError(unusable))
    elif not names:
        yield _finding(
            "benchmarks",
            State.NOTE,
            "there is no benchmark yet",
            "make one with `crosswind new NAME`",
        )
    for name in names:
        yield from _benchmark(workspace.definition_path(name), name, config)


def _benchmark(path: Path, name: str, config: Config | None) -> Iterator[Finding]:
    try:
        definition = load_definition(path)
    except InputError as error:
        yield from of_error(Area.CONFIGURATION, name, error)
        return
    warnings = list(definition.warnings)
    ids = {metric.id for metric in definition.metrics}
    said = [_count(len(ids), "metric") if ids else "no metrics yet"]
    scenarios = path.parent / SCENARIOS_FILE
    # how long a conversation is stands in the configuration, and landmarks are held against it
    if scenarios.exists() and config is not None:
        try:
            rows, noticed = read_scenarios(scenarios, turns=config.generation.turns, metrics=ids)
        except InputError as error:
            yield from of_error(Area.CONFIGURATION, name, error)
            return
        said.append(_count(len(rows), "scenario"))
        warnings += noticed
    yield _finding(name, State.OK, ", ".join(said))
    yield from _warnings(name, warnings)


def _warnings(subject: str, warnings: tuple[str, ...] | list[str]) -> Iterator[Finding]:
    for warning in warnings:
        yield _finding(subject, State.NOTE, warning)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _finding(subject: str, state: State, sentence: str, remedy: str | None = None) -> Finding:
    return Finding(Area.CONFIGURATION, subject, state, sentence, remedy)
