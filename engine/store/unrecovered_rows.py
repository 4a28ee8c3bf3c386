"""Keeps in a file the rows of a damaged store that could not be put into the recovered store."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
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
"""The columns by which a row is recognised within a take, as its number may have changed. A damaged
verdict is compared without its justification, which may not be what was stored."""


class LeftOutRows:
    """A file with a line for each row: its table, why it was left out, and what can be read of it.
    It is created with the first row, readable by this user only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: Counter[str] = Counter()
        """The number of rows by table."""
        self._file: TextIOWrapper | None = None

    def add(self, table: str, row: Mapping[str, object], why: str) -> None:
        """Append a row, whose text may be bytes, even bytes that are not UTF-8. Raises
        `StoreError`."""
        values = {name: _readable(name, value) for name, value in row.items()}
        line = json.dumps({"table": table, "why": why, "row": values}, ensure_ascii=False)
        with _write_errors(self.path):
            if self._file is None:
                # O_EXCL: never into a file or link that somebody else created; 0o600: it holds what
                # was said
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                self._file = os.fdopen(os.open(self.path, flags, 0o600), "w", encoding="utf-8")
            self._file.write(f"{line}\n")
        self.rows[table] += 1

    def close(self) -> None:
        """Close the file after it is synced to disk. Raises `StoreError`."""
        if self._file is None:
            return
        with _write_errors(self.path), self._file:
            self._file.flush()
            # before the damaged store is replaced: from then on these rows are only here
            os.fsync(self._file.fileno())
        self._file = None


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
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


def without_what_is_there(left_out: Path, store: Path, recovered: int) -> Counter[str]:
    """Remove from such a file the rows that a store has by now, and return how many are left of
    each table. A file without any is deleted. Rows after number `recovered` came from the files.
    Raises `StoreError` and `sqlite3.Error`."""
    by_take: dict[Hashable, set[_Key]] = {}
    for line in _lines(left_out):
        if key := _key(line):
            by_take.setdefault(line["row"]["take"], set()).add(key)
    there = _rows_in_store(by_take, store, recovered)
    # a take's end is kept only while another row of that take is still left out
    incomplete = {take for take, keys in by_take.items() if keys - there.get(take, set())}
    fewer = LeftOutRows(left_out.with_name(left_out.name + ".new"))
    with _write_errors(fewer.path):
        fewer.path.unlink(missing_ok=True)  # of a repair that was killed here
    for line in _lines(left_out):
        take = line["row"].get("take")
        is_there = (
            take not in incomplete
            if line["table"] == "take_end"
            else _key(line) in there.get(take, set())
        )
        if not is_there:
            fewer.add(line["table"], line["row"], line["why"])
    fewer.close()
    with _write_errors(left_out):
        if fewer.rows:
            fewer.path.replace(left_out)
        else:
            left_out.unlink()
    return fewer.rows


def _rows_in_store(
    by_take: Mapping[Hashable, AbstractSet[_Key]], store: Path, recovered: int
) -> Mapping[Hashable, AbstractSet[_Key]]:
    """Return the rows that the store has too, by the take that they had.

    The same words, or a verdict of the same moment, may be in another conversation. So a row is
    there only if its own take has it, or one that came from the files for the same conversation.
    Of a lost take nobody knows the conversation: then the take from the files counts that has most
    of its rows.
    """
    wanted = set().union(*by_take.values())
    takes_with: dict[_Key, set[int]] = {}
    with closing(raw_connection(store, "mode=ro")) as connection:
        for table, columns in _WHAT_IT_SAYS:
            rows = connection.execute(f"SELECT take, {columns} FROM {table}")
            for take, *row in rows:
                if (key := (table, *row)) in wanted:
                    takes_with.setdefault(key, set()).add(take)
        rows = connection.execute("SELECT seq, benchmark, scenario_id, target, sample FROM take")
        conversations = {take: tuple(conversation) for take, *conversation in rows}
    stored: dict[Hashable, AbstractSet[_Key]] = {}
    for take, keys in by_take.items():
        # a number that is free after the recovery may be that of another take from the files
        own = conversations.get(take) if isinstance(take, int) and take <= recovered else None
        candidates = Counter(
            other
            for key in keys
            for other in takes_with.get(key, ())
            if other == take or (other > recovered and own in {None, conversations[other]})
        )
        for best, _ in candidates.most_common(1):
            stored[take] = {key for key in keys if best in takes_with.get(key, ())}
    return stored


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
            reason = None if line["why"] == DAMAGED else row["justification"]
            return ("verdict", row["metric_id"], row["judge"], row["number"], row["at"], reason)
        case "take_check":
            return ("take_check", row["kind"], row["model"], row["at"])
    return None
