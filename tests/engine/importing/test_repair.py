"""A damaged store is put right from what can be read of it and from the files."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.config.settings import load_config
from engine.config.workspace import Workspace
from engine.importing.repair import Repair, examine, repair
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, mirror_benchmark
from engine.store.database import open_store
from engine.store.past import Past
from engine.store.reader import Reader
from engine.store.reading import open_reader
from tests.engine.importing.places import Place, everything, make_place

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workspace in which a run has ended, with its files."""
    place = make_place(tmp_path_factory.mktemp("played"))
    config = load_config(place.config)
    with open_store(place.store) as store:
        pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
        asyncio.run(pipeline.run(Order(("giving-in",))))
    return place


@pytest.fixture
def place(played: Place, tmp_path: Path) -> Place:
    return played.copied(tmp_path / "place")


def put_right(place: Place) -> Repair:
    workspace, config = Workspace(place.root), load_config(place.config)
    return asyncio.run(repair(workspace, config, examine(workspace, place.store), now=NOW))


def test_a_store_that_is_whole_is_left_alone(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    before = place.store.read_bytes()
    assert main(["--workspace", str(place.root), "repair"]) == 0
    assert "is whole: every page and every message; nothing was changed" in capsys.readouterr().out
    assert place.store.read_bytes() == before


def test_without_a_store_it_is_rebuilt_from_the_files(played: Place, place: Place) -> None:
    place.store.unlink()
    done = put_right(place)
    assert everything(place) == everything(played)
    assert done.missing == []
    assert done.aside is None


@pytest.mark.parametrize("page", [3, 9, 14, 20])
def test_what_a_lost_page_held_comes_back_from_the_files(
    page: int, played: Place, place: Place
) -> None:
    content = bytearray(place.store.read_bytes())
    assert len(content) > (page + 1) * 16384
    content[page * 16384 : (page + 1) * 16384] = bytes(16384)
    place.store.write_bytes(content)
    done = put_right(place)
    assert done.aside is not None
    assert done.aside.read_bytes() == content
    with closing(open_reader(played.store)) as then, closing(open_reader(place.store)) as now:
        said = {
            str(take.key): [one.text for one in then.messages(take.seq)]
            for take in then.counting_takes("giving-in")
        }
        assert said == {
            str(take.key): [one.text for one in now.messages(take.seq)]
            for take in now.counting_takes("giving-in")
        }
        assert len(then.counting_verdicts("giving-in")) == len(now.counting_verdicts("giving-in"))
    assert done.missing == []


def test_a_message_that_is_not_what_was_stored_comes_back(played: Place, place: Place) -> None:
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute("UPDATE message SET text = text || ' no' WHERE seq % 9 = 0")
        connection.commit()
    assert "is not the one that was stored" in examine(Workspace(place.root), place.store).faults[0]
    done = put_right(place)
    assert done.missing == []
    assert everything(place)["said"] == everything(played)["said"]
    assert everything(place)["judged"] == everything(played)["judged"]


def test_after_a_repair_the_mirror_holds_every_file_against_the_store(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were saved may not say what they said when the files were made from them."""
    config = load_config(place.config)
    read: list[str] = []
    history = Reader.past

    def noted(reader: Reader, benchmark: str) -> Past:
        read.append(benchmark)
        return history(reader, benchmark)

    def mirror() -> list[str]:
        read.clear()
        with open_store(place.store) as store:
            pipeline = Pipeline(Workspace(place.root), config, store.reader, store)
            asyncio.run(mirror_benchmark(pipeline, "giving-in"))
        return list(read)

    def change(*sql: str) -> None:
        with closing(sqlite3.connect(place.store)) as connection:
            for one in sql:
                connection.execute(one)
            connection.commit()

    change("UPDATE attempt SET benchmark = 'other' WHERE seq = (SELECT max(seq) FROM attempt)")
    monkeypatch.setattr(Reader, "past", noted)
    mirror()
    assert mirror() == []
    # a fault elsewhere, so that this benchmark keeps each of its rows
    change(
        "UPDATE attempt SET input_tokens = 1 << 62 WHERE benchmark = 'other'",
        "UPDATE take SET scenario = 0",
    )
    put_right(place)
    assert mirror()


@pytest.mark.parametrize("content", [b"", b"garbage" * 9000])
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


def test_nobody_is_there_to_ask_and_nothing_is_done(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.store.write_bytes(b"")
    assert main(["--workspace", str(place.root), "repair"]) == 2
    assert "add `--yes`" in capsys.readouterr().err
    assert place.store.read_bytes() == b""
    assert main(["--workspace", str(place.root), "repair", "--yes"]) == 0
    assert "nothing that was done is missing" in capsys.readouterr().out


def test_without_store_and_files_there_is_nothing_to_repair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make_place(tmp_path)
    (place.root / "benchmarks" / "giving-in" / "benchmark.yaml").unlink()
    assert main(["--workspace", str(place.root), "repair", "--yes"]) == 2
    assert "nothing to repair" in capsys.readouterr().err


def test_the_database_of_another_program_is_not_touched(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.store.unlink()
    with closing(sqlite3.connect(place.store)) as connection:
        connection.execute("CREATE TABLE theirs (text TEXT)")
    before = place.store.read_bytes()
    assert main(["--workspace", str(place.root), "repair", "--yes"]) == 2
    assert "another program" in capsys.readouterr().err
    assert place.store.read_bytes() == before
