"""What the lint rules, and a model that is asked, find in metrics and scenarios, with file and
line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from engine.benchmark import base_id
from engine.cli.commands.people import ReviewCommand
from engine.cli.console import out, out_json, tell
from engine.cli.pipelines import writing
from engine.cli.planning import planning
from engine.cli.pricing import answered
from engine.cli.session import Session
from engine.cli.trusting import pass_gate
from engine.config.benchmark_file import Definition, definition_of
from engine.config.yaml_text import YamlDocument, dotted_path, read_yaml
from engine.display import plural
from engine.errors import DONE, FAILED, STOPPED, InputError, Problem
from engine.files import decoded_text, read_regular
from engine.lint import LintFinding, LintRule, lint_metrics, lint_scenarios
from engine.pipeline.context import BenchmarkContext
from engine.pipeline.lint import LintReading, lint_calls, read_by_model
from engine.pipeline.order import Order, PricedOrder
from engine.pipeline.plan import with_quote
from engine.pipeline.planner import Planner, total_words
from engine.pipeline.scenario_edits import scenarios_path, with_edits

_JSON: Final = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class _LocatedFinding:
    """A finding with its file and line."""

    benchmark: str
    finding: LintFinding
    path: Path
    """Relative to the workspace."""
    line: int | None
    reason: str | None
    """The reason for which `lint_ignore` silences it; None where it does not."""

    def __str__(self) -> str:
        rule = self.finding.rule
        what = f"{rule}: {self.finding.says}"
        return str(Problem(what, self.path, self.line, key=self.finding.id, hint=rule.remedy))

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "file": self.path.as_posix(),
            "line": self.line,
            "id": self.finding.id,
            "rule": self.finding.rule.value,
            "says": self.finding.says,
            "mend": self.finding.rule.remedy,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Linted:
    """What rules, and a model if one was asked, find in some benchmarks."""

    benchmarks: int
    standing: Sequence[_LocatedFinding]
    silenced: Sequence[_LocatedFinding]

    @property
    def in_short(self) -> str:
        head = f"{len(self.standing)} found" if self.standing else "nothing found"
        silenced = f", {len(self.silenced)} silenced" if self.silenced else ""
        return f"{head} by the lint rules in {plural(self.benchmarks, 'benchmark')}{silenced}"

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "findings": [finding.as_json for finding in self.standing],
            "silenced": [finding.as_json for finding in self.silenced],
        }


def linted(session: Session, names: Sequence[str], read: LintReading | None = None) -> Linted:
    """What is found in metrics and scenarios as the files have them, with what a model found in
    `read`. Asks no model. Raises `InputError`."""
    findings: list[_LocatedFinding] = []
    problems: list[Problem] = []
    of_model = [] if read is None else read.findings
    with planning(session) as planner:
        for name in names:
            try:
                mine = [finding for of, finding in of_model if of == name]
                findings += _of_benchmark(session, planner, name, mine)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    standing = [finding for finding in findings if finding.reason is None]
    silenced = [finding for finding in findings if finding.reason is not None]
    return Linted(len(names), standing, silenced)


def read_with(session: Session, names: Sequence[str], model: str, arguments: ReviewCommand) -> int:
    """Have the model of `review --with` read metrics and base scenarios, and print what it and the
    rules find. Returns the exit code."""
    read = _read_by_model(session, names, model, arguments)
    if read is None:
        return STOPPED
    found = linted(session, names, read)
    if arguments.json:
        out_json("reading", found.as_json)
    else:
        for finding in found.standing:
            out(str(finding))
        tell(found.in_short)
    for line in _not_read(read.failed):
        tell(line)
    if read.stopped:
        tell("stopped before everything was read, to stay within the agreed price")
        return STOPPED
    return FAILED if read.failed else DONE


def _read_by_model(
    session: Session, names: Sequence[str], model: str, arguments: ReviewCommand
) -> LintReading | None:
    """What the model finds; None where its price is declined. Raises `InputError` and
    `StoreError`."""
    spec = session.config.model_named(model)
    order = Order(tuple(names))
    session.require_free()
    session.require_store()
    if not spec.is_offline:
        pass_gate(session, arguments)
    with planning(session) as planner:
        benches = planner.check(order)
        calls = lint_calls(benches, spec)
        estimate = planner.estimator(spec).estimate([calls])
    offer = PricedOrder(order)
    if not estimate.is_free:
        limited = with_quote(order, estimate, session.config, unasked=arguments.yes)
        line = f"{spec.label} reads each metric and base scenario: {total_words(estimate)}"
        offer = PricedOrder(limited, [line])
    agreed = answered(offer, arguments)
    if agreed is None:
        return None
    with writing(session) as pipeline:
        quote = agreed.quote
        if quote is not None:
            high = quote.high_usd if quote.binding else None
            pipeline.budget.agree(high, quote.expected_usd)
        return asyncio.run(read_by_model(pipeline, benches, spec))


def _not_read(failed: Sequence[str]) -> Iterator[str]:
    """A line for each reason why rows could not be read."""
    rows: dict[str, list[str]] = {}
    for failure in failed:
        row, _, reason = failure.partition(": ")
        rows.setdefault(reason, []).append(row)
    for reason, mine in rows.items():
        more = f" and {len(mine) - 1:,} more" if len(mine) > 1 else ""
        yield f"not read: {mine[0]}{more}: {reason}"


def _of_benchmark(
    session: Session, planner: Planner, name: str, read: Sequence[LintFinding]
) -> list[_LocatedFinding]:
    """Raises `InputError`."""
    document = read_yaml(session.workspace.definition_path(name))
    definition = definition_of(document)
    bench = with_edits(planner.context(definition))
    findings = [
        *_in_metrics(definition, document, session.workspace.root, read),
        *_in_scenarios(bench, session.workspace.root, read),
    ]
    _tell_idle(definition, document, findings)
    return findings


def _in_metrics(
    definition: Definition, document: YamlDocument, root: Path, read: Sequence[LintFinding]
) -> Iterator[_LocatedFinding]:
    number = {metric.id: number for number, metric in enumerate(definition.metrics)}
    path = definition.path.relative_to(root)
    plain = lint_metrics(definition.metrics)
    for finding in [
        *plain,
        *_not_found_by_rules(plain, [finding for finding in read if finding.id in number]),
    ]:
        line = document.key_place(("metrics", number[finding.id], *finding.key)).line
        yield _LocatedFinding(definition.name, finding, path, line, _reason(definition, finding))


def _in_scenarios(
    bench: BenchmarkContext, root: Path, read: Sequence[LintFinding]
) -> Iterator[_LocatedFinding]:
    scenarios = [
        row.scenario
        for row in bench.reader.scenarios(bench.name)
        if row.scenario.metric_id in bench.metrics
    ]
    path = scenarios_path(bench)
    text = decoded_text(read_regular(path)) if path.exists() else ""
    spans = _spans_of_scenarios(text)
    plain = lint_scenarios(scenarios, turns=bench.config.generation.turns)
    for finding in [
        *plain,
        *_not_found_by_rules(
            plain, [finding for finding in read if finding.id not in bench.metrics]
        ),
    ]:
        line = _line_of(finding, text, spans)
        yield _LocatedFinding(
            bench.name, finding, path.relative_to(root), line, _reason(bench.definition, finding)
        )


def _not_found_by_rules(
    plain: Sequence[LintFinding], read: Sequence[LintFinding]
) -> Iterator[LintFinding]:
    """The model's findings that no plain rule has reported for the same row."""
    by_rules = {(base_id(finding.id), finding.rule) for finding in plain}
    yield from (finding for finding in read if (base_id(finding.id), finding.rule) not in by_rules)


