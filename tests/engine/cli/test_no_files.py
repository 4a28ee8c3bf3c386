"""A pipe or a device where a file is expected: said in words at once, and never waited for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.engine.commands import Said, crosswind
from tests.engine.small_workspace import small_workspace

BENCH: Final = "benchmarks/giving-in"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("played") / "place"
    small_workspace(root)
    (root / ".env").write_text("A=b\n", "utf-8")
    crosswind(root, "run", "--headless", code=0)
    return root


@pytest.fixture
def place(played: Path, tmp_path: Path) -> Iterator[Path]:
    root = tmp_path / "place"
    shutil.copytree(played, root)
    yield root
    for pipe in filter(Path.is_fifo, root.rglob("*")):
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # lets go whoever still waits for it


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


READ: Final = {
    "config.yaml": ("run", "--headless"),
    f"{BENCH}/benchmark.yaml": ("run", "--headless"),
    f"{BENCH}/scenarios.json": ("run", "--headless"),
    ".env": ("doctor",),
    "crosswind.lock": ("run", "--headless"),
    "crosswind.db": ("status",),
}


@contextmanager
def in_place_of(path: Path, make: Callable[[Path], None]) -> Iterator[None]:
    """What is made stands there for the time; then the file again, if there was one."""
    before = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    make(path)
    yield
    path.unlink(missing_ok=True)
    if before is not None:
        path.write_bytes(before)


def check_told(done: Said, *codes: int) -> None:
    assert done.code in codes, done
    assert "Traceback" not in done.text
    assert "bug in Crosswind" not in done.text


@pytest.mark.process
def test_a_pipe_or_device_in_place_of_a_file_is_refused_in_words(place: Path) -> None:
    for name, words in {**READ, "crosswind.log": ("run", "--detach")}.items():
        for make in (a_pipe, a_device):
            with in_place_of(place / name, make):
                done = crosswind(place, *words)
            check_told(done, 2)
            assert Path(name).name in done.text


def test_a_benchmark_that_leads_to_a_device_is_said_to(place: Path) -> None:
    definition = place / BENCH / "benchmark.yaml"
    definition.unlink()
    a_device(definition)
    commands: list[tuple[str, ...]] = [("run", "--headless"), ("results",), ("status",)]
    for words in commands:
        done = crosswind(place, *words)
        assert "no benchmark yet" not in done.text, done
    for words in (*commands[:1], ("run", "--headless", "giving-in"), ("doctor",)):
        done = crosswind(place, *words)
        assert str(definition.parent) in done.text, done
        assert "leads to a pipe" in done.text, done


AMONG: Final[dict[str, list[tuple[str, ...]]]] = {
    "scenarios.json": [
        ("repair", "--yes"),
        ("repair", "--files"),
        ("doctor",),
        ("validate", "giving-in", "--swap", "user", "--with", "holds", "--yes"),
    ],
    "runs/holds/conversations.json": [
        ("repair", "--yes"),
        ("repair", "--files"),
        ("repair", "--files", "--diff"),
    ],
    "runs/holds/scores.json": [("repair", "--files")],
}


def test_no_command_waits_for_a_pipe_among_the_files_of_a_benchmark(place: Path) -> None:
    for name, commands in AMONG.items():
        for words in commands:
            with in_place_of(place / BENCH / name, a_pipe):
                check_told(crosswind(place, *words), 0, 1, 2)


def test_an_import_refuses_a_pipe_or_device_in_words(place: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(place / BENCH, theirs)
    for name in ("scenarios.json", "runs/holds/conversations.json"):
        for make in (a_pipe, a_device):
            with in_place_of(theirs / name, make):
                done = crosswind(place, "import", str(theirs))
            check_told(done, 1, 2)
            assert Path(name).name in done.text
