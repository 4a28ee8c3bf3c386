"""The findings of an examination: one sentence for each thing that was examined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from engine.errors import InputError
from engine.providers.redaction import Redactor


class Area(StrEnum):
    """What was examined, in the order of the report."""

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
    """Nothing is broken, but worth knowing."""
    PROBLEM = "problem"


class Effect(StrEnum):
    """What a finding means for a run."""

    NONE = "none"
    WARNS = "warns"
    """It is said before the run begins."""
    STOPS = "stops"
    """No run begins: every call would fail."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """The state of one thing, and what to do about it."""

    area: Area
    subject: str
    state: Severity
    sentence: str
    remedy: str | None = None
    effect: Effect = Effect.NONE


_WRITTEN_BY_A_PERSON: Final = frozenset({Area.CONFIGURATION, Area.KEYS, Area.MODELS})


def exit_code(findings: Iterable[Diagnostic]) -> int:
    """2 for a problem in what a person wrote, else 1 for any other problem, else 0."""
    areas = {finding.area for finding in findings if finding.state is Severity.PROBLEM}
    if areas & _WRITTEN_BY_A_PERSON:
        return 2
    return 1 if areas else 0


def of_error(area: Area, subject: str, error: InputError) -> list[Diagnostic]:
    """A finding for every problem of an error, with its place."""
    return [
        Diagnostic(area, subject, Severity.PROBLEM, str(replace(problem, hint=None)), problem.hint)
        for problem in error.problems
    ]


def redacted_findings(findings: Iterable[Diagnostic], redact: Redactor) -> list[Diagnostic]:
    """The findings with all secrets redacted."""
    return [
        replace(
            finding,
            sentence=redact(finding.sentence),
            remedy=None if finding.remedy is None else redact(finding.remedy),
        )
        for finding in findings
    ]
