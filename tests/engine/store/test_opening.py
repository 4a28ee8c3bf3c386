"""A store opens, or says in one sentence why not and what to do."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlite_utils import Database

from engine.errors import StoreError
from engine.identity import message_digest
from engine.store import database, integrity
from engine.store.database import Store, open_store
from engine.store.filesystem import file_system, mounts_of_a_mac, mounts_of_linux, refuse_network
from engine.store.integrity import faults
from engine.store.lock import hold_workspace
from engine.store.migrations import MIGRATIONS
from engine.store.open_reader import is_older, open_reader
from engine.store.reader import Reader
from engine.store.salvage import salvage
from engine.store.schema import APPLICATION_ID, SCHEMA_VERSION
from tests.approval import approve
from tests.engine.store.building import note, of_version, write

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
    connection = store._connection
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
    tables = connection.execute(
        "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' "
        "AND type = 'table' AND name NOT LIKE '%sqlite%'"
    ).fetchall()
    assert len(tables) == 27
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
    insert = "INSERT INTO _sqlite_migrations VALUES ({0}, 'crosswind', '{0}', '')"
    changes = (insert.format(number) for number in range(SCHEMA_VERSION + 1, 100))
    changed(path, "PRAGMA user_version = 99", *changes)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def damaged_schema(path: Path) -> None:
    """SQLite's error quotes the name, which is not UTF-8."""
    content = path.read_bytes()
    at = content.index(b"CREATE TABLE note") - 8
    path.write_bytes(content[:at] + b"\xa0\xa0" + content[at + 2 :])


FAULTS: list[tuple[Callable[[Path], None], str]] = [
    (cut_to_nothing, "the file is empty"),
    (of_another_program, "is a database of another program .*: move it away"),
    (garbage, "is damaged .*: `crosswind repair` puts it aside and saves"),
    (damaged_schema, "is damaged .*: `crosswind repair` puts it aside and saves"),
    (damaged_header, "is damaged .*: `crosswind repair` puts it aside and saves"),
    (cut_in_half, "is damaged .*: `crosswind repair` puts it aside and saves"),
    (
        newer,
        rf"newer Crosswind \(store version 99, this one knows {SCHEMA_VERSION}\): update Crosswind",
    ),
    (a_folder, "is a folder: expected the store; move it away"),
]


