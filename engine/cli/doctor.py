"""`crosswind doctor`: prints the findings of an examination."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

from engine.cli.access import allowed
from engine.cli.commands.upkeep import DoctorCommand
from engine.cli.console import out, out_json
from engine.config.schema import load_config
from engine.config.workspace import find_workspace
from engine.display import one_line, plural
from engine.doctor.examination import DoctorOptions, examine
from engine.doctor.findings import Diagnostic, Severity, exit_code
from engine.errors import InputError

_MARKS: Final = {Severity.OK: "✓", Severity.NOTE: "·", Severity.PROBLEM: "✗"}


def doctor(arguments: DoctorCommand) -> int:
    start: Path | None = arguments.workspace
    where = start or Path.cwd()
    _ask_for_trust(where, trusts=arguments.trust)
    asked = DoctorOptions(where, named=start is not None, call=arguments.call)
    findings = examine(asked)
    code = exit_code(findings)
    if arguments.json:
        out_json("doctor", {"exit_code": code, "findings": list(map(asdict, findings))})
        return code
    width = get_terminal_size().columns if sys.stdout.isatty() else None
    for line in report(findings, width):
        out(line)
    return code


def _ask_for_trust(start: Path, *, trusts: bool) -> None:
    """Have it decided what the workspace may send; without that, nothing is sent."""
    # what is wrong with the workspace is among the findings
    with suppress(InputError):
        workspace = find_workspace(start)
        allowed(workspace.root, load_config(workspace.config_path).permissions, trusts=trusts)


def report(findings: Sequence[Diagnostic], width: int | None = None) -> Iterator[str]:
    """A line for each finding, one for its remedy, and a summary. Lines longer than `width` are
    wrapped with a hanging indent."""
    areas = max((len(finding.area) for finding in findings), default=0)
    subjects = max((len(one_line(finding.subject)) for finding in findings), default=0)
    before = None
    for finding in findings:
        area = "" if finding.area == before else finding.area.value
        before = finding.area
        start = f"{_MARKS[finding.state]} {area:<{areas}}  {one_line(finding.subject):<{subjects}}"
        yield from _hanging_lines(f"{start}  ", finding.sentence, width)
        if finding.remedy is not None and finding.state is not Severity.OK:
            yield from _hanging_lines(f"{'':<{len(start)}}  → ", finding.remedy, width)
    yield ""
    yield _sum(findings)


_LONGEST: Final = 2_000
"""The most characters of a sentence; a path may be long."""
_NARROWEST: Final = 30
"""The fewest columns that are worth wrapping into."""


def _hanging_lines(start: str, text: str, width: int | None) -> list[str]:
    text = one_line(text, _LONGEST)
    if width is None or width - len(start) < _NARROWEST:
        return [start + text]
    # a command or a path that is broken cannot be copied
    return wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _sum(findings: Sequence[Diagnostic]) -> str:
    count = Counter(finding.state for finding in findings)
    problems, notes = count[Severity.PROBLEM], count[Severity.NOTE]
    return f"{count[Severity.OK]} fine, {plural(notes, 'note')}, {plural(problems, 'problem')}"
