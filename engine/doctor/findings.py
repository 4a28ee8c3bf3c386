"""What an examination finds: one sentence for each thing that was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from engine.errors import InputError
from engine.providers.redaction import Redactor


class Area(StrEnum):
    """What was looked at, in the order in which it is told."""

    SYSTEM = "system"
    CONFIGURATION = "configuration"
    KEYS = "keys"
    MODELS = "models"
    REACH = "reach"
    CALL = "call"
    TERMINAL = "terminal"
    STORE = "store"


class Severity(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    NOTE = "note"
    """Nothing is broken, but a person will want to know."""
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """How one thing stands, and what to do about it."""

    area: Area
    subject: str
    state: Severity
    sentence: str
    remedy: str | None = None


_WRITTEN_BY_A_PERSON: Final = frozenset({Area.CONFIGURATION, Area.KEYS, Area.MODELS})


def exit_code(findings: Iterable[Diagnostic]) -> int:
    """2 where the configuration is wrong, else 1 where something else is, else 0."""
    areas = {finding.area for finding in findings if finding.state is Severity.PROBLEM}
    if areas & _WRITTEN_BY_A_PERSON:
        return 2
    return 1 if areas else 0


def of_error(area: Area, subject: str, error: InputError) -> list[Diagnostic]:
    """Every problem that an error holds, each with its place."""
    return [
        Diagnostic(area, subject, Severity.PROBLEM, str(replace(problem, hint=None)), problem.hint)
        for problem in error.problems
    ]


def redacted(findings: Iterable[Diagnostic], redact: Redactor) -> list[Diagnostic]:
    """This finding with no key in what others wrote."""
    return [
        replace(
            finding,
            sentence=redact(finding.sentence),
            remedy=None if finding.remedy is None else redact(finding.remedy),
        )
        for finding in findings
    ]
