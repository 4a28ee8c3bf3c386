"""What is wrong around the program is said in a sentence, and is no bug of the program."""

from __future__ import annotations

import os
import pwd
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

import crosswind
from engine.cli.person_labels import person_named, this_account
from engine.errors import CrosswindError
from tests.approval import approve
from tests.engine.commands import command
from tests.engine.small_workspace import small_workspace
from tui.services.preferences import choices_file

ROOT = Path(__file__).parents[3]
FULL = "crosswind: the output could not be written: No space left on device\n"
CLOSED = "crosswind: the output could not be written: Bad file descriptor\n"
GONE = "crosswind: the current folder was deleted: change to another one\n"
WITHOUT_FULL = not Path("/dev/full").exists()


def in_shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in which `$CW` is the command."""
    return subprocess.run(
        ["/bin/sh", "-c", script],
        cwd=folder,
        env={**os.environ, "CW": f"{sys.executable} -m crosswind", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("around")
    small_workspace(folder)
    (folder / "shadow").mkdir()
    (folder / "shadow" / "tui.py").touch()
    return folder


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        (
            "$CW run --headless --yes 2>&1 >/dev/null | grep -m1 -q 00:00; "
            "grep -q begins crosswind.log && ! grep 'a bug' crosswind.log",
            0,
            "",
        ),
        ("$CW run --headless --yes <&- >&- 2>&- && $CW status --json <&- | grep -q spent", 0, ""),
        ("$CW status --json <&- >&-", 2, CLOSED),
        ("$CW --help >/dev/full", 2, FULL),
        ("$CW init 2>/dev/full", 2, ""),  # the reason cannot be said, as that is full as well
        ("mkdir gone; cd gone; rmdir ../gone; $CW status", 2, GONE),
        ("mkdir gone; cd gone; rmdir ../gone; $CW --workspace $OLDPWD status >/dev/null", 0, ""),
        ("ulimit -v 55000; $CW results", 2, "there is too little memory of 53 MB (`ulimit -v`)"),
        (
            "cd shadow; PYTHONPATH=.:$PYTHONPATH $CW status",
            2,
            "/shadow/tui.py is in the place of Crosswind's own package `tui`: unset PYTHONPATH, or "
            "take ",
        ),
    ],
)
def test_what_is_wrong_around_a_command_is_said(
    script: str, code: int, said: str, folder: Path
) -> None:
    if "/dev/full" in script and WITHOUT_FULL:
        pytest.skip("this system has no /dev/full")
    done = in_shell(script, folder)
    assert (done.returncode, "a bug in" in done.stderr) == (code, False), done.stderr
    assert said in done.stderr if said else done.stderr == ""


def test_a_user_without_an_account_is_named_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_account(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("LOGNAME", "USER", "LNAME", "USERNAME", "HOME", "CROSSWIND_PERSON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_such_account)
    assert person_named(None) == f"uid{os.getuid()}"
    assert this_account().startswith(f"uid{os.getuid()}@")
    assert str(choices_file({})).startswith("/.config/crosswind/")


def test_a_sqlite_that_is_too_old_is_named_before_anything_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_workspace(tmp_path)
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    told = []
    for words in (["status"], ["repair", "--yes"], ["doctor"], ["run", "--headless"]):
        said = command(*words, "--workspace", str(tmp_path), code=2)
        assert said.out == ""
        told.append(said.err)
    approve("".join(dict.fromkeys(told)))
    with pytest.raises(CrosswindError, match=r"this Python has SQLite 3\.34\.1"):
        crosswind.open(tmp_path)
    assert not (tmp_path / "crosswind.db").exists()
