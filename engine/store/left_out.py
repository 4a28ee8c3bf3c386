"""Rows of a damaged store that have no place in the one that is saved from it, kept in a file."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from engine.errors import StoreError
from engine.store.connection import raw_connection

DAMAGED: Final = "it cannot be read as it was stored"

_Key = tuple[Hashable, ...]

_WHAT_IT_SAYS: Final = (
    ("message", "turn, speaker, lower(hex(digest))"),
    ("verdict", "metric_id, judge, number, at, justification"),
    ("verdict", "metric_id, judge, number, at, NULL"),
    ("take_check", "kind, model, at"),
)
"""By what a row is known again whose number and conversation may be others; what is said in a
damaged verdict is not what was stored."""


class LeftOutRows:
    """A line for each row: its table, why it is left out, and what can be read of it. The file is
    made with the first of them, for this user alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: Counter[str] = Counter()
        """How many of each table."""
        self._file: TextIOWrapper | None = None

    def add(self, table: str, row: Mapping[str, object], why: str) -> None:
        """In `row` text may be bytes, which need not be text any more. Raises `StoreError`."""
        said = {name: _readable(name, value) for name, value in row.items()}
        line = json.dumps({"table": table, "why": why, "row": said}, ensure_ascii=False)
        with _told(self.path):
            if self._file is None:
                # O_EXCL: never into a file or a link that somebody else made; for this user alone,
                # as it holds what was said
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                self._file = os.fdopen(os.open(self.path, flags, 0o600), "w", encoding="utf-8")
            self._file.write(f"{line}\n")
        self.rows[table] += 1

    def close(self) -> None:
        """Once it is on disk. Raises `StoreError`."""
        if self._file is None:
            return
        with _told(self.path), self._file:
            self._file.flush()
            # before the damaged store is replaced: these rows are nowhere else then
            os.fsync(self._file.fileno())
        self._file = None


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{path} could not be written: {error.strerror or error}; make room beside the store, "
            "and try again"
        ) from error


def _readable(name: str, value: object) -> object:
    if not isinstance(value, bytes):
        return value
    return value.hex() if name == "digest" else value.decode(errors="replace")


def without_what_is_there(left_out: Path, store: Path) -> Counter[str]:
    """Take from a file of such rows those that a store holds by now; how many are left of each
    table. A file of which none is left is deleted. Raises `StoreError` and `sqlite3.Error`."""
    there = _there({key for one in _lines(left_out) if (key := _key(one))}, store)
    # the end of a conversation of which all else is back says nothing
    gone = {
        one["row"]["take"]
        for one in _lines(left_out)
        if one["table"] in {"message", "verdict", "take_check"} and _key(one) not in there
    }
    fewer = LeftOutRows(left_out.with_name(left_out.name + ".new"))
    for one in _lines(left_out):
        is_there = (
            one["row"]["take"] not in gone if one["table"] == "take_end" else _key(one) in there
        )
        if not is_there:
            fewer.add(one["table"], one["row"], one["why"])
    fewer.close()
    with _told(left_out):
        if fewer.rows:
            fewer.path.replace(left_out)
        else:
            left_out.unlink()
    return fewer.rows


def _there(wanted: set[_Key], store: Path) -> set[_Key]:
    found: set[_Key] = set()
    with closing(raw_connection(store, "mode=ro")) as connection:
        for table, columns in _WHAT_IT_SAYS:
            rows = connection.execute(f"SELECT {columns} FROM {table}")
            found |= {key for row in rows if (key := (table, *row)) in wanted}
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _key(line: Mapping[str, Any]) -> _Key | None:
    row = line["row"]
    match line["table"]:
        case "message":
            return ("message", row["turn"], row["speaker"], row["digest"])
        case "verdict":
            said = None if line["why"] == DAMAGED else row["justification"]
            return ("verdict", row["metric_id"], row["judge"], row["number"], row["at"], said)
        case "take_check":
            return ("take_check", row["kind"], row["model"], row["at"])
    return None
