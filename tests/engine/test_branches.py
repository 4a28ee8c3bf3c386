"""A branch has a name that no benchmark can have, and a folder within its original's."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.benchmark import Role, name_fault
from engine.branches import Branch, benchmark_fault, folder_of, name_of


@pytest.mark.parametrize("model", ["blunt", "gpt-5.4-mini", "a_b", "user-blunt", None])
@pytest.mark.parametrize("swap", [Role.USER, Role.GENERATOR, Role.EVALUATOR])
def test_a_branch_is_read_back_from_its_name_and_from_its_folder(
    swap: Role, model: str | None
) -> None:
    branch = Branch("own-view", swap, model)
    assert Branch.parse(str(branch)) == branch
    assert name_of(Path("/place") / folder_of(str(branch))) == str(branch)


def test_no_benchmark_can_be_called_like_a_branch() -> None:
    name = str(Branch("own-view", Role.USER, "blunt"))
    assert name_fault(name) is not None
    assert benchmark_fault(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "own-view",
        "own-view@",
        "own-view@user",
        "own-view@user-",
        "own-view@target-blunt",
        "own-view@nobody-blunt",
        "own-view@replay-target",
        "own-view@replay-",
        "../x@user-blunt",
        "own-view@user-../../x",
        "own-view@user-a@user-b",
        "@user-blunt",
    ],
)
def test_what_is_no_branch_is_a_name_like_any_other(name: str) -> None:
    assert Branch.parse(name) is None


def test_a_folder_is_a_branch_only_where_branches_are() -> None:
    assert name_of(Path("/place/benchmarks/own-view")) == "own-view"
    assert name_of(Path("/place/benchmarks/validation/user-x")) == "user-x"
    assert name_of(Path("/benchmarks/own-view/validation/sundry")) == "sundry"
