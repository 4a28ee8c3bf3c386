"""A command as a shell would give it, carried out in the test's own process."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from engine.cli.main import main


class Said(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err

    @property
    def words(self) -> str:
        """All of it in one line, wherever it was wrapped."""
        return " ".join(self.text.split())

    def json(self) -> Any:
        return json.loads(self.out)


Crosswind = Callable[..., Said]
"""Carries out the words of a command on some workspace."""


class Somebody(io.StringIO):
    """Who types this at a terminal, as standard input."""

    def isatty(self) -> bool:
        return True


def crosswind(root: Path, *words: str) -> Said:
    """On the workspace `root`."""
    return _said(*words, "--workspace", str(root))


def crosswind_in(folder: Path, *words: str) -> Said:
    """In a folder, on the workspace that it belongs to."""
    with chdir(folder):
        return _said(*words)


def _said(*words: str) -> Said:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*words])
    return Said(code, out.getvalue(), err.getvalue())
