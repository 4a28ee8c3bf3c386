"""A small workspace, and a run on it in this process."""

from __future__ import annotations

import pytest

from engine.benchmark import Stage


@pytest.fixture
def stages() -> type[Stage]:
    return Stage
