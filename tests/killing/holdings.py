"""What a store holds, read past all of the engine's own code, and what must be true of it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

STORE: Final = "crosswind.db"
_BELONGS: Final = frozenset(
    {
        "config.yaml",
        STORE,
        f"{STORE}-wal",
        f"{STORE}-shm",
        "crosswind.lock",
        "crosswind.log",
        "search.db",
    }
)
_TABLES: Final = frozenset(
    """attempt learned message metric mirrored note run scenario state take take_end
    verdict""".split()
)


@dataclass(frozen=True, slots=True)
class Take:
    """One playing of a conversation and what was said in it."""

    unit: str
    scenario: str
    model: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holdings:
    """Everything that a model was asked for and that is on disk."""

    metrics: tuple[str, ...] = ()
    """Their definitions."""
    bases: tuple[str, ...] = ()
    variants: tuple[tuple[str, str], ...] = ()
    """Each with the profile that it was rewritten for."""
    personas: tuple[tuple[str, str], ...] = ()
    """By the scenario's id."""
    takes: tuple[Take, ...] = ()
    judged: tuple[Take, ...] = ()
    """Once for each verdict."""
    messages: frozenset[tuple[int, str]] = frozenset()
    """By `seq`."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    cut_off_usd: float = 0.0
    """What calls that were cut off may have cost, or are counted as."""

    @property
    def spoken(self) -> int:
        return sum(len(take.texts) for take in self.takes)


def holdings(root: Path) -> Holdings:
    """What is on disk now; nothing where there is no store yet."""
    path = root / STORE
    if not path.exists():
        return Holdings()
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        connection.row_factory = sqlite3.Row
        return _read(connection)


def _read(connection: sqlite3.Connection) -> Holdings:
    def rows(query: str) -> list[sqlite3.Row]:
        return connection.execute(query).fetchall()

    scenarios = rows("SELECT scenario_id, persona, demographic FROM scenario ORDER BY seq")
    profiles = {row["scenario_id"]: _profile(row["demographic"]) for row in scenarios}
    ids = [row["scenario_id"] for row in scenarios]
    spoken = rows("SELECT seq, take, text FROM message ORDER BY take, turn, speaker = 'assistant'")
    takes = {
        row["seq"]: Take(
            f"{row['scenario_id']}__{row['target']}__{row['sample']}",
            row["scenario_id"],
            row["model"],
            tuple(message["text"] for message in spoken if message["take"] == row["seq"]),
        )
        for row in rows("SELECT * FROM take ORDER BY seq")
    }
    [spent] = rows(
        "SELECT ifnull(sum(input_tokens), 0), ifnull(sum(output_tokens), 0), "
        "ifnull(sum(cost_usd), 0.0), (SELECT total(open_usd) FROM lease) + "
        "(SELECT total(coalesce(counted_usd, most_usd)) FROM unsettled u WHERE counted_usd NOTNULL"
        " OR NOT EXISTS (SELECT 1 FROM unsettled n WHERE n.seq > u.seq AND n.counted_usd NOTNULL)) "
        "FROM attempt"
    )
    return Holdings(
        tuple(row["definition"] for row in rows("SELECT definition FROM metric ORDER BY seq")),
        tuple(one for one in ids if "_v" not in one),
        tuple((one, profiles[one]) for one in ids if "_v" in one),
        tuple((row["scenario_id"], row["persona"]) for row in scenarios),
        tuple(takes.values()),
        tuple(takes[row["take"]] for row in rows("SELECT take FROM verdict ORDER BY seq")),
        frozenset((message["seq"], message["text"]) for message in spoken),
        *spent,
    )


def _profile(demographic: str) -> str:
    return "\n".join(f"{axis}: {value}" for axis, value in json.loads(demographic).items())


def check_whole(root: Path) -> None:
    """Raises AssertionError where the store is damaged, or holds what a schema does not name."""
    path = root / STORE
    if not path.exists():
        return
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as connection:
        assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        named = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        tables = {name for (name,) in named if not name.startswith(("sqlite_", "_sqlite_"))}
    assert tables >= _TABLES
    assert not [name for name in tables if "scratch" in name or "tmp" in name]


def check_once(held: Holdings) -> None:
    """Raises AssertionError where something is there twice that is made once."""
    assert_once(held.metrics)
    assert_once(held.bases)
    assert_once(name for name, _ in held.variants)
    assert_once(take.unit for take in held.takes)
    assert_once(take.unit for take in held.judged)


def assert_once(things: Iterable[str]) -> None:
    assert [thing for thing, times in Counter(things).items() if times > 1] == []


def junk(root: Path, temporary: Path) -> list[str]:
    """What a run should not leave behind."""
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not _belongs(path.relative_to(root))
    ]
    beside = (path for path in temporary.rglob("*") if not path.is_dir())
    return sorted(found) + sorted(path.relative_to(temporary).as_posix() for path in beside)


def _belongs(path: Path) -> bool:
    if path.parts[0] == "benchmarks":
        mirrored = path.suffix in {".json", ".yaml"} or path.name == "history.jsonl"
        return mirrored and not path.name.startswith(".")
    return path.as_posix() in _BELONGS


def mirrored(root: Path) -> dict[str, Any]:
    """The documented files, without what a call that was lost adds to them, its cost, without the
    times at which the first and the last of it came true, and without the digest of a configuration
    that names the port of a server."""
    folder = root / "benchmarks"
    found: dict[str, Any] = {
        path.relative_to(folder).as_posix(): _compared(json.loads(path.read_text("utf-8")))
        for path in sorted(folder.rglob("*.json"))
        if path.name != "cost.json"
    }
    for path in folder.rglob("benchmark.yaml"):
        found[path.relative_to(folder).as_posix()] = path.read_text("utf-8")
    return found


_NOT_COMPARED: Final = frozenset({"_usage", "configuration", "first_at", "last_at"})


def _compared(value: Any) -> Any:
    if isinstance(value, list):
        return [_compared(one) for one in value]
    if isinstance(value, dict):
        return {key: _compared(one) for key, one in value.items() if key not in _NOT_COMPARED}
    return value
