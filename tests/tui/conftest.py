"""A stage for each test, before which the app is waited for until it is idle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.tui.idle import waiting_for_idleness
from tests.tui.theatre import Theatre
from tui.screens import results
from tui.state import feeds


@pytest.fixture(autouse=True, scope="session")
def waits_until_idle() -> Iterator[None]:
    with waiting_for_idleness():
        yield


@pytest.fixture(autouse=True, scope="session")
def works_in_no_time() -> Iterator[None]:
    """How long this machine took over something says nothing of when it is due by the theatre's
    clock."""
    with patch.object(feeds, "SHARE", 0), patch.object(results, "SHARE", 0):
        yield


@pytest.fixture
def theatre(tmp_path: Path) -> Iterator[Theatre]:
    stage = Theatre(tmp_path)
    yield stage
    stage.close()
