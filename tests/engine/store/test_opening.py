"""A store opens, or says in one sentence why not and what to do."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from engine.errors import StoreError
from engine.store.database import Store, open_reader, open_store
from engine.store.filesystem import file_system
from engine.store.header import APPLICATION_ID
from tests.engine.store.building import note, write

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
host:/export /home nfs4 rw 0 0
/dev/sdb1 /home/me/local\\040disk ext4 rw 0 0
me@host:/ /mnt/far fuse.sshfs rw 0 0
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "crosswind.db"


def made(path: Path) -> Path:
    with open_store(path) as store:
        write(store, note())
    return path


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_a_new_store_is_private_and_durable(store: Store) -> None:
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    log = store.path.with_name("crosswind.db-wal")
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    connection = store._writer._connection
    found = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_size", "journal_mode", "synchronous", "foreign_keys", "application_id")
    }
    assert found == {
        "page_size": 16384,
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "application_id": APPLICATION_ID,
    }


def test_every_table_is_strict(store: Store) -> None:
    tables = store._writer._connection.execute(
        "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' "
        "AND name NOT LIKE '%sqlite%'"
    ).fetchall()
    assert len(tables) == 12
    assert all(strict for _, strict in tables)


def test_nothing_half_made_is_left_of_a_creation_that_was_cut_off(path: Path) -> None:
    path.with_name("crosswind.db.new").write_bytes(b"half a store")
    made(path)
    assert sorted(one.name for one in path.parent.iterdir()) == ["crosswind.db"]


def cut_to_nothing(path: Path) -> None:
    path.write_bytes(b"")


def of_another_program(path: Path) -> None:
    path.unlink()
    changed(path, "CREATE TABLE contacts (name TEXT)")


def garbage(path: Path) -> None:
    path.write_bytes(b"This is a diary, not a database. " * 1000)


def damaged_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\0" * 100)


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def newer(path: Path) -> None:
    changed(path, "PRAGMA user_version = 7")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (cut_to_nothing, "is empty: expected a store; put a copy of it back"),
    (of_another_program, "is a database of another program .*: move it away"),
    (garbage, "is damaged .*: put a copy of it back, or move it away"),
    (damaged_header, "is damaged .*: put a copy of it back, or move it away"),
    (cut_in_half, "is damaged .*: put a copy of it back, or move it away"),
    (newer, r"newer Crosswind \(store version 7, this one knows 1\): update Crosswind"),
    (a_folder, "is not a file"),
]


@pytest.mark.parametrize(("spoil", "sentence"), FAULTS)
@pytest.mark.parametrize("how", [open_store, open_reader])
def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(
    path: Path, spoil: Callable[[Path], None], sentence: str, how: Callable[[Path], object]
) -> None:
    made(path)
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(StoreError, match=sentence) as refusal:
        how(path)
    assert str(path) in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_change_that_this_program_does_not_know_is_of_a_newer_one(path: Path) -> None:
    changed(
        made(path),
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) "
        "VALUES ('crosswind', '2 something', 'tomorrow')",
    )
    with pytest.raises(StoreError, match=r"'2 something'.*update Crosswind"):
        open_store(path)


def test_a_log_without_its_store_is_not_mixed_into_a_new_one(path: Path) -> None:
    path.with_name("crosswind.db-wal").write_bytes(b"what was last written")
    with pytest.raises(StoreError, match=r"is missing, but crosswind\.db-wal beside it"):
        open_store(path)
    assert not path.exists()


def test_a_reader_creates_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist yet"):
        open_reader(path)
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere is not a folder"):
        open_store(tmp_path / "nowhere" / "crosswind.db")


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("/var/lib/work", "ext4"),
        ("/home/me/work", "nfs4"),
        ("/home/me/local disk/work", "ext4"),
        ("/mnt/far/away", "fuse.sshfs"),
        ("/mnt/farther", "ext4"),
    ],
)
def test_the_deepest_mount_tells_the_file_system(place: str, kind: str) -> None:
    assert file_system(Path(place), MOUNTS) == kind


def test_a_network_file_system_is_refused_with_a_way_out(path: Path) -> None:
    mounts = f"host:/export {path.parent.parent} nfs rw 0 0\n"
    with pytest.raises(StoreError, match=r"network file system \(nfs\).*`store: PATH`"):
        open_store(path, mounts=mounts)
    assert not path.exists()


def test_two_mounts_on_one_place_show_the_later(tmp_path: Path) -> None:
    mounts = f"a {tmp_path} nfs rw 0 0\nb {tmp_path} ext4 rw 0 0\n"
    assert file_system(tmp_path / "x", mounts) == "ext4"


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
path = Path(sys.argv[1])
from engine.errors import StoreError
from engine.store.database import open_reader, open_store
os.setgid(65534); os.setuid(65534)
try:
    open_store(path)
except StoreError as error:
    print(error)
print(open_reader(path).last_seq())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_a_store_in_a_folder_that_cannot_be_written_is_read_and_not_written() -> None:
    with TemporaryDirectory() as shared:  # not in tmp_path, which nobody else may enter
        folder = Path(shared)
        path = made(folder / "crosswind.db")
        path.chmod(0o644)
        folder.chmod(0o755)
        child = subprocess.run(
            [sys.executable, "-c", AS_ANOTHER_USER, str(path)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[3],
        )
    assert child.stderr == ""
    refusal, seq = child.stdout.splitlines()
    assert "cannot be written by this user" in refusal
    assert seq == "1"
