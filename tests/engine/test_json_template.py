"""Templates with placeholders, and paths into JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.benchmark import Role, Stage, name_fault
from engine.branches import Branch, benchmark_fault, folder_of, name_of
from engine.errors import CrosswindError
from engine.json_template import LONGEST_PATH, at_path, path_fault, without_placeholder
from engine.link import Command, Request, WorkRow, order_for


def test_a_placeholder_is_taken_out_wherever_it_stands() -> None:
    template = {
        "text": "$message",
        "parts": ["$system", {"role": "$system", "n": 1}, "before $system after"],
        "system": " $system ",
    }
    assert without_placeholder(template, "system") == {
        "text": "$message",
        "parts": [{"n": 1}, "before  after"],
    }


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.1.b", 2),
        ("a.2", None),
        ("a.b", None),
        ("a.1.b.c", None),
        ("a." + "9" * 100, None),
        ("a.²", None),
    ],
)
def test_a_path_leads_to_a_value_or_to_none(path: str, value: object) -> None:
    assert at_path({"a": [1, {"b": 2}]}, path) == value


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("a.b.0", None),
        ("a..b", "a step of it is empty or has a space in it"),
        ("a b", "a step of it is empty or has a space in it"),
        ("a" * (LONGEST_PATH + 1), f"it is longer than {LONGEST_PATH} characters"),
    ],
)
def test_a_path_that_is_none_is_told(path: str, fault: str | None) -> None:
    assert path_fault(path) == fault


# A branch has a name that no benchmark can have, and a folder within its original's.


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


# What an engine is started for, where work is asked for and none is there.


FAILED = {WorkRow("b", "m01_s001_v01__a"): "a", WorkRow("b", "m01_s001_v01__c"): "c"}


def test_trying_again_is_about_what_failed_and_no_more() -> None:
    every = order_for(Request(Command.RETRY), FAILED)
    assert every is not None
    assert every.only == {"b": {"m01_s001_v01__a", "m01_s001_v01__c"}}
    of_one = order_for(Request(Command.RETRY, target="c"), FAILED)
    assert of_one is not None
    assert of_one.only == {"b": {"m01_s001_v01__c"}}
    named = order_for(Request(Command.RETRY, rows=(WorkRow("b", "m01_s001_v01__a"),)), FAILED)
    assert named is not None
    assert named.only == {"b": {"m01_s001_v01__a"}}


def test_what_is_played_again_is_judged_too() -> None:
    order = order_for(Request(Command.SIMULATE, rows=(WorkRow("b", "m01_s001_v01__a"),)))
    assert order is not None
    assert {Stage.SIMULATE, Stage.EVALUATE} <= order.stages


@pytest.mark.parametrize("command", [Command.EVALUATE, Command.SIMULATE])
def test_an_order_for_no_conversation_is_none_for_all_of_them(command: Command) -> None:
    with pytest.raises(CrosswindError, match="no conversation is named"):
        order_for(Request(command))
    with pytest.raises(CrosswindError, match="m01 is no conversation"):
        order_for(Request(command, rows=(WorkRow("b", "m01"),)))


def test_what_is_no_work_comes_down_to_no_order() -> None:
    work = {Command.RUN, Command.RETRY, Command.EVALUATE, Command.SIMULATE}
    assert all(order_for(Request(command)) is None for command in set(Command) - work)
