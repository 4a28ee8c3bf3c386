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


class Printed(io.StringIO):
    """What goes to a stream of a terminal of today."""

    encoding = "utf-8"


def crosswind(root: Path, *words: str, code: int | None = None) -> Said:
    """On the workspace `root`; must end with this code, where one is given."""
    return command(*words, "--workspace", str(root), code=code)


def crosswind_in(folder: Path, *words: str) -> Said:
    """In a folder, on the workspace that it belongs to."""
    with chdir(folder):
        return command(*words)


def command(*words: str, code: int | None = None) -> Said:
    """These words, and no workspace beside them."""
    out, err = Printed(), Printed()
    with redirect_stdout(out), redirect_stderr(err):
        ended = main([*words])
    said = Said(ended, out.getvalue(), err.getvalue())
    assert code in {None, ended}, (words, said)
    return said
