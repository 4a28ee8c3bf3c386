"""When names of models end, as the providers' own clients say; the table is made by
`tools/model_ends.py`, and no client is loaded for it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

TABLE: Final = Path(__file__).with_name("model_ends.txt")
SOURCES: Final = frozenset({"openai", "anthropic"})
"""The sources whose clients say it, of models at their own addresses."""


class ModelEnd(NamedTuple):
    day: str
    """As `2027-01-14`."""
    told_by: str
    """The client that says so, with its version."""


def model_end(source: str, name: str) -> ModelEnd | None:
    """When a source stops to serve a model, or has stopped; None if that is not known."""
    return _ends().get((source, name)) if source in SOURCES else None


@cache
def _ends() -> dict[tuple[str, str], ModelEnd]:
    ends: dict[tuple[str, str], ModelEnd] = {}
    told_by = ""
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            told_by = line.removeprefix("# ")
        else:
            source, name, day = line.split()
            ends[source, name] = ModelEnd(day, told_by)
    return ends
