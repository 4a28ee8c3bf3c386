"""What `make check-real` says and how it ends where a part of it cannot be tried."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.approval import approve, lines_with
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


def check_real(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    """Where only these programs can be found."""
    return subprocess.run(
        [sys.executable, "-m", "tests.real", *arguments],
        cwd=ROOT,
        env={**os.environ, "PATH": path, "AIMOCK": ""},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def _program(folder: Path, words: str) -> str:
    """A folder with an `npm` that does this."""
    npm = folder / "npm"
    npm.write_text(f"#!/bin/sh\n{words}\n", "utf-8")
    npm.chmod(0o755)
    return f"{folder}{os.pathsep}/bin{os.pathsep}/usr/bin"


def test_a_part_that_cannot_be_installed_is_said_with_its_reason_and_fails_the_check(
    tmp_path: Path,
) -> None:
    path = _program(tmp_path, "echo 'npm ERR! the registry is away' >&2; exit 7")
    ended = check_real("aimock", path=path)
    assert ended.returncode == 1, ended.stderr
    for told in (ended.stdout, ended.stderr):
        approve(lines_with(told, "aimock was not", "the registry is"))
        assert "Traceback" not in told
