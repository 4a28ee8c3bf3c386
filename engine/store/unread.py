"""Results that lie in the mirrored files while the store, which should hold them, is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engine.store.health import is_empty

_RESULTS: Final = (
    "runs/*/conversations.json",
    "runs/*/history.jsonl",
    "history.jsonl",
    "validation/*/runs/*/conversations.json",
)
"""What a run leaves beside what a person writes."""


def unread_results(benchmarks: Path, store: Path) -> list[str]:
    """Names of the benchmarks in this folder that have results in their files, where there is no
    store or nothing in it; none of a store that cannot be read, which is told elsewhere."""
    try:
        if store.exists() and not is_empty(store):
            return []
        folders = sorted(one for one in benchmarks.iterdir() if one.is_dir())
        return [one.name for one in folders if any(_has(one, pattern) for pattern in _RESULTS)]
    except OSError:
        return []


def _has(folder: Path, pattern: str) -> bool:
    return any(path.is_file() for path in folder.glob(pattern))


def unread_words(names: list[str], store: Path) -> str:
    """What is the matter, for people."""
    one = len(names) == 1
    which = f"`{names[0]}`" if one else f"{len(names)} benchmarks, `{names[0]}` first,"
    files = "files of" if one else "the files of"
    return (
        f"{store} is missing or empty, but {files} {which} hold what was run here: "
        "`crosswind repair` makes the store again from them, asks no model and costs nothing"
    )
