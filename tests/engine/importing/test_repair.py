"""A damaged store is put right from what can be read of it and from the files."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import WorkspaceBusyError
from engine.importing.repair import Repair, examine, repair
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline
from engine.store.database import open_store
from tests.approval import approve, lines_with
from tests.engine.commands import crosswind
from tests.engine.importing.places import everything, make_place
from tests.engine.small_workspace import Place
from tests.engine.store.building import note, write
from tests.pipelines import run_once

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workspace in which a run has ended, with its files."""
    place = make_place(tmp_path_factory.mktemp("played"))
    config = load_config(place.config)
    with open_store(place.store) as store:
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
        asyncio.run(run_once(pipeline, Order(("giving-in",))))
    return place


@pytest.fixture
def place(played: Place, tmp_path: Path) -> Place:
    return played.copied(tmp_path / "place")


def put_right(place: Place) -> Repair:
    workspace, config = Workspace(place.root), load_config(place.config)
    return asyncio.run(repair(workspace, config, examine(workspace, place.store), now=NOW))


def test_a_store_that_is_whole_is_left_alone(place: Place) -> None:
    before = place.store.read_bytes()
    told = crosswind(place.root, "repair", code=0)
    approve(told.out)
    assert place.store.read_bytes() == before


def test_without_a_store_it_is_rebuilt_from_the_files(played: Place, place: Place) -> None:
    place.store.unlink()
    done = put_right(place)
    assert everything(place) == everything(played)
    assert done.missing == []
    assert done.aside is None


def test_what_a_cut_off_file_of_verdicts_lost_does_not_count_as_judged(
    played: Place, tmp_path: Path
) -> None:
    """The history beside it says still that it was done."""
    source = played.copied(tmp_path / "source")
    scores = source.root / "benchmarks" / "giving-in" / "runs" / "wavers" / "scores.json"
    scores.write_bytes(scores.read_bytes()[:3000])
    into = make_place(tmp_path / "into")
    crosswind(into.root, "import", str(source.root))
    with into.reader() as reader:
        counted = reader.counting_verdicts("giving-in", "wavers")
        targets = reader.snapshot().targets_of("giving-in")
    judged = sum(bool(verdicts) for _, verdicts in counted)
    assert 0 < judged < 8
    assert targets["wavers"].evaluate.done == judged
    assert targets["holds"].evaluate.done == 8


def test_files_of_a_store_that_was_rebuilt_are_written_anew_when_results_change(
    place: Place,
) -> None:
    """Nobody edited them, though the store that knew so is gone."""
    place.store.unlink()
    put_right(place)
    results = place.root / "benchmarks" / "giving-in" / "results.json"
    before = results.read_bytes()
    place.edit(place.config, "model: erratic", "model: pushover")
    told = crosswind(place.root, "run", "--headless", "--yes", "--stale", code=0)
    assert "as Crosswind wrote" not in told.err
    assert results.read_bytes() != before
    assert not results.with_name("results.json.crosswind").exists()


@pytest.mark.parametrize("content", [b"", b"garbage" * 9000], ids=["empty", "garbage"])
def test_of_a_file_that_holds_nothing_all_comes_from_the_files(
    content: bytes, played: Place, place: Place
) -> None:
    place.store.write_bytes(content)
    put_right(place)
    assert everything(place) == everything(played)


def test_what_neither_holds_is_told(place: Place) -> None:
    path = place.root / "benchmarks" / "giving-in" / "runs" / "holds" / "conversations.json"
    path.write_text("[]", "utf-8")
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute(
            "UPDATE message SET text = 'x' WHERE take = (SELECT seq FROM take WHERE "
            "target = 'holds' LIMIT 1) AND turn = 1 AND speaker = 'user'"
        )
        connection.commit()
    done = put_right(place)
    assert [line.split(",")[0] for line in done.missing] == [
        "giving-in simulate: 1 of 16",
        "giving-in evaluate: 1 of 16",
    ]
    with place.reader() as reader:
        counts = reader.snapshot().targets_of("giving-in")["holds"]
    for tally in (counts.simulate, counts.evaluate):
        assert (tally.done, tally.queued) == (7, 1)


def test_a_store_that_the_engine_of_another_workspace_writes_is_left_alone(place: Place) -> None:
    with open_store(place.store) as store:
        with closing(sqlite3.connect(place.store)) as connection:
            connection.execute("UPDATE message SET text = text || ' no' WHERE seq % 9 = 0")
            connection.commit()
        with pytest.raises(WorkspaceBusyError, match=r"crosswind\.db is being written by process"):
            put_right(place)
        assert write(store, note()) == [store.reader.last_seq()]
    assert list(place.root.glob("crosswind.db.*")) == []
    assert put_right(place).aside is not None


def without_files(place: Place) -> None:
    shutil.rmtree(place.root / "benchmarks" / "giving-in" / "runs")
    for path in (place.root / "benchmarks").rglob("*.json*"):
        path.unlink()


