"""Templates with placeholders, and paths into JSON."""

from __future__ import annotations

import pytest

from engine.json_template import LONGEST_PATH, at_path, path_fault, without_placeholder


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
