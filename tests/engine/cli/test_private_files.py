"""What was said is for its user alone, whichever command makes the file and under whatever mask."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Iterator
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


@pytest.fixture(params=[0, 0o022], ids=["umask 0", "umask 022"], autouse=True)
def mask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return small_workspace(tmp_path / "place", CONFIG, BENCHMARK).root


def do(root: Path, *words: str) -> None:
    assert crosswind(root, *words).code in {0, 1}


def kept(root: Path) -> dict[str, int]:
    files = [path for name in NAMES for path in root.glob(name)]
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in files}


def ran(root: Path) -> None:
    do(root, *RUN)


def searched(root: Path) -> None:
    do(root, *RUN)
    do(root, "search", "the")


def counted(root: Path) -> None:
    do(root, *RUN)
    do(root, "results")


def imported(root: Path) -> None:
    do(root, *RUN)
    theirs = root.parent / "theirs"
    shutil.copytree(root, theirs, ignore=shutil.ignore_patterns("*.db*"))
    for path in root.glob("*.db*"):
        path.unlink()
    do(root, "import", str(theirs))


def repaired(root: Path) -> None:
    do(root, *RUN)
    (root / "crosswind.db").write_bytes(b"garbage" * 9000)
    do(root, "repair", "--yes")
    assert list(root.glob("crosswind.db.damaged-*"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("made", [ran, searched, counted, imported, repaired])
def test_all_that_a_command_makes_is_0600(root: Path, made: Callable[[Path], None]) -> None:
    made(root)
    modes = kept(root)
    assert "crosswind.db" in modes
    assert {name for name, mode in modes.items() if mode != 0o600} == set()


@pytest.mark.exhaustive
def test_a_log_that_others_may_read_is_made_private_by_a_run(root: Path) -> None:
    log = root / "crosswind.log"
    log.write_text("what an older version wrote\n", "utf-8")
    log.chmod(0o644)
    do(root, *RUN)
    assert kept(root)["crosswind.log"] == 0o600
    assert log.read_text("utf-8").startswith("what an older version wrote\n")


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", [RUN, ("search", "the")], ids=["run", "search"])
def test_what_others_may_read_is_made_private_by_who_opens_it_to_write(
    root: Path, words: tuple[str, ...]
) -> None:
    searched(root)
    for path in [*root.glob("crosswind.db*"), *root.glob("search.db*")]:
        path.chmod(0o644)
    do(root, *words)
    mine = "search.db" if words[0] == "search" else "crosswind.db"
    left = {name for name, mode in kept(root).items() if mode != 0o600}
    assert not {name for name in left if name.startswith(mine)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["--headless", "--detach"])
def test_files_for_people_have_the_modes_of_the_mask_however_a_run_is_started(
    root: Path, how: str
) -> None:
    mask = os.umask(0)
    os.umask(mask)
    do(root, "run", how, "--anew", "--yes")
    until(lambda: workspace_holder(root) is None and any(root.glob("benchmarks/*/runs/*/*")))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in root.glob("benchmarks/*/runs/*/*")}
    assert modes == {0o666 & ~mask}


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.touch()
    path.chmod(0o640)
    new = NewFile(path, ["a,b"])
    assert stat.S_IMODE(new.path.stat().st_mode) == 0o640
    new.move(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
