"""What can be read of a damaged store is saved, and what is saved is whole."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.benchmark import State
from engine.errors import StoreError
from engine.store.database import open_store
from engine.store.integrity import faults
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from engine.store.salvage import SalvageReport, put_in_place, salvage, set_aside
from engine.store.schema import SCHEMA_VERSION
from engine.store.tables import UnsettledRow
from engine.store.writer import SPARE
from tests.engine.store.building import (
    BENCHMARK,
    attempt,
    key,
    note,
    of_version,
    play,
    run,
    scenario_row,
    state,
    verdict,
    write,
)

PAGE = 16384
CONVERSATIONS = 24


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some forty pages, with messages that fill more than one."""
    path = tmp_path_factory.mktemp("sound") / "crosswind.db"
    chance = random.Random(4)
    with open_store(path) as store:
        [begun] = write(store, scenario_row())
        for sample in range(CONVERSATIONS):
            said = ["".join(chance.choices("abcdefgh ", k=3000)) for _ in range(8)]
            if sample % 6 == 0:
                said[3] = "".join(chance.choices("abcdefgh ", k=40_000))
            take = play(store, key(sample=sample), messages=said, scenario_seq=begun)
            write(store, verdict(take, passed=sample % 2 == 0), attempt(), note())
            write(store, state(str(key(sample=sample)), State.DONE))
    return path


