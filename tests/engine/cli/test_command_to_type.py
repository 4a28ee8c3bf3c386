"""The commands that Crosswind names work as they are printed, however it was started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.cli.console import command_line
from tests.approval import approve


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A script that was started by its path."""
    path = tmp_path / ".venv" / "bin" / "crosswind"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [".venv/bin/crosswind", "demo"])
    return path


def test_a_script_that_the_shell_does_not_find_is_named_by_its_path(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    named = f"{script} results --workspace /study"
    assert command_line("results", Path("/study")) == named
    other = tmp_path / "crosswind"
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    assert command_line("results", Path("/study")) == named


def test_a_script_that_the_shell_finds_is_named_by_its_name(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    approve(command_line("results", Path("/my study")))
    assert command_line("", Path("/study")) == "crosswind --workspace /study"


def test_another_program_that_prints_a_command_names_crosswind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/lib/python3/tui/__main__.py"])
    approve(command_line("stop", Path("/study")))
