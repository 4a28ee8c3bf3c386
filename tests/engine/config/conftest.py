"""Builders of files, and what every test of a refusal asks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import InputError


def _writer(path: Path) -> Callable[[str | bytes], Path]:
    def write(content: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


@pytest.fixture
def config_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Writes the workspace's `config.yaml`."""
    return _writer(tmp_path / "config.yaml")


@pytest.fixture
def benchmark_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Writes the `benchmark.yaml` of a benchmark called `own-view`."""
    return _writer(tmp_path / "benchmarks" / "own-view" / "benchmark.yaml")


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[Callable[[], object]], InputError]:
    """The error of an action that must raise one, and leave every file and folder as it was."""

    def everything() -> dict[Path, bytes | None]:
        paths = tmp_path.rglob("*")
        return {path: path.read_bytes() if path.is_file() else None for path in paths}

    def refuse(action: Callable[[], object]) -> InputError:
        before = everything()
        with pytest.raises(InputError) as caught:
            action()
        assert everything() == before
        return caught.value

    return refuse


def told(error: InputError) -> dict[str | None, tuple[int | None, int | None, str]]:
    """By key: line, column, and what is said with its hint."""
    return {
        problem.key: (problem.line, problem.column, f"{problem.what} ({problem.hint})")
        for problem in error.problems
    }
