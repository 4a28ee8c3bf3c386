"""Branches of a benchmark: where a validation run plays with another model, or with the same one
once more, beside the original.

A branch is a benchmark of its own, in a folder of its own within the original's, and its rows stand
in the same store under a name that no benchmark can have: `own-view@user-blunt`,
`own-view@replay-user`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from engine.benchmark import Role, Stance, name_fault

BENCHMARKS: Final = "benchmarks"
VALIDATION: Final = "validation"
"""The folder within a benchmark's that holds its branches."""
SWAPPED: Final = (Role.GENERATOR, Role.USER, Role.EVALUATOR)
"""The roles that another model can take in a validation run, or the same one once more."""

_SIGN: Final = "@"
"""No name of a benchmark has it."""
STANCE: Final = "stance"
_REPLAY: Final = "replay"
"""No role is called so."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A benchmark with another model in one role, or the same one again, or the same user model in
    another stance. `str()` is its name."""

    benchmark: str
    """The original's."""
    swap: Role
    model: str | None
    """The name of the other model in the configuration; None for a replay by the same one, and for
    another stance."""
    stance: Stance | None = None
    """What the user model is after in it; None where it is not what is changed."""

    def __str__(self) -> str:
        return f"{self.benchmark}{_SIGN}{self.label}"

    @property
    def label(self) -> str:
        """`user-blunt`, `replay-user`: what tells it from other branches of the same benchmark."""
        if self.stance is not None:
            return f"{STANCE}-{self.stance.value}"
        if self.model is None:
            return f"{_REPLAY}-{self.swap.value}"
        return f"{self.swap.value}-{self.model}"

    @classmethod
    def parse(cls, name: str) -> Branch | None:
        """None for the name of a benchmark, and for what names nothing."""
        benchmark, sign, label = name.partition(_SIGN)
        swap, dash, model = label.partition("-")
        known = {role.value: role for role in SWAPPED}
        if not sign or not dash or name_fault(benchmark):
            return None
        if swap == STANCE:
            return cls(benchmark, Role.USER, None, Stance(model)) if model in set(Stance) else None
        if swap == _REPLAY:
            return cls(benchmark, known[model], None) if model in known else None
        if swap not in known or name_fault(model):
            return None
        return cls(benchmark, known[swap], model)


def folder_of(name: str) -> PurePosixPath:
    """The folder of a benchmark or a branch, relative to the workspace."""
    branch = Branch.parse(name)
    if branch is None:
        return PurePosixPath(BENCHMARKS, name)
    return PurePosixPath(BENCHMARKS, branch.benchmark, VALIDATION, branch.label)


def name_of(folder: Path) -> str:
    """The name of the benchmark or branch whose folder this is."""
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
