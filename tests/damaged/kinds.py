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

_TEXTS: Final = {
    "run": "benchmarks config version host",
    "note": "kind benchmark text",
    "state": "benchmark stage unit state",
    "metric": "benchmark metric_id name track definition examples source",
    "scenario": "benchmark scenario_id metric_id persona user_goal latent_goal landmarks "
    "demographic extra source",
    "take": "benchmark scenario_id target user_model model",
    "take_end": "stop_reason",
    "message": "speaker text finish",
    "verdict": "metric_id track judge source justification quotes",
    "take_check": "kind model answers",
    "attempt": "benchmark stage unit role model outcome",
    "mirrored": "path digest",
    "summary": "progress",
}
_MAYBE_TEXTS: Final = {
    "note": "stage",
    "state": "target was reason",
    "metric": "depends",
    "scenario": "system_prompt depends",
    "take": "depends",
    "take_end": "detail",
    "message": "thought landmark reasoning",
    "verdict": "unscored depends",
    "take_check": "unusable depends",
    "attempt": "target detail",
}
_JSON: Final = {
    "run": "benchmarks",
    "metric": "examples depends",
    "scenario": "landmarks demographic extra depends",
    "take": "depends",
    "verdict": "quotes depends",
    "take_check": "answers depends",
    "summary": "progress",
}
_NO_JSON: Final = (
    *('{"a": ', "[[[", "", "nul", "7", "null", '"text"', '[{"turn": "x"}]', '{"turn": 1}'),
    *("[1, 2]", "[" * 200_000, '{"demographic": [{}]}', '[{"text": {}, "turn": 1e999}]'),
)
_WORDS: Final = {
    "note": "kind",
    "state": "stage state was",
    "metric": "track source",
    "scenario": "source",
    "take_end": "stop_reason",
    "message": "speaker",
    "verdict": "track source",
    "take_check": "kind",
    "attempt": "stage role",
}
_NUMBERS: Final = {
    "run": "at pid",
    "note": "at",
    "state": "at",
    "metric": "at",
    "scenario": "at removed",
    "take": "at sample number scripted",
    "take_end": "at finished",
    "message": "at turn done",
    "verdict": "at number present passed counted counted_before",
    "attempt": "at status duration_ms first_token_ms input_tokens cached_tokens output_tokens",
}
_REFERENCES: Final = ("scenario", "take", "take_end", "message")


