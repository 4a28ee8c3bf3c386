"""Crosswind as people start it: a process that a terminal has left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.engine.wire.workplace import VARIABLES

_SOURCE: Final = Path(__file__).parents[3]
PATIENCE_S: Final = 300.0
_HURRIED: Final = """
from dataclasses import fields
from engine.providers.retry import RetryPolicy
hurried = {"tries": 2, "first_pause_s": 0.05, "refused_s": 0.1}
RetryPolicy.__init__.__defaults__ = tuple(
    hurried.get(each.name, each.default) for each in fields(RetryPolicy)
)
from engine.doctor import preflight
assert preflight.LONGEST_S > 1
preflight.LONGEST_S = 1.0
from tui.__main__ import main
main()
"""

_EACH: Final = """
import sys
from tui.__main__ import main
_, asked, *rest = sys.argv
for words in asked.split("|"):
    sys.argv = ["crosswind", *words.split(), *rest]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""


def crosswind_each(root: Path, *commands: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """One after the other in one process, to the first that fails."""
    return _ended([sys.executable, "-c", _EACH, "|".join(map(" ".join, commands))], root)


def crosswind(
    root: Path, *words: str, files: int | None = None, hurried: bool = False
) -> subprocess.CompletedProcess[str]:
    """On the workspace there, with so many open files at most; `hurried`, it tries a call twice
    where it would try for minutes, and waits a second for lists of models."""
    program = ["-c", _HURRIED] if hurried else ["-m", "tui"]
    command = [sys.executable, *program, *words]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    return _ended(command, root)


def _ended(command: Sequence[str], root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command, "--workspace", str(root)],
        cwd=_SOURCE,
        env={**os.environ, **VARIABLES, "XDG_CACHE_HOME": str(root.parent / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
