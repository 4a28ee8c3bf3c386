"""What the lint rules, and a model that is asked, find in metrics and scenarios, with file and
line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.benchmark import base_id
from engine.cli.access import pass_gate, planning, writing
from engine.cli.commands.results import ReviewCommand
from engine.cli.console import out, out_json, tell
from engine.cli.pricing import answered
from engine.cli.session import Session
from engine.config.benchmark_file import Definition, definition_of
from engine.config.yaml_text import YamlDocument, dotted_path, read_yaml
from engine.display import plural
from engine.errors import DONE, FAILED, STOPPED, InputError, Problem
from engine.files import decoded_text, read_regular
from engine.lint import LintFinding, LintRule, lint_metrics, lint_scenarios
from engine.pipeline.lint import LintReading, lint_calls, read_by_model
from engine.pipeline.order import Order, PricedOrder
from engine.pipeline.plan import with_quote
from engine.pipeline.planner import Planner, total_words
from engine.pipeline.scenario_edits import scenarios_path, with_edits

_JSON: Final = json.JSONDecoder(strict=False)


class LocatedFinding(NamedTuple):
    """What a rule, or a model, finds in a metric or scenario."""

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


def split_silenced(
    findings: Sequence[LocatedFinding],
) -> tuple[list[LocatedFinding], list[LocatedFinding]]:
    """Those that stand, and those that `lint_ignore` silences."""
    standing = [finding for finding in findings if finding.reason is None]
    return standing, [finding for finding in findings if finding.reason is not None]


def lint_words(findings: Sequence[LocatedFinding], benchmarks: int) -> str:
    standing, silenced = map(len, split_silenced(findings))
    head = f"{standing} found" if standing else "nothing found"
    rest = f", {silenced} silenced" if silenced else ""
    return f"{head} by the lint rules in {plural(benchmarks, 'benchmark')}{rest}"


def lint_json(findings: Sequence[LocatedFinding]) -> dict[str, Any]:
    rows = [
        [
            {
                "benchmark": one.benchmark,
                "file": one.path.as_posix(),
                "line": one.line,
                "id": one.finding.id,
                "rule": one.finding.rule.value,
                "says": one.finding.says,
                "mend": one.finding.rule.remedy,
                "reason": one.reason,
            }
            for one in some
        ]
        for some in split_silenced(findings)
    ]
    return {"findings": rows[0], "silenced": rows[1]}


def linted(
    session: Session, names: Sequence[str], read: Sequence[tuple[str, LintFinding]] = ()
) -> list[LocatedFinding]:
    """What is found in metrics and scenarios as the files have them, with what a model found by
    benchmark. Asks no model. Raises `InputError`."""
    findings: list[LocatedFinding] = []
    problems: list[Problem] = []
    with planning(session) as planner:
        for name in names:
            try:
                mine = [finding for of, finding in read if of == name]
                findings += _of_benchmark(session, planner, name, mine)
            except InputError as error:
                problems += error.problems
    if problems:
        raise InputError(problems)
    return findings


def read_with(session: Session, names: Sequence[str], model: str, arguments: ReviewCommand) -> int:
    """Have the model of `review --with` read metrics and base scenarios, and print what it and the
    rules find. Returns the exit code."""
    read = _read_by_model(session, names, model, arguments)
    if read is None:
        return STOPPED
    found = linted(session, names, read.findings)
    if arguments.json:
        out_json("reading", lint_json(found))
    else:
        for finding in split_silenced(found)[0]:
            out(str(finding))
        tell(lint_words(found, len(names)))
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
) -> list[LocatedFinding]:
    """Raises `InputError`."""
    document = read_yaml(session.workspace.definition_path(name))
    definition = definition_of(document)
    bench = with_edits(planner.context(definition))
    number = {metric.id: number for number, metric in enumerate(definition.metrics)}
    rows = (row.scenario for row in bench.reader.scenarios(name))
    scenarios = [scenario for scenario in rows if scenario.metric_id in bench.metrics]
    path = scenarios_path(bench)
    text = decoded_text(read_regular(path)) if path.exists() else ""
    spans = _spans_of_scenarios(text)
    plain = [
        *lint_metrics(definition.metrics),
        *lint_scenarios(scenarios, turns=bench.config.generation.turns),
    ]
    by_rules = {(base_id(finding.id), finding.rule) for finding in plain}
    beside = [one for one in read if (base_id(one.id), one.rule) not in by_rules]
    findings: list[LocatedFinding] = []
    line: int | None
    for finding in sorted([*plain, *beside], key=lambda one: one.id not in number):
        if finding.id in number:
            at = ("metrics", number[finding.id], *finding.key)
            file, line = definition.path, document.key_place(at).line
        else:
            file, line = path, _line_of(finding, text, spans)
        file = file.relative_to(session.workspace.root)
        findings.append(LocatedFinding(name, finding, file, line, _reason(definition, finding)))
    _tell_idle(definition, document, findings)
    return findings


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
    definition: Definition, document: YamlDocument, findings: Sequence[LocatedFinding]
) -> None:
    """Note every entry of `lint_ignore` that silences nothing: it is outdated, or has a typo."""
    reported = {
        (name, one.finding.rule)
        for one in findings
        for name in (one.finding.id, base_id(one.finding.id))
    }
    for name, rules in definition.lint_ignore.items():
        for rule in map(LintRule, rules):
            if (name, rule) not in reported:
                at = ("lint_ignore", name, rule.value)
                place = f"{document.path}:{document.key_place(at).line}: {dotted_path(at)}"
                tell(f"note: {place} silences nothing")
