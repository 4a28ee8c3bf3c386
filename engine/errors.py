"""Every error that Crosswind raises on purpose, split by whose fault it is and what to do next.

The edge (`engine.cli`, the app) catches `CrosswindError`, prints its message and leaves with its
exit code. Nothing else is expected; what escapes is a bug.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# Exit codes of what ends without an error; that of an error stands with its class.
DONE: Final = 0
FAILED: Final = 1
"""It came to its end, and some rows failed or a gate was missed."""
STOPPED: Final = 3
"""It stopped before its end, and can be resumed."""


class CrosswindError(Exception):
    """The root. `str()` of it is the whole message a person reads."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, with its place."""

    what: str
    """What was found and what was expected, one sentence."""
    path: Path | None = None
    line: int | None = None
    """1-based."""
    column: int | None = None
    """1-based."""
    key: str | None = None
    """Dotted path of the key, such as `targets[0].id`."""
    hint: str | None = None
    """What to do about it."""

    def __str__(self) -> str:
        place = "" if self.path is None else str(self.path)
        if self.line is not None:
            place += f":{self.line}" if self.column is None else f":{self.line}:{self.column}"
        parts = [part for part in (place, self.key, self.what) if part]
        text = ": ".join(parts)
        return text if self.hint is None else f"{text} ({self.hint})"


class InputError(CrosswindError):
    """A file, an option or a name that a person gave is wrong. Holds every problem found."""

    def __init__(self, problems: Sequence[Problem] | Problem | str) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        if isinstance(problems, Problem):
            problems = [problems]
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class StoreError(CrosswindError):
    """The store cannot be opened or written: damaged, newer than this program, or no permission."""


class DamagedError(StoreError):
    """What is read from the store is not what was written into it."""


class WorkspaceBusyError(CrosswindError):
    """Another engine holds this workspace."""

    exit_code = 4


class ModelError(CrosswindError):
    """A call to a model did not give an answer.

    `retryable` says whether the same call may succeed later; the row that asked fails with this
    message either way and stays visible.
    """

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class AnswerError(ModelError):
    """A model answered, but not in the shape that was asked for, as often as it was asked."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=True)