@pytest.mark.parametrize(("spoil", "sentence"), FAULTS)
def test_a_file_that_is_no_store_is_refused_and_left_as_it_is(
    path: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    made(path)
    spoil(path)
    before = path.read_bytes() if path.is_file() else None
    for use in (open_store, open_reader):
        with pytest.raises(StoreError, match=sentence) as refusal:
            use(path)
        assert str(path) in str(refusal.value)
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_change_that_this_program_does_not_know_is_of_a_newer_one(path: Path) -> None:
    changed(
        made(path),
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) "
        "VALUES ('crosswind', '3 something', 'tomorrow')",
    )
    with pytest.raises(StoreError, match=r"'3 something'.*update Crosswind"):
        open_store(path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
def test_an_older_store_is_whole_and_is_read_as_a_migrated_copy(path: Path, version: int) -> None:
    of_version(path, version)
    before = path.read_bytes()
    assert is_older(path)
    assert faults(path) == []
    with closing(open_reader(path, leave_no_files=True)) as reader:
        assert [fact.text for fact in reader.facts(0)] == ["old"]  # type: ignore[attr-defined]  # only notes were written
        assert reader.spent_usd() == 0
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before

    with open_store(path) as store:  # migrates it in place
        assert write(store, note("new")) == [2]
        assert [fact.text for fact in store.reader.facts(0)] == ["old", "new"]  # type: ignore[attr-defined]  # only notes were written
    assert not is_older(path)
    assert faults(path) == []


def test_of_an_older_store_that_is_being_written_no_copy_is_read(path: Path) -> None:
    of_version(path, 3)
    with (
        hold_workspace(path.parent),
        pytest.raises(StoreError, match=r"is being written by .* an engine of an older Crosswind"),
    ):
        open_reader(path)


def test_a_damaged_store_of_an_older_version_is_damaged(path: Path) -> None:
    of_version(path, 3)
    changed(path, "DROP INDEX metric_of_id")
    approve(faults(path))


def test_what_was_stored_before_served_models_were_kept_reads_as_unsaid(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        database = Database(connection)
        MIGRATIONS.apply(database, stop_before="4 whom one spoke with")
        connection.execute("PRAGMA user_version = 3")
        connection.execute(
            "INSERT INTO take VALUES (1, 5, 'b', 's', 't', 0, 0, NULL, 'u', 'm', 0, NULL)"
        )
        connection.execute(
            "INSERT INTO message VALUES (2, 5, 1, 1, 'user', 'Hello.', NULL, NULL, 0, 'stop', NULL,"
            " ?)",
            (message_digest("user", "Hello."),),
        )
        connection.execute(
            "INSERT INTO attempt (seq, at, benchmark, stage, unit, target, role, model, outcome,"
            " duration_ms, input_tokens, output_tokens, cost_usd)"
            " VALUES (3, 5, 'b', 'simulate', 's__t', 't', 'target', 'm', 'answer', 7, 1, 1, 0.5)"
        )
        old = '{"stages":[],"targets":[["b","t",[0,0,0,0,0],[0,0,0,0,0],{},[9,9,9,9.0],null]]}'
        connection.execute("INSERT INTO summary VALUES (1, 3, ?)", (old,))
        connection.commit()
    with open_store(path) as store:
        [said] = store.reader.messages(1)
        assert (said.text, said.served_by) == ("Hello.", None)
        board = store.reader.snapshot().target("b", "t")
    assert (board.usage.cost_usd, board.replies, board.others) == (0.5, 1, {})


KILLED_IN_A_STEP = """
import sys
from pathlib import Path
from engine.store.database import open_store
open_store(Path(sys.argv[1]))
"""


@pytest.mark.parametrize(("moment", "version"), [("migrating", 1), ("migrated", SCHEMA_VERSION)])
def test_a_store_whose_update_is_killed_is_of_the_old_version_or_the_new(
    path: Path, moment: str, version: int
) -> None:
    of_version(path, 1)
    child = subprocess.run(
        [sys.executable, "-c", KILLED_IN_A_STEP, str(path)],
        env={**os.environ, "CROSSWIND_TEST_KILL_AT": moment},
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert child.returncode == -signal.SIGKILL
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (version,)
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        assert (("lease",) in tables.fetchall()) is (version == SCHEMA_VERSION)
    with open_store(path) as store:
        assert write(store, note()) == [2]


def killed(path: Path, *more: str, notes: int = 1) -> Path:
    """A store whose engine did not end well, with its log and what else lies beside it."""
    made(path)
    crashed = path.with_name("crashed.db")
    with open_store(path) as store:
        for _ in range(notes):
            write(store, note("in the log"))
        for suffix in ("", "-wal", *more):
            source = path.with_name(path.name + suffix)
            crashed.with_name(crashed.name + suffix).write_bytes(source.read_bytes())
    return crashed


def test_a_store_that_lost_its_log_is_opened_and_that_is_said(path: Path) -> None:
    crashed = killed(path)
    crashed.with_name("crashed.db-wal").unlink()
    with open_store(crashed) as store:
        approve(store.warnings)
    with open_store(crashed) as again:
        assert again.warnings == ()


ACKNOWLEDGED = "-acknowledged"


@pytest.mark.parametrize("more", [(), (ACKNOWLEDGED,)])
def test_a_store_whose_engine_was_killed_says_nothing_of_it(
    path: Path, more: tuple[str, ...]
) -> None:
    with open_store(killed(path, *more)) as store:
        assert store.warnings == ()
        assert store.reader.last_seq() == 2


@pytest.mark.parametrize(("notes", "told"), [(1, "the last row is"), (3, "the last 3 rows are")])
def test_of_a_store_that_lost_its_log_it_is_said_how_much_that_held(
    path: Path, notes: int, told: str
) -> None:
    crashed = killed(path, ACKNOWLEDGED, notes=notes)
    crashed.with_name("crashed.db-wal").unlink()
    with open_store(crashed) as store:
        [warning] = store.warnings
    assert f"{told} missing, and" in warning
    with open_store(crashed) as again:
        assert again.warnings == ()


FRAME = 24 + 16384


def without_its_end(log: Path) -> None:
    os.truncate(log, log.stat().st_size - 2 * FRAME)


def harmed_in_its_middle(log: Path) -> None:
    with log.open("r+b") as file:
        file.seek(-3 * FRAME + 100, os.SEEK_END)
        file.write(b"other")


@pytest.mark.parametrize("harm", [without_its_end, harmed_in_its_middle])
def test_a_log_that_holds_less_than_was_acknowledged_is_told_and_left_as_it_is(
    path: Path, harm: Callable[[Path], None]
) -> None:
    crashed = killed(path, ACKNOWLEDGED, notes=9)
    log = crashed.with_name("crashed.db-wal")
    harm(log)
    before = log.read_bytes()
    told = r"rows? that (was|were) written last (is|are) missing from its log crashed\.db-wal"
    for _ in range(2):
        with pytest.raises(StoreError, match=rf"is damaged \(\d {told}.*`crosswind repair`"):
            open_store(crashed)
    assert [re.search(told, fault) is not None for fault in faults(crashed) or ()] == [True]
    assert log.read_bytes() == before


@pytest.mark.parametrize(
    "said", ["", "nonsense", "other 0 99", "\0" * 60, "9" * 5000], ids=lambda said: said[:9]
)
def test_what_does_not_say_what_was_acknowledged_is_passed_over(path: Path, said: str) -> None:
    crashed = killed(path, ACKNOWLEDGED)
    crashed.with_name(f"crashed.db{ACKNOWLEDGED}").write_text(said)
    with open_store(crashed) as store:
        assert store.warnings == ()


def test_a_log_may_hold_more_than_is_known_to_be_acknowledged(path: Path) -> None:
    """As after a power cut: nobody waits until that is on disk."""
    crashed = killed(path, ACKNOWLEDGED, notes=5)
    said = crashed.with_name(f"crashed.db{ACKNOWLEDGED}")
    engine, first, last, _unwritten = said.read_text().split()
    assert int(last) == int(first) + 5
    said.write_text(f"{engine} {first} {int(last) - 3:020d}\n")
    with open_store(crashed) as store:
        assert store.warnings == ()
        assert store.reader.last_seq() == int(last)


def test_a_store_that_could_not_be_opened_is_nobodys(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> Reader:
        raise StoreError(f"{path} could not be read: too many open files")

    made(path)
    with monkeypatch.context() as few_files:
        few_files.setattr(database, "open_reader", refused)
        with pytest.raises(StoreError, match="too many open files"):
            open_store(path)
    with open_store(path) as store:
        assert store.warnings == ()
        assert write(store, note()) == [2]


def test_a_log_without_its_store_is_not_mixed_into_a_new_one(path: Path) -> None:
    path.with_name("crosswind.db-wal").write_bytes(b"what was last written")
    with pytest.raises(StoreError, match=r"is missing, but crosswind\.db-wal beside it"):
        open_store(path)
    assert not path.exists()


def test_a_reader_creates_nothing(path: Path) -> None:
    with pytest.raises(StoreError, match="does not exist yet"):
        open_reader(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("statements", "said", "saved"),
    [
        (
            ["CREATE TRIGGER free AFTER INSERT ON note BEGIN DELETE FROM note; END"],
            "the trigger free is not of Crosswind",
            1,
        ),
        (
            # reading a row of it would never end
            [
                "ALTER TABLE note RENAME TO note_",
                "CREATE VIEW note AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1"
                " FROM n) SELECT note_.* FROM note_, n",
            ],
            "the table note_ is not of Crosswind; the view note is not of Crosswind; "
            "the table note is missing",
            0,
        ),
        (["DROP INDEX state_failed"], "the index state_failed is missing", 1),
        (
            ["DROP VIEW pass_rates", "CREATE VIEW pass_rates AS SELECT 1"],
            "the view pass_rates is not as it was made",
            1,
        ),
    ],
)
def test_a_store_with_parts_of_others_is_refused_with_their_names_and_its_rows_are_saved(
    path: Path, statements: list[str], said: str, saved: int
) -> None:
    made(path)
    before = rows(path)
    changed(path, *statements)
    for use in (open_store, open_reader):
        with pytest.raises(StoreError, match=re.escape(said)):
            use(path)
    assert faults(path) == [said]
    assert integrity.spent_usd(path) is None
    into = path.with_name("saved.db")
    assert salvage(path, into).saved == saved
    assert rows(into) == before[:saved]


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM note").fetchall()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere is not a folder"):
        open_store(tmp_path / "nowhere" / "crosswind.db")


def test_the_deepest_mount_tells_the_file_system_and_the_later_of_two() -> None:
    kinds = {
        "/var/lib/work": "ext4",
        "/home/me/work": "nfs4",
        "/home/me/local disk/work": "ext4",
        "/mnt/far/away": "fuse.sshfs",
        "/mnt/farther": "ext4",
    }
    assert {place: file_system(Path(place), mounts_of_linux(MOUNTS)) for place in kinds} == kinds
    both = [("/mnt", "nfs"), ("/mnt", "ext4")]
    assert file_system(Path("/mnt/x"), both) == "ext4"


def test_a_network_file_system_is_refused_with_a_way_out(path: Path) -> None:
    mounts = [(str(path.parent.parent), "nfs")]
    with pytest.raises(StoreError, match=r"network file system \(nfs\).*`store: PATH`"):
        open_store(path, mounts=mounts)
    assert not path.exists()


MOUNT_OF_A_MAC = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
devfs on /dev (devfs, local, nobrowse)
/dev/disk3s5 on /System/Volumes/Data (apfs, local, journaled, nobrowse, protect)
//me@nas._smb._tcp.local/share (old) on /Volumes/my share (smbfs, nodev, nosuid, mounted by me)
host:/export on /Volumes/far (nfs, nodev, nosuid)
"""


def test_a_mac_tells_its_file_systems_in_its_own_way() -> None:
    mounts = mounts_of_a_mac(MOUNT_OF_A_MAC)
    kinds = {"/Users/me/work": "apfs", "/Volumes/my share/work": "smbfs", "/Volumes/far/w": "nfs"}
    assert {place: file_system(Path(place), mounts) for place in kinds} == kinds
    refuse_network(Path("/Users/me/work"), mounts)
    with pytest.raises(StoreError, match=r"network file system \(nfs\).*`store: PATH`"):
        refuse_network(Path("/Volumes/far/w"), mounts)


AS_ANOTHER_USER = """
import os, sys
from pathlib import Path
path = Path(sys.argv[1])
from engine.errors import StoreError
from engine.store.database import open_store
from engine.store.open_reader import open_reader
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
    assert "cannot be written" in refusal
    assert seq == "1"
