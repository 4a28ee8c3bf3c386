"""A workspace of others, and one of ours to take it into."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.importing.building import BENCHMARK, CONFIG, Ours, Theirs, scenario


@pytest.fixture
def theirs(tmp_path: Path) -> Theirs:
    made = Theirs(tmp_path / "theirs")
    made.folder.mkdir(parents=True)
    (made.folder / "benchmark.yaml").write_text(BENCHMARK, "utf-8")
    made.write("scenarios.json", [scenario(), scenario("m02_s001_v01")])
    return made


@pytest.fixture
def ours(tmp_path: Path) -> Ours:
    root = tmp_path / "ours"
    root.mkdir()
    (root / "config.yaml").write_text(CONFIG, "utf-8")
    return Ours(root)
