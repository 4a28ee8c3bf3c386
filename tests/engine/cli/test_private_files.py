"""What was said is for its user alone, whichever command makes the file and under whatever mask."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from engine.files import NewFile
from engine.store.lock import workspace_holder
from tests.engine.commands import crosswind
from tests.engine.importing.building import BENCHMARK, CONFIG
from tests.engine.small_workspace import small_workspace
from tests.waiting import until

NAMES: Final = ("crosswind.db*", "search.db*", "crosswind.lock", "crosswind.log")
RUN: Final = ("run", "--headless", "--anew", "--yes")


@contextmanager
def mask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_workspace(tmp_path / "place", CONFIG, BENCHMARK).root


def do(root: Path, *words: str) -> None:
    assert crosswind(root, *words).code in {0, 1}


def kept(root: Path) -> dict[str, int]:
    files = [path for name in NAMES for path in root.glob(name)]
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}


def imported(root: Path) -> None:
    theirs = root.parent / "theirs"
    shutil.copytree(root, theirs, ignore=shutil.ignore_patterns("*.db*"))
    for path in root.glob("*.db*"):
        path.unlink()
    do(root, "import", str(theirs))


def repaired(root: Path) -> None:
    (root / "crosswind.db").write_bytes(b"garbage" * 9000)
    do(root, "repair", "--yes")
    assert list(root.glob("crosswind.db.damaged-*"))


@pytest.mark.exhaustive
def test_all_that_a_command_makes_is_0600_under_any_mask(root: Path) -> None:
    def check() -> None:
        modes = kept(root)
        assert "crosswind.db" in modes
        assert {name for name, mode in modes.items() if mode != 0o600} == set()

    log = root / "crosswind.log"
    log.write_text("what an older version wrote\n", "utf-8")
    log.chmod(0o644)
    with mask(0):
        do(root, *RUN)
        check()
        assert log.read_text("utf-8").startswith("what an older version wrote\n")
        do(root, "search", "the")
        do(root, "results")
        check()
        # what others may read is made private by who opens it to write
        for words, mine in ((("search", "the"), "search.db"), (RUN, "crosswind.db")):
            for path in [*root.glob("crosswind.db*"), *root.glob("search.db*")]:
                path.chmod(0o644)
            do(root, *words)
            left = {name for name, mode in kept(root).items() if mode != 0o600}
            assert not {name for name in left if name.startswith(mine)}
        imported(root)
        check()
        repaired(root)
        check()


@pytest.mark.exhaustive
@pytest.mark.parametrize(("how", "bits"), [("--headless", 0o022), ("--detach", 0)])
def test_files_for_people_have_the_modes_of_the_mask_however_a_run_is_started(
    root: Path, how: str, bits: int
) -> None:
    with mask(bits):
        do(root, "run", how, "--anew", "--yes")
        until(lambda: workspace_holder(root) is None and any(root.glob("benchmarks/*/runs/*/*")))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in root.glob("benchmarks/*/runs/*/*")}
    assert modes == {0o666 & ~bits}


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.touch()
    path.chmod(0o640)
    new = NewFile(path, ["a,b"])
    assert stat.S_IMODE(new.path.stat().st_mode) == 0o640
    new.move(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
