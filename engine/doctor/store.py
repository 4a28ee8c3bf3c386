"""Findings about the store: whether it exists, is sound and in a good place, and who uses it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.config.schema import Config
from engine.config.workspace import BENCHMARKS_FOLDER
from engine.doctor.findings import Area, Diagnostic, Severity
from engine.errors import StoreError
from engine.pipeline.order import budget_words
from engine.store.filesystem import Mounts, current_mounts, file_system, log_of, refuse_network
from engine.store.integrity import (
    LONGEST_S,
    amount_faults,
    faults,
    lost_its_log,
    lost_store,
    spent_usd,
)
from engine.store.lock import workspace_holder
from engine.store.open_reader import refuse_unfit

LARGE_LOG: Final = 256 * 1024**2
"""Bytes. The log is checkpointed long before this, unless a reader keeps an old state open."""
LITTLE_SPACE: Final = 1024**3
NO_SPACE: Final = 64 * 1024**2


def store_findings(
    path: Path, root: Path, *, mounts: Mounts | None = None, free: int | None = None
) -> list[Diagnostic]:
    """All findings. `mounts` and `free` (bytes) default to the system's own."""
    return [
        *(_unread(path, root) or _store(path, root)),
        *_filesystem_diagnostics(path, current_mounts() if mounts is None else mounts),
        *_space(path, free),
        _holder_diagnostic(root),
    ]


def _unread(path: Path, root: Path) -> list[Diagnostic]:
    lost = lost_store(root / BENCHMARKS_FOLDER, path)
    return [] if lost is None else [_finding("store", Severity.PROBLEM, lost.what, lost.hint)]


def _store(path: Path, root: Path) -> Iterator[Diagnostic]:
    try:
        refuse_unfit(path)
    except StoreError as error:
        yield _finding("store", Severity.PROBLEM, str(error))
        return
    if not path.exists():
        yield _absent_diagnostic(path, root)
        return
    try:
        damage = faults(path, longest_s=LONGEST_S)
    except StoreError as error:
        yield _finding("store", Severity.PROBLEM, str(error))
        return
    size = size_words(path.stat().st_size)
    if damage:
        yield _finding(
            "store",
            Severity.PROBLEM,
            f"{path} is damaged: {'; '.join(damage)}",
            "`crosswind repair` puts it aside, and saves what can be read of it and what the files "
            "under benchmarks/ hold",
        )
    # no result within the time limit: neither sound nor damaged
    elif damage is None:
        sentence = f"{path}, {size}: no damage found, but it is too large to be checked completely"
        yield _finding("store", Severity.NOTE, sentence)
    elif lost_its_log(path):
        yield _finding(
            "store",
            Severity.PROBLEM,
            f"{path} came without its log {path.name}-wal, and the last engine did not close it: "
            "what was written last may be missing",
            "put the log back beside it; or `crosswind repair` fills in what the files under "
            "benchmarks/ hold",
        )
    elif amounts := amount_faults(path):
        remedy = "`crosswind repair` makes these amounts unknown"
        yield _finding("store", Severity.PROBLEM, f"{path} is damaged: {amounts[0]}", remedy)
    else:
        yield _finding("store", Severity.OK, f"{path}, {size}, no damage found")
    yield from _log(log_of(path))


def _absent_diagnostic(path: Path, root: Path) -> Diagnostic:
    """A problem where traces of earlier runs are left."""
    log = log_of(path)
    # files of conversations are copies from a store, so there was one
    left = next((root / "benchmarks").glob("*/runs/*/*.json"), None)
    if log.exists() and (not log.is_file() or log.stat().st_size):
        left = log
    if left is None:
        sentence = f"{path} does not exist yet: nothing was run here so far"
        return _finding("store", Severity.OK, sentence)
    return _finding(
        "store",
        Severity.PROBLEM,
        f"{path} is gone, but {left} is left of what was run",
        "`crosswind repair` makes it again from what is left; or put it back",
    )


def _log(path: Path) -> Iterator[Diagnostic]:
    if not path.exists():
        return
    size = path.stat().st_size
    if size < LARGE_LOG:
        yield _finding("log", Severity.OK, f"{path.name}, {size_words(size)}")
        return
    yield _finding(
        "log",
        Severity.NOTE,
        f"{path.name} has grown to {size_words(size)}: something reads an old state of the store",
        "close programs that have it open; the next run folds it in",
    )


def _filesystem_diagnostics(path: Path, mounts: Mounts) -> Iterator[Diagnostic]:
    try:
        refuse_network(path, mounts)
    except StoreError as error:
        yield _finding("place", Severity.PROBLEM, str(error))
        return
    folder = path.parent
    if not folder.is_dir():
        sentence = f"{folder} is not a folder: the store would be {path.name} in it"
        yield _finding(
            "place", Severity.PROBLEM, sentence, "make it, or change `store` in config.yaml"
        )
        return
    closed = [place for place in (folder, path) if place.exists() and not os.access(place, os.W_OK)]
    if closed:
        sentence = f"{closed[0]} cannot be written by this user: no run can store anything"
        yield _finding(
            "place",
            Severity.PROBLEM,
            sentence,
            "change who may write there, or write `store: PATH` in config.yaml",
        )
        return
    kind = file_system(path, mounts)
    words = "" if kind is None else f", and is on a local disk ({kind})"
    yield _finding("place", Severity.OK, f"{folder} can be written{words}")


def _space(path: Path, free: int | None) -> Iterator[Diagnostic]:
    if free is None:
        folder = next((parent for parent in path.parents if parent.is_dir()), Path("/"))
        try:
            free = shutil.disk_usage(folder).free
        except OSError as error:
            sentence = f"how much is free cannot be told: {error.strerror or 'unknown reason'}"
            yield _finding("space", Severity.NOTE, sentence)
            return
    sentence = f"{size_words(free)} free"
    if free >= LITTLE_SPACE:
        yield _finding("space", Severity.OK, sentence)
        return
    state = Severity.PROBLEM if free < NO_SPACE else Severity.NOTE
    remedy = "make room, or write `store: PATH` in config.yaml with a path on another disk"
    yield _finding("space", state, f"only {sentence}", remedy)


def _holder_diagnostic(root: Path) -> Diagnostic:
    holder = workspace_holder(root)
    if holder is None:
        return _finding("engine", Severity.OK, "nobody works on this workspace now")
    sentence = f"{holder} works on this workspace: another run has to wait for it"
    return _finding("engine", Severity.NOTE, sentence)


def size_words(size: int) -> str:
    """A number of bytes in a readable unit."""
    number = float(size)
    for unit in ("bytes", "KB", "MB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GB"


def _finding(subject: str, state: Severity, sentence: str, remedy: str | None = None) -> Diagnostic:
    return Diagnostic(Area.STORE, subject, state, sentence, remedy)


def budget_findings(config: Config, store: Path) -> list[Diagnostic]:
    """A finding for each budget; empty where none is set."""
    words = list(budget_words(config, spent_usd(store) if store.exists() else 0.0))
    return [Diagnostic(Area.CONFIGURATION, "budget", Severity.OK, word) for word in words]
