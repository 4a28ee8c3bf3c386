"""As `tests/engine/pipeline/test_random_states.py`, of many more states."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.pipeline.test_random_states import hold


@pytest.mark.parametrize("seed", range(30, 230))
def test_states_agree_and_are_what_a_run_does(seed: int, tmp_path: Path) -> None:
    hold(tmp_path, seed)
