"""A stage for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.theatre import Theatre


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    stage = Theatre(tmp_path)
    yield stage
    stage.close()
