"""A command as a shell would give it, carried out in the test's own process."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

from jsonschema import Draft202012Validator

from engine.cli.main import main
from engine.config.schemas import SCHEMAS

_SHAPES: Final[dict[str, Any]] = json.loads((SCHEMAS / "output.json").read_text("utf-8"))
_SHAPE: Final = {
    one["properties"]["shape"]["const"]: Draft202012Validator(
        {**_SHAPES, "oneOf": [one]}  # of all of them a fault would be told badly
    )
    for one in _SHAPES["oneOf"]
}


def printed_data(text: str) -> Any:
    """The data of what `--json` printed, which must be of its shape."""
    whole = json.loads(text)
    for fault in _SHAPE[whole["shape"]].iter_errors(whole):
        leaf = fault.context[0] if fault.context else fault
        raise AssertionError(f"{whole['shape']}, {leaf.json_path}: {leaf.message[:500]}")
    return whole["data"]


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
        """The data that `--json` printed."""
        return printed_data(self.out)


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
