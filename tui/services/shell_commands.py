"""Commands that do outside the app what stands on a screen of it: to be copied, for a script."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tui.state.related import Subject


class ShellCommand(NamedTuple):
    """A command of `crosswind`, without that word."""

    key: str
    """One letter, to choose it by."""
    words: tuple[str, ...]

    def line(self, workspace: Path) -> str:
        """Whole, and to be run where one is."""
        words = ["crosswind", *self.words]
        if workspace.resolve() != Path.cwd():
            words += ["--workspace", str(workspace)]
        return shlex.join(words)


def showing(subject: Subject) -> ShellCommand:
    """The command that prints this conversation."""
    words = ("show", str(subject.key), "--benchmark", subject.benchmark)
    return ShellCommand("c", words)


def judging_again(
    subjects: Sequence[Subject], evaluator: str | None = None
) -> Sequence[ShellCommand]:
    """Where all of them are of one benchmark, as the command takes no others."""
    benchmarks = {subject.benchmark for subject in subjects}
    if len(benchmarks) != 1:
        return ()
    words = ("evaluate", *(str(subject.key) for subject in subjects))
    by = () if evaluator is None else ("--evaluator", evaluator)
    command = (*words, "--benchmark", *benchmarks, *by)
    return (ShellCommand("r", command),)
