"""A store that was damaged between two runs: one clear sentence, and the file is left as it is; and
what `crosswind repair` makes of two hundred of them."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from engine.store.schema import SCHEMA_VERSION
from tests.damaged.kinds import KINDS, Damage
from tests.damaged.sound import Sound, play
from tests.damaged.trial import Outcome, tried
from tests.killing.case import Whole, play_whole
from tests.killing.holdings import STORE, check_whole, holdings, mirrored
from tests.killing.scene import Kill, Scene
from tests.protocol_server.server import ProtocolServer

PAGE: Final = 16384


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zeroed(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(PAGE)
        file.write(bytes(path.stat().st_size - PAGE))


def garbage(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(random.Random(1).randbytes(PAGE))


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def other_program(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (text TEXT)")


def newer(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
        for number in range(SCHEMA_VERSION + 1, 100):
            connection.execute(
                "INSERT INTO _sqlite_migrations VALUES (?, 'crosswind', ?, '')",
                (number, str(number)),
            )
        connection.commit()


DAMAGE: Final[dict[Callable[[Path], None], str]] = {
    cut: "damaged",
    zeroed: "damaged",
    garbage: "damaged",
    emptied: "empty",
    other_program: "another program",
    newer: "newer Crosswind",
}


@pytest.fixture(scope="module")
def server() -> Iterator[ProtocolServer]:
    with ProtocolServer() as running:
        yield running


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return play_whole(tmp_path_factory.mktemp("whole") / "workspace")


@pytest.fixture(scope="module")
def half_done(tmp_path_factory: pytest.TempPathFactory, server: ProtocolServer) -> Scene:
    """Killed in the midst of its run; everything is in one file."""
    scene = Scene(tmp_path_factory.mktemp("half") / "workspace", server)
    assert scene.live(kill=Kill(0.0, calls=60)).killed
    with closing(sqlite3.connect(scene.root / STORE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return scene


def copy(scene: Scene, root: Path) -> Scene:
    """The same workspace in another place, with its store and without its lock."""
    other = Scene(root / "workspace", scene.server)
    shutil.copy(scene.root / STORE, other.root / STORE)
    shutil.copytree(scene.root / "benchmarks", other.root / "benchmarks", dirs_exist_ok=True)
    return other


@pytest.mark.timeout(300)
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("command", ["status", "run", "results"])
def test_a_damaged_store_is_told_in_a_sentence_and_left_alone(
    tmp_path: Path, half_done: Scene, damage: Callable[[Path], None], command: str
) -> None:
    scene = copy(half_done, tmp_path)
    path = scene.root / STORE
    damage(path)
    before = path.read_bytes()
    asked = scene.server.counters.calls
    done = scene.ask(command, *(["--headless"] if command == "run" else []))
    assert done.returncode == 2, done.stderr
    assert STORE in done.stderr
    assert DAMAGE[damage] in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug in Crosswind" not in done.stderr
    assert len(done.stderr.splitlines()) <= 3, done.stderr
    assert path.read_bytes() == before
    assert scene.server.counters.calls == asked


@pytest.mark.timeout(300)
def test_a_store_whose_log_was_lost_is_used_and_what_is_missing_is_done_again(
    tmp_path: Path, whole: Whole
) -> None:
    with ProtocolServer() as server:
        scene = Scene(tmp_path / "workspace", server)
        assert scene.live(kill=Kill(0.0, calls=60)).killed
        log = scene.root / f"{STORE}-wal"
        assert log.stat().st_size > 0
        log.unlink()
        done = scene.ask("run", "--headless")
        if (
            "is missing or empty" in done.stderr
        ):  # nothing had left the log yet; files hold what was
            assert done.returncode == 2
            assert "`crosswind repair` makes the store again" in done.stderr
            repaired = scene.ask("repair", "--yes")
            assert repaired.returncode == 1, repaired.stderr
            assert "rows written last, what the files do not hold" in repaired.stdout
            done = scene.ask("run", "--headless")
            assert (
                scene.ask("repair", "--files", "--overwrite").returncode == 0
            )  # of an earlier store
        else:
            assert "without its log" in done.stderr
        assert done.returncode == 0, done.stderr
    check_whole(scene.root)
    assert holdings(scene.root).spoken == whole.held.spoken
    # scenarios that only their file still knew are taken as a person's
    found, wanted = mirrored(scene.root), dict(whole.files)
    name = "giving-in/scenarios.json"
    assert [row["id"] for row in found.pop(name)] == [row["id"] for row in wanted.pop(name)]
    assert found == wanted


SEEDS: Final = 9
"""Stores of each kind: 207 in all. Each kind has a limit of its own, however slow the machine."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Sound:
    return play(tmp_path_factory.mktemp("sound"))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_of_two_hundred_damaged_stores_none_is_a_dead_end(
    sound: Sound, tmp_path: Path, kind: Damage
) -> None:
    """A few of every kind; of every third seed there are no files to fill a store from."""
    found: Counter[str] = Counter()
    bad = []
    for seed in range(SEEDS):
        root = tmp_path / str(seed)
        trial = tried(sound, kind, seed, root, with_files=seed % 3 != 2)
        shutil.rmtree(root)
        found[trial.outcome.value] += 1
        if trial.outcome not in {Outcome.HARMLESS, Outcome.MENDED, Outcome.TOLD}:
            bad.append(str(trial))
    assert bad == [], found
