"""Branches of a benchmark: where a validation run plays with another model, beside the original.

A branch is a benchmark of its own, in a folder of its own within the original's, and its rows stand
in the same store under a name that no benchmark can have: `own-view@user-blunt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from engine.benchmark import Role, name_fault

BENCHMARKS: Final = "benchmarks"
VALIDATION: Final = "validation"
"""The folder within a benchmark's that holds its branches."""
SWAPPED: Final = (Role.GENERATOR, Role.USER, Role.EVALUATOR)
"""The roles that another model can take in a validation run."""

_SIGN: Final = "@"
"""No name of a benchmark has it."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A benchmark with another model in one role. `str()` is its name."""

    benchmark: str
    """The original's."""
    swap: Role
    model: str
    """The name of the other model in the configuration."""

    def __str__(self) -> str:
        return f"{self.benchmark}{_SIGN}{self.label}"

    @property
    def label(self) -> str:
        """`user-blunt`: what tells it from other branches of the same benchmark."""
        return f"{self.swap.value}-{self.model}"

    @classmethod
    def parse(cls, name: str) -> Branch | None:
        """None for the name of a benchmark, and for what names nothing."""
        benchmark, sign, label = name.partition(_SIGN)
        swap, dash, model = label.partition("-")
        known = {role.value: role for role in SWAPPED}
        if not sign or not dash or swap not in known or name_fault(benchmark) or name_fault(model):
            return None
        return cls(benchmark, known[swap], model)


def folder_of(name: str) -> PurePosixPath:
    """Of a benchmark or a branch, relative to the workspace."""
    branch = Branch.parse(name)
    if branch is None:
        return PurePosixPath(BENCHMARKS, name)
    return PurePosixPath(BENCHMARKS, branch.benchmark, VALIDATION, branch.label)


def name_of(folder: Path) -> str:
    """Of the benchmark or branch whose folder this is."""
    folder = folder.absolute()
    around = folder.parents
    if len(around) > 2 and around[0].name == VALIDATION and around[2].name == BENCHMARKS:
        name = f"{around[1].name}{_SIGN}{folder.name}"
        if Branch.parse(name) is not None:
            return name
    return folder.name


def benchmark_fault(name: str) -> str | None:
    """Why `name` can name neither a benchmark nor a branch; None where it can."""
    return None if Branch.parse(name) is not None else name_fault(name)
