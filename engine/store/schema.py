"""The schema as it is written, a file for each step; and the parts of questions that several
modules share, in which `t` is the take and `v` the newest verdict on it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.checks import CheckKind
from engine.jury import TIED
from engine.store.tables import TABLES

STEPS: Final = ("schema.sql", *(f"schema_{number}.sql" for number in range(2, 11)))


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
CONV_ID: Final = (
    "scenario_id || '__' || target || CASE WHEN sample THEN '__s' || sample ELSE '' END"
)
"""As it is written for an index, which knows no other form."""
NEWER_FINISHED: Final = (
    "SELECT 1 FROM take n JOIN take_end f ON f.take = n.seq AND f.finished = 1 "
    "WHERE n.benchmark = t.benchmark AND n.scenario_id = t.scenario_id "
    "AND n.target = t.target AND n.sample = t.sample AND n.number > t.number"
)
TAKES_WITH_ENDS: Final = (
    "FROM take t LEFT JOIN take_end e ON e.seq = (SELECT max(seq) FROM take_end WHERE take = t.seq)"
)
"""`e` is the newest end of a take: one that was interrupted and goes on has several."""
CHECKED_LANDMARKS: Final = f"kind = '{CheckKind.LANDMARKS}' AND unusable IS NULL"
"""Of a check of landmarks that can be used."""
TURNS: Final = "(SELECT count(*) FROM message m WHERE m.take = t.seq AND m.speaker = 'assistant')"

# with `IS`, a verdict that is unscored finds those that are unscored
SPEAKS: Final = (
    "coalesce((SELECT seq FROM verdict WHERE take = t.seq AND passed IS v.counted"
    " ORDER BY source = 'human', seq DESC LIMIT 1), v.seq)"
)
"""The verdict in whose words it is told what counts: the newest of that opinion, a judge's where
there is one. What a person labelled is nobody's to read beside it."""


def outcome(said: str = "v") -> str:
    """What counts, as `passed` and `unscored`; the reason is that of another verdict, if named."""
    return (
        "v.counted AS passed, CASE WHEN v.counted IS NULL "
        f"THEN coalesce(nullif({said}.unscored, ''), '{TIED}') END AS unscored"
    )
