"""The schema as it is written: a file for each step, told to a connection by the statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

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


TABLES: Final = {
    "run": "benchmarks config version host pid",
    "note": "kind benchmark stage text",
    "state": "benchmark stage unit target was state reason",
    "metric": "benchmark metric_id name track definition examples source depends",
    "scenario": "benchmark scenario_id metric_id persona user_goal latent_goal landmarks "
    "demographic system_prompt extra source removed depends",
    "take": "benchmark scenario_id target sample number scenario user_model model scripted depends",
    "take_end": "take stop_reason finished detail",
    "message": "take turn speaker text thought landmark done finish reasoning digest served_by",
    "verdict": "take metric_id track judge source number present passed unscored justification "
    "quotes counted_before counted depends served_by",
    "attempt": "benchmark stage unit target role model outcome status duration_ms input_tokens "
    "cached_tokens output_tokens cost_usd detail first_token_ms served other route reported",
    "learned": "model step dropped",
}
"""The tables that share one rising `seq`, each with its columns behind `seq` and `at`."""

LAST_SEQ: Final = "SELECT max({}, 0)".format(
    ", ".join(f"coalesce((SELECT max(seq) FROM {table}), 0)" for table in TABLES)
)
