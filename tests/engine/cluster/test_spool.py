"""The temporary folders of workers do not pile up, even if the workers are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cluster.spool import temporary_spool
from tests.waiting import Child

HOLD = """
import sys
from engine.cluster.spool import temporary_spool
with temporary_spool() as path:
    print(path, flush=True)
    sys.stdin.read()
"""
LONG_AGO = (1_000_000_000, 1_000_000_000)

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def holder() -> Child:
    return Child(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def told(process: Child) -> Path:
    assert process.stdout is not None
    path = Path(process.stdout.readline().strip())
    (path / "dask-scratch-space").mkdir()
    return path


def test_the_folder_of_a_killed_process_is_removed_by_the_next_and_that_of_a_living_one_is_not(
    temporary: Path,
) -> None:
    theirs = temporary / "crosswind-spool-theirs"
    theirs.symlink_to(temporary.parent)
    with holder() as killed, holder() as living:
        left, held = told(killed), told(living)
        killed.kill()
        killed.wait()
        for path in (left, held):
            os.utime(path, LONG_AGO)
        with temporary_spool() as own:
            assert {*temporary.iterdir()} == {held, theirs, Path(own)}
        assert {*temporary.iterdir()} == {held, theirs}
        assert (held / "dask-scratch-space").is_dir()
    assert temporary.parent.is_dir()


def test_a_folder_that_was_just_made_is_left_alone_as_it_may_not_be_locked_yet(
    temporary: Path,
) -> None:
    new = temporary / "crosswind-spool-new"
    new.mkdir()
    with temporary_spool():
        assert new.is_dir()
    os.utime(new, LONG_AGO)
    with temporary_spool():
        assert not new.exists()


def test_a_folder_of_another_user_is_left_alone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = temporary / "crosswind-spool-other"
    other.mkdir()
    os.utime(other, LONG_AGO)
    monkeypatch.setattr("os.getuid", lambda: other.stat().st_uid + 1)
    with temporary_spool():
        assert other.is_dir()
