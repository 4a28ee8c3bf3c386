"""Ways in which a store comes to harm, each by chance that a seed repeats."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

PAGE: Final = 16384
MUCH: Final = 2**62
"""A number that fits into a row, and of which two do not fit into a sum."""

Damage = Callable[[Path, random.Random], str]
"""Harms the store at a path, and says how."""

_TABLES: Final = (
    "run note state metric scenario take take_end message verdict take_check attempt".split()
)
_JSON: Final = (
    *("run.benchmarks", "metric.examples", "metric.depends", "scenario.landmarks"),
    *("scenario.demographic", "scenario.extra", "scenario.depends", "take.depends"),
    *("verdict.quotes", "verdict.depends", "take_check.answers", "take_check.depends"),
)
_NO_JSON: Final = (
    *('{"a": ', "[[[", "", "nul", "7", "null", '"text"', '[{"turn": "x"}]', '{"turn": 1}'),
    *("[1, 2]", "[" * 200_000, '{"demographic": [{}]}', '[{"text": {}, "turn": 1e999}]'),
)
_WORDS: Final = (
    *("note.kind", "state.stage", "state.state", "metric.track", "scenario.source"),
    *("take_end.stop_reason", "message.speaker", "verdict.track", "take_check.kind"),
    *("attempt.stage", "attempt.role"),
)


def _pages(path: Path) -> int:
    return max(2, path.stat().st_size // PAGE)


def _written(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def _asked(path: Path, statement: str, *values: object) -> list[tuple[object, ...]]:
    """The rows of a statement, which may change something."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        rows = connection.execute(statement, values).fetchall()
        connection.commit()
    return rows


def _column_of_type(path: Path, chance: random.Random, wanted: str) -> str:
    """`table.column`, of a column of this type that holds no number of a row."""
    columns = [
        f"{table}.{name}"
        for table in _TABLES
        for _, name, kind, *_ in _asked(path, f"PRAGMA table_info({table})")
        if kind == wanted and name not in {"seq", *_TABLES}
    ]
    return chance.choice(columns)


def _set(path: Path, chance: random.Random, column: str, value: object) -> str:
    """Give some rows this value; the text `<no UTF-8>` stands for bytes that are none."""
    table, name = column.split(".")
    keys = [seq for (seq,) in _asked(path, f"SELECT seq FROM {table}")]
    chosen = chance.sample(keys, min(len(keys), chance.choice([1, 1, 3])))
    new = "CAST(x'c328ff' AS TEXT)" if value == "<no UTF-8>" else "?1"
    for seq in chosen:
        update = f"UPDATE {table} SET {name} = {new} WHERE seq = ?2 AND ?1 IS NOT NULL"
        try:
            _asked(path, update, value, seq)
        except sqlite3.IntegrityError:
            return f"{column} cannot be {str(value)[:40]!r}"
    return f"{column} of {chosen} is {str(value)[:40]!r}"


def flips(path: Path, chance: random.Random) -> str:
    """The high bits of single bytes, anywhere behind the first page: no text stays text."""
    content = bytearray(path.read_bytes())
    places = [chance.randrange(PAGE, len(content)) for _ in range(chance.choice([1, 4, 16, 64]))]
    for at in places:
        content[at] ^= 0x80
    path.write_bytes(content)
    return f"{len(places)} bits flipped, the first at {places[0]}"


def no_utf8(path: Path, chance: random.Random) -> str:
    return _set(path, chance, _column_of_type(path, chance, "TEXT"), "<no UTF-8>")


def no_json(path: Path, chance: random.Random) -> str:
    return _set(path, chance, chance.choice(_JSON), chance.choice(_NO_JSON))


def unknown_word(path: Path, chance: random.Random) -> str:
    return _set(path, chance, chance.choice(_WORDS), chance.choice(["", "quickly", "\0"]))


def out_of_range(path: Path, chance: random.Random) -> str:
    number = chance.choice([MUCH, -MUCH, -1, 2**63 - 1, -(2**63)])
    return _set(path, chance, _column_of_type(path, chance, "INTEGER"), number)


def no_cost(path: Path, chance: random.Random) -> str:
    return _set(path, chance, "attempt.cost_usd", chance.choice([1e308, float("inf"), -5.0]))


def reference_gone(path: Path, chance: random.Random) -> str:
    """A row that others refer to."""
    table = chance.choice(["scenario", "take", "take_end", "message"])
    among = "seq IN (SELECT scenario FROM take)" if table == "scenario" else "1"
    seq = chance.choice(_asked(path, f"SELECT seq FROM {table} WHERE {among}"))[0]
    _asked(path, f"DELETE FROM {table} WHERE seq = ?", seq)
    return f"{table} {seq} is gone"


def other_text(path: Path, chance: random.Random) -> str:
    value = chance.choice([("text", "something else"), ("digest", chance.randbytes(16))])
    return _set(path, chance, f"message.{value[0]}", value[1])


def cut(path: Path, chance: random.Random) -> str:
    size = path.stat().st_size
    little = chance.choice([0, 1, 16, 99, 100, 512, 4096, 16383, 16384])
    anywhere = chance.choice([chance.randrange(size), chance.randrange(_pages(path)) * PAGE])
    length = chance.choice([little, anywhere])
    os.truncate(path, length)
    return f"cut to {length} bytes"


def pages_overwritten(path: Path, chance: random.Random) -> str:
    pages = chance.sample(range(1, _pages(path)), chance.choice([1, 2, 5]))
    zeros = chance.random() < 0.5
    for page in pages:
        _written(path, page * PAGE, bytes(PAGE) if zeros else chance.randbytes(PAGE))
    return f"{'zeros' if zeros else 'garbage'} in the pages {pages}"


