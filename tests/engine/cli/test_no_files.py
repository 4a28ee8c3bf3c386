"""A pipe or a device where a file is expected: said in words at once, and never waited for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.engine.commands import crosswind
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


@pytest.mark.parametrize("make", [a_pipe, a_device])
@pytest.mark.parametrize("name", READ)
def test_a_pipe_or_device_in_place_of_a_file_is_refused_in_words(
    place: Path, name: str, make: Callable[[Path], None]
) -> None:
    check_refused(place, name, make, READ[name])


@pytest.mark.process
@pytest.mark.parametrize("make", [a_pipe, a_device])
def test_so_is_one_in_place_of_the_log(place: Path, make: Callable[[Path], None]) -> None:
    check_refused(place, "crosswind.log", make, ("run", "--detach"))


def check_refused(
    place: Path, name: str, make: Callable[[Path], None], words: tuple[str, ...]
) -> None:
    (place / name).unlink(missing_ok=True)
    make(place / name)
    done = crosswind(place, *words, code=2)
    assert Path(name).name in done.text
    assert "Traceback" not in done.text
    assert "bug in Crosswind" not in done.text


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
WAITED_FOR: Final = [(name, words) for name, commands in AMONG.items() for words in commands]


@pytest.mark.parametrize(("name", "words"), WAITED_FOR, ids=str)
def test_no_command_waits_for_a_pipe_among_the_files_of_a_benchmark(
    place: Path, name: str, words: tuple[str, ...]
) -> None:
    file = place / BENCH / name
    file.unlink()
    a_pipe(file)
    done = crosswind(place, *words)
    assert done.code in {0, 1, 2}, done
    assert "Traceback" not in done.text, done
    assert "bug in Crosswind" not in done.text, done


@pytest.mark.parametrize("make", [a_pipe, a_device])
@pytest.mark.parametrize("name", ["scenarios.json", "runs/holds/conversations.json"])
def test_an_import_refuses_a_pipe_or_device_in_words(
    place: Path, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(place / BENCH, theirs)
    (theirs / name).unlink()
    make(theirs / name)
    done = crosswind(place, "import", str(theirs))
    assert done.code in {1, 2}, done
    assert Path(name).name in done.text
    assert "Traceback" not in done.text
    assert "bug in Crosswind" not in done.text
