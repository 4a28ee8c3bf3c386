"""The errors that Crosswind raises on purpose, by who can do something about them.

The edge (`engine.cli`, the app) catches `CrosswindError`, prints its message and exits with its
exit code. Any other exception that escapes is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

# Exit codes without an error; each error class has its own.
DONE: Final = 0
FAILED: Final = 1
"""Came to its end, but some rows failed or a gate was missed."""
REFUSED: Final = 2
"""Not begun, because something is wrong."""
STOPPED: Final = 3
"""Stopped before its end; can be resumed."""


class CrosswindError(Exception):
    """The base class. `str()` gives the whole message for people."""

    exit_code = REFUSED


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where."""

    what: str
    """One sentence: what was found and what was expected."""
    path: Path | None = None
    line: int | None = None
    """1-based."""
    column: int | None = None
    """1-based."""
    key: str | None = None
    """Dotted path of the configuration key, such as `targets[0].id`."""
    hint: str | None = None
    """What to do about it."""

    def __str__(self) -> str:
        place = "" if self.path is None else str(self.path)
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        parts = [part for part in (place, self.key, self.what) if part]
        text = ": ".join(parts)
        return text if self.hint is None else f"{text} ({self.hint})"


def merged_problems(problems: Iterable[Problem]) -> list[Problem]:
    """The problems, with one for all keys of which the same is said."""
    keys: dict[Problem, dict[str, None]] = {}
    for problem in problems:
        keys.setdefault(replace(problem, key=None), {})[problem.key or ""] = None
    return [replace(problem, key=", ".join(of) or None) for problem, of in keys.items()]


class InputError(CrosswindError):
    """A file, an option or a name that a person gave is wrong. Carries every problem found."""

    def __init__(self, problems: Sequence[Problem] | Problem | str) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        if isinstance(problems, Problem):
            problems = [problems]
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class StoreError(CrosswindError):
    """The store cannot be opened or written: damaged, of a newer version, or not permitted."""


class DamagedError(StoreError):
    """Data read from the store fails its integrity check."""


class WorkspaceBusyError(CrosswindError):
    """Another engine holds this workspace."""

    exit_code = 4


class ModelError(CrosswindError):
    """A call to a model gave no answer.

    `retryable` says whether the same call may succeed later. In either case the row that asked
    fails with this message, and stays visible.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class AnswerError(ModelError):
    """A model answered, but not in the requested shape, and the repeated requests are used up."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)


class UnfitAnswerError(AnswerError):
    """All answers of a model were in another form, or said what they must not."""


class StopRequested(Exception):  # noqa: N818  (not an error: the run was asked to stop)
    """Raised where something would begin or go on in a run that has been asked to stop."""
