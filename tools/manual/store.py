"""The tables of the store, from the schema: columns as SQLite has them, words as the SQL says."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from typing import Final

from tools.manual.markdown import code, table

_TABLE: Final = re.compile(r"(?:CREATE|ALTER) TABLE (\w+)")
_COLUMN: Final = re.compile(r"(?:ALTER TABLE \w+ ADD COLUMN|   ) ?(\w+) +[A-Z]+[^-]*(?:-- (.*))?$")
_HEADS: Final = ("column", "type", "holds")


def store_reference() -> str:
    """Each table with its columns."""
    said = dict(_said())
    parts = []
    with closing(sqlite3.connect(":memory:")) as database:
        for step in _steps():
            database.executescript(step)
        named = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY rowid"
        for (name,) in database.execute(named).fetchall():
            columns = database.execute("SELECT * FROM pragma_table_info(?)", (name,)).fetchall()
            parts += [f"### `{name}` {{#table-{name}}}", said.get((name, ""), "")]
            rows = [_row(column, said.get((name, column[1]), "")) for column in columns]
            parts.append(table(_HEADS, rows))
    return "\n\n".join(parts)


def _row(column: tuple[int, str, str, int, object, int], said: str) -> tuple[str, str, str]:
    _, name, kind, filled, _, key = column
    may_be_null = "" if filled or key else " or NULL"
    return code(name), kind + may_be_null, said


def _steps() -> list[str]:
    """The schema's steps in order: `schema.sql`, `schema_2.sql`, …"""
    found = [
        path
        for path in files("engine.store").iterdir()
        if path.name.startswith("schema") and path.name.endswith(".sql")
    ]
    found.sort(key=lambda path: int("".join(filter(str.isdigit, path.name)) or 1))
    return [path.read_text("utf-8") for path in found]


def _said() -> Iterator[tuple[tuple[str, str], str]]:
    """What comments say of tables (with no column) and of columns."""
    for step in _steps():
        above: list[str] = []
        within = ""
        for line in step.splitlines():
            if line.startswith("-- "):
                above.append(line.removeprefix("-- "))
                continue
            opened = _TABLE.match(line)
            if opened is not None:
                within = opened[1]
                if line.startswith("CREATE") and above:
                    yield (within, ""), " ".join(above)
            column = _COLUMN.match(line)
            if column is not None and within:
                yield (within, column[1]), column[2] or " ".join(above)
            if line.endswith(";") and not line.startswith("ALTER"):
                within = ""
            if not line.strip() or line.startswith("CREATE"):
                above = []