def _spans_of_scenarios(text: str) -> dict[str, tuple[int, int]]:
    """By id, where the object of a scenario begins and ends in the list that is its file."""
    spans: dict[str, tuple[int, int]] = {}
    at = text.find("{")
    while at >= 0:
        scenario, end = _JSON.raw_decode(text, at)
        spans[scenario["id"]] = at, end
        at = text.find("{", end)
    return spans


def _line_of(finding: LintFinding, text: str, spans: Mapping[str, tuple[int, int]]) -> int | None:
    """The line of its scenario that holds the finding's text, or its id where the finding is about
    no single text. None where no line holds it."""
    for name, (at, end) in spans.items():
        # a base scenario has no row of its own: it stands in those of its variants
        if name != finding.id and not name.startswith(f"{finding.id}_v"):
            continue
        while (at := text.find('"', at, end)) >= 0:
            said, after = _JSON.raw_decode(text, at)
            if (finding.text or name) in said:
                return text.count("\n", 0, at) + 1
            at = after
    return None


def _reason(definition: Definition, finding: LintFinding) -> str | None:
    """Why `lint_ignore` silences a finding, or None. An entry for a base scenario holds for its
    variants, too."""
    for name in (finding.id, base_id(finding.id)):
        reason = definition.lint_ignore.get(name, {}).get(finding.rule)
        if reason is not None:
            return reason
    return None


def _tell_idle(
    definition: Definition, document: YamlDocument, findings: list[_LocatedFinding]
) -> None:
    """Note every entry of `lint_ignore` that silences nothing: it is outdated, or has a typo."""
    reported = {
        (name, reading.finding.rule) for reading in findings for name in _names(reading.finding)
    }
    for name, rules in definition.lint_ignore.items():
        for rule in map(LintRule, rules):
            if (name, rule) not in reported:
                at = ("lint_ignore", name, rule.value)
                place = f"{document.path}:{document.key_place(at).line}: {dotted_path(at)}"
                tell(f"note: {place} silences nothing")


def _names(finding: LintFinding) -> set[str]:
    return {finding.id, base_id(finding.id)}
