"""What the results screen shows of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass

from engine.branches import Branch
from engine.stages.analysis import Analysis
from engine.stages.course import Course
from engine.stages.validation_report import ValidationReport


@dataclass(frozen=True, slots=True)
class Validated:
    """A validation run of a benchmark, and what it says."""

    branch: Branch
    played: str
    """The benchmark whose rows it added to."""
    report: ValidationReport | None
    fault: str | None
    """Why there is no report; None where there is one."""


@dataclass(frozen=True, slots=True)
class Report:
    analysis: Analysis
    validations: tuple[Validated, ...] = ()
    courses: tuple[Course, ...] = ()
    """Of each target and track, as the conversations go on."""
