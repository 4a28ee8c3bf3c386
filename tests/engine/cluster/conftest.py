"""A cluster's folder, with its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.commands import command


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "cluster"
    command("cluster", "init", "--out", str(path), code=0)
    return path
