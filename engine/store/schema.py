"""The schema as it is written: a file for each step, told to a connection by the statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.store.tables import TABLES

STEPS: Final = ("schema.sql", "schema_2.sql", "schema_3.sql", "schema_4.sql")


def take_step(connection: sqlite3.Connection, name: str) -> None:
    """Raises `sqlite3.Error`."""
    for statement in _statements(Path(__file__).with_name(name).read_text("utf-8")):
        connection.execute(statement)


def _statements(script: str) -> Iterator[str]:
    """One by one: SQLite's own way to run a script commits before it begins."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


LAST_SEQ: Final = "SELECT max({}, 0)".format(
    ", ".join(f"coalesce((SELECT max(seq) FROM {table}), 0)" for table in TABLES)
)
