"""Branches of a benchmark: a validation run plays the benchmark again, beside the original, with
another model or with the same one.

A branch is a benchmark of its own. Its folder lies within the original's, and its rows share the
store under a name that no benchmark can have: `own-view@user-blunt`, `own-view@replay-user`.
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
"""The roles for which a validation run can use another model, or the same one again."""

_SIGN: Final = "@"
"""Not allowed in the name of a benchmark."""
STANCE: Final = "stance"
FORM: Final = "form"
"""The names under which a conversation keeps what its user model was told to be."""
_REPLAY: Final = "replay"
"""Not the name of a role, so a label that begins with it is unambiguous."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A benchmark with another model in one role, with the same models again (a replay), or with
    the user model in another stance. `str()` gives its name."""

    benchmark: str
    """The name of the original benchmark."""
    role: Role
    """The role that another model takes, or the same one again."""
    name: str | None
    """The configured name of the other model; None for a replay and for another stance."""
    stance: Stance | None = None
    """The user model's stance in this branch; None where the branch changes something else."""

    def __str__(self) -> str:
        return f"{self.benchmark}{_SIGN}{self.label}"

    @property
    def label(self) -> str:
        """The part of the name that tells branches of one benchmark apart: `user-blunt`."""
        if self.stance is not None:
            return f"{STANCE}-{self.stance.value}"
        if self.name is None:
            return f"{_REPLAY}-{self.role.value}"
        return f"{self.role.value}-{self.name}"

    @property
    def is_replay(self) -> bool:
        return self.name is None and self.stance is None

    @property
    def same_scenarios(self) -> bool:
        """Whether both sides have the same scenarios, so that rows can be paired."""
        return self.role is not Role.GENERATOR

    @classmethod
    def parse(cls, name: str) -> Branch | None:
        """Parse a name; None where it is not a branch's, be it a benchmark's or invalid."""
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
    """The name of the benchmark or branch that this folder belongs to."""
    folder = folder.absolute()
    around = folder.parents
    # benchmarks/NAME/validation/LABEL
    if len(around) > 2 and around[0].name == VALIDATION and around[2].name == BENCHMARKS:
        name = f"{around[1].name}{_SIGN}{folder.name}"
        if Branch.parse(name) is not None:
            return name
    return folder.name


def benchmark_fault(name: str) -> str | None:
    """Why `name` can name neither a benchmark nor a branch; None where it can."""
    return None if Branch.parse(name) is not None else name_fault(name)
