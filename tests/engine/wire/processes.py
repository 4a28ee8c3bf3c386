"""Crosswind as people start it: a process that a terminal has left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.engine.wire.workplace import VARIABLES

_SOURCE: Final = Path(__file__).parents[3]
PATIENCE_S: Final = 300.0
_HURRIED: Final = """
from engine.providers import accounts, course
accounts.Patience = lambda: course.Patience(tries=2, first_pause_s=0.05, refused_s=0.1)
from tui.__main__ import main
main()
"""


def crosswind(
    root: Path, *words: str, files: int | None = None, hurried: bool = False
) -> subprocess.CompletedProcess[str]:
    """On the workspace there, with so many open files at most; `hurried`, it tries a call twice
    where it would try for minutes."""
    program = ["-c", _HURRIED] if hurried else ["-m", "tui"]
    command = [sys.executable, *program, *words, "--workspace", str(root)]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    return subprocess.run(
        command,
        cwd=_SOURCE,
        env={**os.environ, **VARIABLES, "XDG_CACHE_HOME": str(root.parent / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
