"""A pipe or a device where a file is expected: said in words at once, and never waited for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from engine.cli.main import main
from tests.engine.cli.test_bad_input import BENCHMARK, CONFIG

_PATIENCE_S: Final = 30.0

BENCH: Final = "benchmarks/giving-in"


@dataclass(frozen=True)
class Said:
    code: int
    text: str


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("played") / "place"
    (root / BENCH).mkdir(parents=True)
    (root / "config.yaml").write_text(CONFIG, "utf-8")
    (root / ".env").write_text("A=b\n", "utf-8")
    (root / BENCH / "benchmark.yaml").write_text(BENCHMARK, "utf-8")
    assert main(["run", "--headless", "--workspace", str(root)]) == 0
    return root


@pytest.fixture
def place(played: Path, tmp_path: Path) -> Path:
    root = tmp_path / "place"
    shutil.copytree(played, root)
    return root


def said(root: Path, *words: str) -> Said:
    """In a process of its own, so that one that waits for ever is ended."""
    done = subprocess.run(
        [sys.executable, "-m", "tui", *words, "--workspace", str(root)],
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return Said(done.returncode, done.stdout + done.stderr)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


READ: Final = {
    "config.yaml": ("run", "--headless"),
    f"{BENCH}/benchmark.yaml": ("run", "--headless"),
    f"{BENCH}/scenarios.json": ("run", "--headless"),
    ".env": ("doctor",),
    "crosswind.log": ("run", "--detach"),
    "crosswind.lock": ("run", "--headless"),
    "crosswind.db": ("status",),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [a_pipe, a_device])
@pytest.mark.parametrize("name", READ)
def test_a_pipe_or_device_in_place_of_a_file_is_refused_in_words(
    place: Path, name: str, make: Callable[[Path], None]
) -> None:
    (place / name).unlink(missing_ok=True)
    make(place / name)
    done = said(place, *READ[name])
    assert done.code == 2, done
    assert Path(name).name in done.text
    assert "Traceback" not in done.text
    assert "bug in Crosswind" not in done.text


def test_a_benchmark_that_leads_to_a_device_is_said_to(place: Path) -> None:
    definition = place / BENCH / "benchmark.yaml"
    definition.unlink()
    a_device(definition)
    commands: list[tuple[str, ...]] = [("run", "--headless"), ("results",), ("status",)]
    for words in commands:
        done = said(place, *words)
        assert "there is no benchmark yet" not in done.text, done
    for words in (*commands[:1], ("run", "--headless", "giving-in"), ("doctor",)):
        done = said(place, *words)
        assert str(definition.parent) in done.text, done
        assert "its benchmark.yaml leads to a pipe or a device, and is not read" in done.text, done


AMONG: Final[dict[str, list[tuple[str, ...]]]] = {
    "scenarios.json": [
        ("repair", "--yes"),
        ("mirror",),
        ("doctor",),
        ("validate", "giving-in", "--swap", "user", "--with", "holds", "--yes"),
    ],
    "runs/holds/conversations.json": [("repair", "--yes"), ("mirror",), ("mirror", "--diff")],
    "runs/holds/scores.json": [("mirror",)],
}
WAITED_FOR: Final = [(name, words) for name, commands in AMONG.items() for words in commands]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("name", "words"), WAITED_FOR, ids=str)
def test_no_command_waits_for_a_pipe_among_the_files_of_a_benchmark(
    place: Path, name: str, words: tuple[str, ...]
) -> None:
    file = place / BENCH / name
    file.unlink()
    a_pipe(file)
    done = said(place, *words)
    assert done.code in {0, 1, 2}, done
    assert "Traceback" not in done.text, done
    assert "bug in Crosswind" not in done.text, done


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [a_pipe, a_device])
@pytest.mark.parametrize("name", ["scenarios.json", "runs/holds/conversations.json"])
def test_an_import_refuses_a_pipe_or_device_in_words(
    place: Path, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(place / BENCH, theirs)
    (theirs / name).unlink()
    make(theirs / name)
    done = said(place, "import", str(theirs))
    assert done.code in {1, 2}, done
    assert Path(name).name in done.text
    assert "Traceback" not in done.text
    assert "bug in Crosswind" not in done.text