def pages_gone(path: Path, chance: random.Random) -> str:
    """Those behind them move up."""
    page, content = chance.randrange(1, _pages(path)), path.read_bytes()
    path.write_bytes(content[: page * PAGE] + content[(page + 1) * PAGE :])
    return f"page {page} is gone"


def pages_exchanged(path: Path, chance: random.Random) -> str:
    one, other = chance.sample(range(1, _pages(path)), 2)
    content = path.read_bytes()
    _written(path, one * PAGE, content[other * PAGE : (other + 1) * PAGE])
    _written(path, other * PAGE, content[one * PAGE : (one + 1) * PAGE])
    return f"the pages {one} and {other} are exchanged"


def first_page(path: Path, chance: random.Random) -> str:
    """Its beginning, or what the header says: the application's id, the version, the size of a
    page, the number of pages."""
    length = chance.choice([1, 16, 100, PAGE])
    at, value = chance.choice(
        (
            *((0, bytes(length)), (chance.randrange(PAGE), chance.randbytes(1))),
            *((68, b"\0\0\0\1"), (68, bytes(4)), (60, b"\0\0\0\x63"), (60, bytes(4))),
            *((28, b"\0\0\0\1"), (28, b"\x7f\0\0\0"), (18, b"\1\1"), (18, b"\5\5")),
            *((32, b"\0\0\0\3\0\0\0\1"), (52, b"\0\0\0\3"), (20, b"\x20"), (44, b"\0\0\0\x09")),
            *((16, b"\x10\0"), (56, b"\0\0\0\2")),
        )
    )
    _written(path, at, value)
    return f"the first page says {value[:8]!r} at {at}"


def garbage(path: Path, chance: random.Random) -> str:
    content = chance.choice([b"garbage" * 9000, b"\0" * 70_000, chance.randbytes(50_000), b"{}\n"])
    path.write_bytes(content)
    return f"{len(content)} bytes of something else"


def schema_changed(path: Path, chance: random.Random) -> str:
    dropped = ("INDEX verdict_of_take", "TABLE lease", "TABLE summary", "TABLE learned")
    statement = chance.choice(
        [
            *(f"DROP {one}" for one in (*dropped, "TABLE mirrored", "TABLE _sqlite_migrations")),
            "DELETE FROM _sqlite_migrations",
            "ALTER TABLE attempt DROP COLUMN detail",
            "ALTER TABLE note RENAME TO notes",
        ]
    )
    _asked(path, statement)
    return statement


def index_wrong(path: Path, chance: random.Random) -> str:
    """Its entries are not those of its table; each page by itself is right."""
    name = chance.choice(["verdict_of_take", "state_of_unit", "end_of_take"])
    [(sql, root)] = _asked(path, "SELECT sql, rootpage FROM sqlite_schema WHERE name = ?", name)
    table = str(sql).split(" ON ")[1].split()[0]
    gone = chance.choice(_asked(path, f"SELECT seq FROM {table}"))[0]
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
        connection.commit()
    _asked(path, f"DELETE FROM {table} WHERE seq = ?", gone)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        row = ("index", name, table, root, sql)
        connection.execute("INSERT INTO sqlite_schema VALUES (?, ?, ?, ?, ?)", row)
        connection.commit()
    return f"{name} knows {table} {gone}, which is gone"


def no_file(path: Path, chance: random.Random) -> str:
    del chance
    path.unlink()
    return "it is deleted"


def something_else(path: Path, chance: random.Random) -> str:
    """A folder, a pipe, a link or another program's database is in its place."""
    path.unlink()
    match chance.randrange(5):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to(path.name)
        case 3:
            path.symlink_to("gone.db")
        case _:
            _asked(path, "CREATE TABLE theirs (text TEXT)")
    return f"something else is in its place: {path.lstat().st_mode:o}"


# With a log beside it


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def log_cut(path: Path, chance: random.Random) -> str:
    length = chance.randrange(_log(path).stat().st_size)
    os.truncate(_log(path), length)
    return f"the log is cut to {length}"


def log_overwritten(path: Path, chance: random.Random) -> str:
    """Some of its bytes, or all of them."""
    log, at = _log(path), chance.choice([0, chance.randrange(_log(path).stat().st_size)])
    if chance.random() < 0.5:
        _written(log, at, chance.randbytes(4))
    else:
        log.write_bytes(chance.randbytes(chance.choice([1, 31, 32, 40_000])))
    return f"the log is another at {at} of {log.stat().st_size}"


def log_gone(path: Path, chance: random.Random) -> str:
    _log(path).unlink()
    if chance.random() < 0.5:
        _log(path).mkdir()
    return "the log is gone, or a folder"


def memory_of_garbage(path: Path, chance: random.Random) -> str:
    """What SQLite keeps beside the log, to find pages in it."""
    path.with_name(path.name + "-shm").write_bytes(chance.randbytes(chance.choice([1, 32768])))
    return "garbage in -shm"


def harmed_beside_its_log(path: Path, chance: random.Random) -> str:
    return chance.choice([first_page, cut, no_file])(path, chance)


WITHOUT_LOG: Final[tuple[Damage, ...]] = (
    *(flips, no_utf8, no_json, unknown_word, out_of_range, no_cost, reference_gone, other_text),
    *(cut, pages_overwritten, pages_gone, pages_exchanged, first_page, garbage, schema_changed),
    *(index_wrong, no_file, something_else),
)
WITH_LOG: Final[tuple[Damage, ...]] = (
    *(log_gone, log_cut, log_overwritten, memory_of_garbage, harmed_beside_its_log),
)
KINDS: Final = (*WITHOUT_LOG, *WITH_LOG)