def forget_a_take(place: Place) -> int:
    """Return the number of the row that cannot be read any more."""
    with closing(sqlite3.connect(place.store)) as connection:
        [take] = connection.execute("SELECT max(seq) FROM take").fetchone()
        connection.execute("UPDATE take SET model = CAST(x'ff41' AS TEXT) WHERE seq = ?", (take,))
        connection.commit()
    return int(take)


def test_a_script_hears_what_was_done(place: Place) -> None:
    def repaired(code: int) -> dict[str, Any]:
        found: dict[str, Any] = crosswind(place.root, "repair", "--yes", "--json", code=code).json()
        return found

    assert repaired(0)["saved"] is None
    without_files(place)
    take = forget_a_take(place)
    done = repaired(1)
    [aside] = place.root.glob("crosswind.db.damaged-*[0-9]")
    assert done["damaged_store"] == str(aside)
    assert {name: done["saved"][name] for name in ("left_out", "unreadable_rows", "cut_off")} == {
        "left_out": 8,
        "unreadable_rows": [[take, take]],
        "cut_off": False,
    }
    assert [line.split(",")[0] for line in done["missing"]] == [
        "giving-in simulate: 1 of 16",
        "giving-in evaluate: 1 of 16",
    ]


def test_rows_that_nobody_can_read_are_told_by_their_numbers(place: Place) -> None:
    without_files(place)
    with closing(sqlite3.connect(place.store)) as connection:
        said = dict(connection.execute("SELECT seq, text FROM message ORDER BY seq").fetchall())
    content = bytearray(place.store.read_bytes())
    page = content.index(said[sorted(said)[40]].encode()) // 16384 * 16384
    content[page : page + 16384] = bytes(16384)
    place.store.write_bytes(content)
    destroyed = [seq for seq, text in said.items() if text.encode() not in content]
    assert destroyed
    again = place.copied(place.root.with_name("again"))
    saved = crosswind(again.root, "repair", "--yes", "--json", code=1).json()["saved"]
    lost = [seq for low, high in saved["unreadable_rows"] for seq in range(low, high + 1)]
    assert set(destroyed) <= set(lost)
    told = crosswind(place.root, "repair", "--yes", code=1).out
    assert f"nothing could be read of {len(lost)} rows: {lost[0]}" in told
    assert f"{saved['left_out']} rows left out, as what they belong to is lost" in told


def test_nobody_is_there_to_ask_and_nothing_is_done(place: Place) -> None:
    place.store.write_bytes(b"")
    assert "add `--yes`" in crosswind(place.root, "repair", code=2).err
    assert place.store.read_bytes() == b""
    told = crosswind(place.root, "repair", "--yes", code=0)
    approve(lines_with(told.out, "nothing that was"))


def test_without_store_and_files_there_is_nothing_to_repair(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    (place.root / "benchmarks" / "giving-in" / "benchmark.yaml").unlink()
    assert "nothing to repair" in crosswind(place.root, "repair", "--yes", code=2).err


def test_the_database_of_another_program_is_not_touched(place: Place) -> None:
    place.store.unlink()
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute("CREATE TABLE theirs (text TEXT)")
    before = place.store.read_bytes()
    assert "another program" in crosswind(place.root, "repair", "--yes", code=2).err
    assert place.store.read_bytes() == before


def test_a_single_metric_or_review_that_the_store_lost_is_noticed_and_comes_back(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path / "work")
    head, _ = place.benchmark.read_text("utf-8").split("metrics:")
    place.benchmark.write_text(head, "utf-8")
    crosswind(place.root, "run", "--headless", "--plain", "--until", "gen_metrics", code=0)
    decisions = (["--approve", "m01"], ["--approve", "m02"], ["--reject", "m02", "--reason", "no"])
    for words in decisions:
        crosswind(place.root, "review", "giving-in", *words, code=0)
    with closing(sqlite3.connect(place.store, isolation_level=None)) as connection:
        before = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in LOSABLE]
        connection.execute("DELETE FROM metric WHERE metric_id = 'm03'")
        connection.execute("DELETE FROM review WHERE seq = (SELECT min(seq) FROM review)")
        # older than what was decided later: brought back, it would count
        connection.execute("DELETE FROM review WHERE seq = (SELECT min(seq) FROM review)")
    told = crosswind(place.root, "repair", "--yes", code=0)
    assert "giving-in: 1 metric, 1 review" in told.err
    with closing(sqlite3.connect(place.store)) as connection:
        after = [connection.execute(f"SELECT * FROM {table}").fetchall() for table in LOSABLE]
    assert {row[1:] for row in after[0]} == {row[1:] for row in before[0]}
    assert {row[1:] for row in after[1]} == {row[1:] for row in (before[1][0], before[1][2])}
    assert "is whole" in crosswind(place.root, "repair", code=0).out


LOSABLE = ("metric", "review")