@pytest.fixture
def broken(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sound, tmp_path / "crosswind.db"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crosswind.db"


def zero(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek(page * PAGE)
        file.write(bytes(PAGE))


def everything(reader: Reader) -> dict[int, list[tuple[int, str]]]:
    takes = reader.takes(BENCHMARK)
    said = reader.messages_of(take.seq for take in takes)
    return {
        seq: [(message.seq, message.text) for message in messages] for seq, messages in said.items()
    }


def whole_conversations(path: Path, sound: Path) -> int:
    """How many there are in a saved store, of which nothing was not in the sound one, and in which
    everything hangs together."""
    with closing(open_reader(path)) as saved, closing(open_reader(sound)) as first:
        before, now = everything(first), everything(saved)
        takes = saved.takes(BENCHMARK)
        for take in takes:
            messages = now[take.seq]
            assert messages == before[take.seq][: len(messages)]
            if take.finished:
                assert messages == before[take.seq]
            else:
                assert saved.verdicts(take.seq) == []
        saved.snapshot()
        known = set(first.facts(0, limit=10**6))
        assert known.issuperset(saved.facts(0, limit=10**6))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    return sum(take.finished for take in takes)


def saved(broken: Path) -> tuple[Path, SalvageReport]:
    into = broken.with_name("saved.db")
    before = broken.read_bytes()
    report = salvage(broken, into)
    assert broken.read_bytes() == before
    assert {one.name for one in broken.parent.iterdir()} == {"crosswind.db", "saved.db"}
    return into, report


def test_a_sound_store_is_saved_whole(sound: Path, broken: Path) -> None:
    into, report = saved(broken)
    assert report.is_whole
    with closing(open_reader(into)) as reader, closing(open_reader(sound)) as first:
        assert reader.facts(0, limit=10**6) == first.facts(0, limit=10**6)
        assert everything(reader) == everything(first)
        assert reader.scenarios(BENCHMARK) == first.scenarios(BENCHMARK)


def test_what_was_made_from_which_rows_is_forgotten_and_whose_files_are_ours_is_not(
    broken: Path,
) -> None:
    """Rows that keep their number may say something else."""
    ours, note = "benchmarks/a/scenarios.json", "/mirrored/benchmarks/a"
    with closing(sqlite3.connect(broken)) as connection:
        insert = "INSERT INTO mirrored (path, at, digest, seq) VALUES (?, 1, 'd', 1)"
        connection.executemany(insert, [(ours,), (note,)])
        connection.commit()
    into, report = saved(broken)
    assert report.is_whole
    with closing(open_reader(into)) as reader:
        assert reader.mirrored(ours) is not None
        assert reader.mirrored(note) is None


@pytest.mark.exhaustive
def test_whatever_page_is_lost_what_is_saved_is_whole(sound: Path, tmp_path: Path) -> None:
    pages = sound.stat().st_size // PAGE
    found = []
    for page in range(0, pages, 5):
        broken = tmp_path / str(page) / "crosswind.db"
        broken.parent.mkdir()
        shutil.copy(sound, broken)
        zero(broken, page)
        into, report = saved(broken)
        found.append(whole_conversations(into, sound))
        if report.is_whole:
            assert found[-1] == CONVERSATIONS
    # a page with messages takes a few of the conversations, the root of a table all of its rows
    assert sorted(found)[-1] == CONVERSATIONS
    assert sorted(found)[len(found) // 2] >= CONVERSATIONS - 3


def test_what_follows_the_last_page_does_not_matter(sound: Path, broken: Path) -> None:
    with broken.open("ab") as file:
        file.write(b"not a page" * 5000)
    into, report = saved(broken)
    assert whole_conversations(into, sound) == CONVERSATIONS
    assert report.is_whole


def test_of_a_store_that_was_cut_off_the_first_part_is_saved(sound: Path, broken: Path) -> None:
    os.truncate(broken, broken.stat().st_size * 3 // 4 + 1000)
    into, report = saved(broken)
    assert CONVERSATIONS // 3 < whole_conversations(into, sound) < CONVERSATIONS
    assert report.is_cut_off


def test_flipped_bits_are_not_taken_for_text(sound: Path, broken: Path) -> None:
    chance = random.Random(7)
    content = bytearray(sound.read_bytes())
    for _ in range(12):
        content[chance.randrange(26 * PAGE, len(content))] ^= 1 << chance.randrange(8)
    broken.write_bytes(content)
    into, report = saved(broken)
    assert whole_conversations(into, sound) >= CONVERSATIONS - 12
    assert report.lost


@pytest.mark.parametrize("content", [bytes(PAGE), random.Random(1).randbytes(20 * PAGE)])
def test_of_a_file_that_sqlite_cannot_open_nothing_is_saved(broken: Path, content: bytes) -> None:
    broken.write_bytes(content)
    _, report = saved(broken)
    assert report.saved == 0
    assert report.is_cut_off
    assert not report.is_whole


def test_what_is_only_in_the_log_is_saved_too(sound: Path, tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    shutil.copy(sound, path)
    with open_store(path) as store:
        write(store, note("in the log"))
        aside = set_aside(path, datetime(2026, 11, 21, 8, 30, tzinfo=UTC))
    assert aside.name == "crosswind.db.damaged-20261121-083000"
    assert aside.stat().st_mode & 0o777 == 0o600
    zero(aside, 30)
    salvage(aside, tmp_path / "saved.db")
    with closing(open_reader(tmp_path / "saved.db")) as reader:
        assert reader.facts(0, limit=10**6)[-1].text == "in the log"  # type: ignore[attr-defined]  # a note


FRAME = 24 + PAGE


def noted(path: Path) -> list[str]:
    with closing(open_reader(path)) as reader:
        return [fact.text for fact in reader.facts(0, limit=10**6)]  # type: ignore[attr-defined]  # notes


def test_of_a_log_that_was_cut_it_is_told_which_rows_it_held(tmp_path: Path) -> None:
    path = tmp_path / "crosswind.db"
    with open_store(path) as store:
        for number in range(12):
            write(store, note(f"note {number}"))
        aside = set_aside(path, datetime(2026, 11, 21, 8, 30, tzinfo=UTC))
    log = aside.with_name(f"{aside.name}-wal")
    os.truncate(log, log.stat().st_size - 3 * FRAME)
    report = salvage(aside, tmp_path / "saved.db")
    there = len(noted(tmp_path / "saved.db"))
    assert 0 < there < 12
    assert report.unlogged == [(there + 1, 12)]
    assert not report.is_whole


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_a_damaged_store_of_any_older_version_is_saved_into_one_of_today(
    path: Path, version: int
) -> None:
    of_version(path, version)
    with closing(sqlite3.connect(path)) as connection:
        insert = "INSERT INTO note (seq, at, kind, benchmark, text) VALUES (?, 5, 'warning', '', ?)"
        connection.executemany(insert, [(2, "damaged"), (3, "new")])
        connection.execute("UPDATE note SET text = CAST(x'ff41' AS TEXT) WHERE seq = 2")
        connection.commit()
    assert faults(path) == ["note 2 has a text that cannot be"]
    into, report = saved(path)
    assert noted(into) == ["old", "new"]
    assert report.lost == [(2, 2)]
    assert faults(into) == []


def test_what_calls_may_cost_that_a_kill_cut_off_stays_reserved(tmp_path: Path) -> None:
    with open_store(tmp_path / "crosswind.db") as store:
        write(store, UnsettledRow(most_usd=0.5), *(note(f"note {number}") for number in range(3)))
        run(store.begin_call(2.0))
        aside = set_aside(store.path, datetime(2026, 11, 21, 8, 30, tzinfo=UTC))
    with closing(open_reader(aside)) as reader:
        most = reader.unsettled_usd()
    assert most == pytest.approx(0.5 + 2.0 * SPARE)
    with closing(sqlite3.connect(aside)) as connection:
        connection.execute("UPDATE note SET text = CAST(x'ff41' AS TEXT) WHERE seq = 3")
        connection.commit()
    into = tmp_path / "saved.db"
    report = salvage(aside, into)
    assert report.lost == [(3, 3)]
    with open_store(into) as again:
        assert again.reader.unsettled_usd() == pytest.approx(most)
        assert again.reader.spent_usd() == 0


def test_a_saved_store_takes_the_place_of_the_damaged_one(sound: Path, broken: Path) -> None:
    broken.with_name("crosswind.db-wal").write_bytes(b"the log of the damaged one")
    zero(broken, 40)
    aside = set_aside(broken, datetime(2026, 11, 21, 8, 30, tzinfo=UTC))
    assert aside.with_name(aside.name + "-wal").read_bytes() == b"the log of the damaged one"
    salvage(aside, broken.with_name("saved.db"))
    put_in_place(broken.with_name("saved.db"), broken)
    assert not broken.with_name("crosswind.db-wal").exists()
    with open_store(broken) as store:
        assert write(store, note()) == [store.reader.last_seq()]
    with pytest.raises(StoreError, match=r"could not be copied .*; make room for a copy"):
        set_aside(broken, datetime(2026, 11, 21, 8, 30, tzinfo=UTC))
