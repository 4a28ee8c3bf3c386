"""A stage for each test, before which the app is waited for until it is idle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.idle import waiting_for_idleness
from tests.tui.theatre import Theatre


@pytest.fixture(autouse=True, scope="session")
def waits_until_idle() -> Iterator[None]:
    with waiting_for_idleness():
        yield


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    stage = Theatre(tmp_path)
    yield stage
    stage.close()
