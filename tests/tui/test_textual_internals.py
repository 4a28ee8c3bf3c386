"""Private names of Textual: all in one file, and each where it was."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

import tui
from tui.navigation import load
from tui.services.textual_internals import PRIVATE

TUI = Path(tui.__file__).parent
INTERNALS = TUI / "services" / "textual_internals.py"
NAMES = frozenset[str]().union(*PRIVATE.values())


@cache
def source(owner: type) -> str:
    return inspect.getsource(owner)


@pytest.mark.parametrize(
    ("owner", "name"), [(owner, name) for owner, names in PRIVATE.items() for name in sorted(names)]
)
def test_textual_has_the_private_name_where_it_was(owner: str, name: str) -> None:
    found = load(owner)
    assert hasattr(found, name) or any(
        f"self.{name}" in source(base) for base in found.__mro__[:-1]
    ), f"Textual {version('textual')} has moved {owner}.{name}: follow it in {INTERNALS.name}"


def private(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_they_are_used_in_one_file_alone() -> None:
    used = set(private(INTERNALS))
    assert used >= NAMES
    others = {
        f"{path.relative_to(TUI)}: {name}"
        for path in TUI.rglob("*.py")
        if path != INTERNALS
        for name in private(path)
        if name in NAMES
    }
    assert not others
