"""A stage with an engine on it, in a folder short enough for a socket."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.service.staging import Stage, Stranger


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short: pytest's own may be longer than what a socket's path may be."""
    with tempfile.TemporaryDirectory(prefix="cw") as name:
        yield Path(name)


@pytest.fixture
def stage(folder: Path) -> Iterator[Stage]:
    stage = Stage(folder / "own" / "engine.sock")
    yield stage
    stage.close()


@pytest.fixture
def stranger(stage: Stage) -> Iterator[Stranger]:
    """Somebody who speaks to an engine that runs."""
    stage.start()
    stranger = Stranger(stage.path)
    yield stranger
    stranger.close()