def _pages(path: Path) -> int:
    return max(2, path.stat().st_size // PAGE)


def _written(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def _changed(path: Path, statement: str, *values: object) -> int:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        count = connection.execute(statement, values).rowcount
        connection.commit()
    return count


def _set(path: Path, chance: random.Random, table: str, column: str, value: object) -> str:
    key = {"mirrored": "path", "summary": "one"}.get(table, "seq")
    with closing(sqlite3.connect(path)) as connection:
        keys = [one for (one,) in connection.execute(f"SELECT {key} FROM {table}")]
    if not keys:
        return f"no row in {table}"
    chosen = chance.sample(keys, min(len(keys), chance.choice([1, 1, 3])))
    for one in chosen:
        try:
            _changed(path, f"UPDATE {table} SET {column} = ? WHERE {key} = ?", value, one)
        except sqlite3.IntegrityError:
            return f"{table}.{column} cannot be {str(value)[:40]!r}"
    return f"{table}.{column} of {chosen} is {str(value)[:40]!r}"


def _column(chance: random.Random, among: dict[str, str]) -> tuple[str, str]:
    return chance.choice([(table, one) for table, some in among.items() for one in some.split()])


def flips(path: Path, chance: random.Random) -> str:
    """The high bits of single bytes, anywhere behind the first page: no text stays text."""
    places = [
        chance.randrange(PAGE, path.stat().st_size) for _ in range(chance.choice([1, 4, 16, 64]))
    ]
    for at in places:
        with path.open("rb") as file:
            file.seek(at)
            byte = file.read(1)[0]
        _written(path, at, bytes([byte ^ 0x80]))
    return f"{len(places)} bits flipped, the first at {places[0]}"


def flips_in_the_first_page(path: Path, chance: random.Random) -> str:
    place = chance.choice([chance.randrange(100), chance.randrange(100, PAGE)])
    _written(path, place, bytes([chance.randrange(256)]))
    return f"byte {place} is another"


def no_utf8(path: Path, chance: random.Random) -> str:
    """A column of text whose bytes are none."""
    table, column = _column(chance, _TEXTS)
    key = {"mirrored": "path", "summary": "one"}.get(table, "seq")
    with closing(sqlite3.connect(path)) as connection:
        keys = [one for (one,) in connection.execute(f"SELECT {key} FROM {table}")]
    if not keys:
        return f"no row in {table}"
    chosen = chance.choice(keys)
    cast = f"CAST(x'ff' || substr(CAST({column} AS BLOB), 2) AS TEXT)"
    _changed(path, f"UPDATE {table} SET {column} = {cast} WHERE {key} = ?", chosen)
    return f"{table}.{column} of {chosen} is no UTF-8"


def no_utf8_where_text_may_be_missing(path: Path, chance: random.Random) -> str:
    table, column = _column(chance, _MAYBE_TEXTS)
    statement = f"UPDATE {table} SET {column} = CAST(x'c328ff' AS TEXT) WHERE seq = ?"
    with closing(sqlite3.connect(path)) as connection:
        keys = [one for (one,) in connection.execute(f"SELECT seq FROM {table}")]
    if not keys:
        return f"no row in {table}"
    chosen = chance.choice(keys)
    _changed(path, statement, chosen)
    return f"{table}.{column} of {chosen} is no UTF-8"


def no_json(path: Path, chance: random.Random) -> str:
    return _set(path, chance, *_column(chance, _JSON), chance.choice(_NO_JSON))


def unknown_word(path: Path, chance: random.Random) -> str:
    return _set(path, chance, *_column(chance, _WORDS), chance.choice(["", "quickly", "\0"]))


def out_of_range(path: Path, chance: random.Random) -> str:
    number = chance.choice([MUCH, -MUCH, -1, 2**63 - 1, -(2**63)])
    return _set(path, chance, *_column(chance, _NUMBERS), number)


def no_cost(path: Path, chance: random.Random) -> str:
    return _set(path, chance, "attempt", "cost_usd", chance.choice([1e308, float("inf"), -5.0]))


def reference_gone(path: Path, chance: random.Random) -> str:
    table = chance.choice(_REFERENCES)
    with closing(sqlite3.connect(path)) as connection:
        keys = [one for (one,) in connection.execute(f"SELECT seq FROM {table}")]
    chosen = chance.choice(keys)
    _changed(path, f"DELETE FROM {table} WHERE seq = ?", chosen)
    return f"{table} {chosen} is gone"


def other_text(path: Path, chance: random.Random) -> str:
    return _set(path, chance, "message", "text", "something else")


def other_digest(path: Path, chance: random.Random) -> str:
    return _set(path, chance, "message", "digest", chance.randbytes(16))


def cut(path: Path, chance: random.Random) -> str:
    size = path.stat().st_size
    length = chance.choice([chance.randrange(size), chance.randrange(_pages(path)) * PAGE])
    os.truncate(path, length)
    return f"cut to {length} bytes"


def cut_to_little(path: Path, chance: random.Random) -> str:
    length = chance.choice([0, 1, 16, 99, 100, 512, 4096, 16383, 16384])
    os.truncate(path, length)
    return f"cut to {length} bytes"


def pages_of_garbage(path: Path, chance: random.Random) -> str:
    pages = chance.sample(range(1, _pages(path)), chance.choice([1, 2, 5]))
    for page in pages:
        _written(path, page * PAGE, chance.randbytes(PAGE))
    return f"garbage in the pages {pages}"


def pages_of_zeros(path: Path, chance: random.Random) -> str:
    pages = chance.sample(range(1, _pages(path)), chance.choice([1, 2, 5]))
    for page in pages:
        _written(path, page * PAGE, bytes(PAGE))
    return f"zeros in the pages {pages}"


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
    length = chance.choice([16, 100, PAGE])
    _written(path, 0, chance.choice([bytes(length), chance.randbytes(length)]))
    return f"the first {length} bytes are others"


def header_says_otherwise(path: Path, chance: random.Random) -> str:
    """The application's id, the version, the size of a page, the number of pages."""
    at, value = chance.choice(
        (
            *((68, b"\0\0\0\1"), (68, bytes(4)), (60, b"\0\0\0\x63"), (60, bytes(4))),
            *((28, b"\0\0\0\1"), (28, b"\x7f\0\0\0"), (18, b"\1\1"), (18, b"\5\5")),
            *((32, b"\0\0\0\3\0\0\0\1"), (52, b"\0\0\0\3"), (20, b"\x20"), (44, b"\0\0\0\x09")),
            *((16, b"\x10\0"), (56, b"\0\0\0\2")),
        )
    )
    _written(path, at, value)
    return f"the header says {value!r} at {at}"


def garbage(path: Path, chance: random.Random) -> str:
    content = chance.choice([b"garbage" * 9000, b"\0" * 70_000, chance.randbytes(50_000), b"{}\n"])
    path.write_bytes(content)
    return f"{len(content)} bytes of something else"


def schema_changed(path: Path, chance: random.Random) -> str:
    statement = chance.choice(
        [
            "DROP INDEX verdict_of_take",
            "DROP TABLE lease",
            "DROP TABLE summary",
            "DROP TABLE kept",
            "DROP TABLE learned",
            "DROP TABLE mirrored",
            "DROP TABLE _sqlite_migrations",
            "DELETE FROM _sqlite_migrations",
            "ALTER TABLE attempt DROP COLUMN detail",
            "ALTER TABLE note RENAME TO notes",
        ]
    )
    _changed(path, statement)
    return statement


def index_wrong(path: Path, chance: random.Random) -> str:
    """Its entries are not those of its table; each page by itself is right."""
    name = chance.choice(
        ["verdict_of_take", "state_of_unit", "end_of_take", "scenario_of_benchmark"]
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        sql, root = connection.execute(
            "SELECT sql, rootpage FROM sqlite_schema WHERE name = ?", (name,)
        ).fetchone()
        table = sql.split(" ON ")[1].split()[0]
        connection.execute("DELETE FROM sqlite_schema WHERE name = ?", (name,))
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        keys = [one for (one,) in connection.execute(f"SELECT seq FROM {table}")]
        connection.execute("PRAGMA foreign_keys = OFF")
        gone = chance.choice(keys)
        row = connection.execute(f"SELECT * FROM {table} WHERE seq = ?", (gone,)).fetchone()
        connection.execute(f"DELETE FROM {table} WHERE seq = ?", (gone,))
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_schema VALUES ('index', ?, ?, ?, ?)", (name, table, root, sql)
        )
        connection.commit()
    return f"{name} knows {table} {row[0]}, which is gone"


def no_file(path: Path, chance: random.Random) -> str:
    del chance
    path.unlink()
    return "it is deleted"


def folder(path: Path, chance: random.Random) -> str:
    path.unlink()
    path.mkdir()
    if chance.random() < 0.5:
        (path / "something").write_text("in it")
    return "a folder is in its place"


def of_another_program(path: Path, chance: random.Random) -> str:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (text TEXT)")
        if chance.random() < 0.5:
            connection.execute("PRAGMA application_id = 77")
    return "another program's database is in its place"


def pipe(path: Path, chance: random.Random) -> str:
    del chance
    path.unlink()
    os.mkfifo(path)
    return "a pipe is in its place"


def link(path: Path, chance: random.Random) -> str:
    path.unlink()
    path.symlink_to(chance.choice([path.name, "gone.db"]))
    return f"a link to {path.readlink()} is in its place"


# With a log beside it


def _log(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def log_gone(path: Path, chance: random.Random) -> str:
    del chance
    _log(path).unlink()
    return "the log is gone"


def log_cut(path: Path, chance: random.Random) -> str:
    length = chance.randrange(_log(path).stat().st_size)
    os.truncate(_log(path), length)
    return f"the log is cut to {length}"


def log_flipped(path: Path, chance: random.Random) -> str:
    at = chance.choice([chance.randrange(32), chance.randrange(_log(path).stat().st_size)])
    _written(_log(path), at, chance.randbytes(4))
    return f"the log is another at {at}"


def log_of_garbage(path: Path, chance: random.Random) -> str:
    _log(path).write_bytes(chance.randbytes(chance.choice([1, 31, 32, 40_000])))
    return f"the log is {_log(path).stat().st_size} bytes of garbage"


def memory_of_garbage(path: Path, chance: random.Random) -> str:
    """What SQLite keeps beside the log, to find pages in it."""
    path.with_name(path.name + "-shm").write_bytes(chance.randbytes(chance.choice([1, 32768])))
    return "garbage in -shm"


def log_is_a_folder(path: Path, chance: random.Random) -> str:
    del chance
    _log(path).unlink()
    _log(path).mkdir()
    return "the log is a folder"


def first_page_with_a_log(path: Path, chance: random.Random) -> str:
    return first_page(path, chance)


def cut_with_a_log(path: Path, chance: random.Random) -> str:
    return cut(path, chance) if chance.random() < 0.5 else cut_to_little(path, chance)


def no_file_but_a_log(path: Path, chance: random.Random) -> str:
    return no_file(path, chance)


WITHOUT_LOG: Final[tuple[Damage, ...]] = (
    *(flips, flips_in_the_first_page, no_utf8, no_utf8_where_text_may_be_missing, no_json),
    *(unknown_word, out_of_range, no_cost, reference_gone, other_text, other_digest, cut),
    *(cut_to_little, pages_of_garbage, pages_of_zeros, pages_gone, pages_exchanged, first_page),
    *(header_says_otherwise, garbage, schema_changed, index_wrong, no_file, folder),
    *(of_another_program, pipe, link),
)
WITH_LOG: Final[tuple[Damage, ...]] = (
    *(log_gone, log_cut, log_flipped, log_of_garbage, memory_of_garbage, log_is_a_folder),
    *(first_page_with_a_log, cut_with_a_log, no_file_but_a_log),
)
KINDS: Final = (*WITHOUT_LOG, *WITH_LOG)
