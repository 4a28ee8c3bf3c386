"""`crosswind lint`: what plain rules find in metrics and scenarios, with its place."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.benchmark import base_id
from engine.cli.console import out, out_json, tell
from engine.cli.pipelines import planning
from engine.cli.session import Session, open_session
from engine.config.benchmark_file import KEY, Definition, definition_of
from engine.config.yaml_text import YamlDocument, dotted, read_yaml
from engine.errors import DONE, FAILED, InputError, Problem
from engine.files import read_regular
from engine.lint import LintFinding, Rule, lint_metrics, lint_scenarios
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.files import scenarios_path, with_edits
from engine.pipeline.planner import Planner


@dataclass(frozen=True, slots=True)
class _Placed:
    """A finding with where it stands."""

    benchmark: str
    finding: LintFinding
    path: Path
    """Relative to the workspace."""
    line: int | None
    reason: str | None
    """Why the file silences it; None where it does not."""

    def __str__(self) -> str:
        rule = self.finding.rule
        what = f"{rule}: {self.finding.says}"
        return str(Problem(what, self.path, self.line, key=self.finding.id, hint=rule.mend))

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "file": self.path.as_posix(),
            "line": self.line,
            "id": self.finding.id,
            "rule": self.finding.rule.value,
            "says": self.finding.says,
            "mend": self.finding.rule.mend,
            "reason": self.reason,
        }


def lint(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    names = session.benchmarks(arguments.benchmarks)
    found: list[_Placed] = []
    problems: list[Problem] = []
    with planning(session) as planner:
        for name in names:
            try:
                found += _of_benchmark(session, planner, name)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    standing = [one for one in found if one.reason is None]
    silenced = [one for one in found if one.reason is not None]
    if arguments.json:
        out_json(
            {
                "benchmarks": names,
                "findings": [one.as_json for one in standing],
                "silenced": [one.as_json for one in silenced],
            }
        )
    else:
        for one in standing:
            out(str(one))
        tell(_in_short(len(standing), len(silenced), len(names)))
    return FAILED if arguments.strict and standing else DONE


def _in_short(standing: int, silenced: int, benchmarks: int) -> str:
    head = "nothing found" if not standing else f"{standing} found"
    where = "1 benchmark" if benchmarks == 1 else f"{benchmarks} benchmarks"
    return f"{head} in {where}" + (f", {silenced} silenced" if silenced else "")


def _of_benchmark(session: Session, planner: Planner, name: str) -> list[_Placed]:
    """Raises `InputError`."""
    document = read_yaml(session.workspace.definition_path(name))
    definition = definition_of(document)
    bench = with_edits(planner.context(definition))
    found = [
        *_in_metrics(definition, document, session.workspace.root),
        *_in_scenarios(bench, session.workspace.root),
    ]
    _tell_idle(definition, document, found)
    return found


def _in_metrics(definition: Definition, document: YamlDocument, root: Path) -> Iterator[_Placed]:
    number = {metric.id: number for number, metric in enumerate(definition.metrics)}
    path = definition.path.relative_to(root)
    for one in lint_metrics(definition.metrics):
        line = document.key_place((KEY, number[one.id], *one.key)).line
        yield _Placed(definition.name, one, path, line, _reason(definition, one))


def _in_scenarios(bench: BenchmarkContext, root: Path) -> Iterator[_Placed]:
    scenarios = [
        row.scenario
        for row in bench.reader.scenarios(bench.name)
        if row.scenario.metric_id in bench.metrics
    ]
    path = scenarios_path(bench)
    lines = _lines_of_ids(path) if path.exists() else {}
    for one in lint_scenarios(scenarios, turns=bench.config.generation.turns):
        line = lines.get(one.id)
        yield _Placed(bench.name, one, path.relative_to(root), line, _reason(bench.definition, one))


def _lines_of_ids(path: Path) -> Mapping[str, int]:
    """Where each row says its id. A base scenario has no row there: it is where its first variant
    is. Ids that share a line with other keys are not found."""
    found: dict[str, int] = {}
    text = read_regular(path).decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), start=1):
        key, _, value = line.partition(":")
        if key.strip() == '"id"':
            name = value.strip(' ",\r')
            found.setdefault(name, number)
            found.setdefault(base_id(name), number)
    return found


def _reason(definition: Definition, finding: LintFinding) -> str | None:
    """A scenario's silence holds for its variants, too."""
    for name in (finding.id, base_id(finding.id)):
        reason = definition.lint_ignore.get(name, {}).get(finding.rule)
        if reason is not None:
            return reason
    return None


def _tell_idle(definition: Definition, document: YamlDocument, found: list[_Placed]) -> None:
    """What is silenced and was not found is an old excuse, or a slip in an id."""
    said = {(name, one.finding.rule) for one in found for name in _names(one.finding)}
    for name, rules in definition.lint_ignore.items():
        for rule in map(Rule, rules):
            if (name, rule) not in said:
                at = ("lint_ignore", name, rule.value)
                place = f"{document.path}:{document.key_place(at).line}: {dotted(at)}"
                tell(f"note: {place} silences nothing")


def _names(finding: LintFinding) -> set[str]:
    return {finding.id, base_id(finding.id)}
