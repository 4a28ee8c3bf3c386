"""A small workspace, and a run on it in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.benchmark import Stage
from tests.engine.small_workspace import Place, small_workspace


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return small_workspace(tmp_path)


@pytest.fixture
def stages() -> type[Stage]:
    return Stage
