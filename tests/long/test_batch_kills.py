"""A run that is judged in batches and killed ten times submits nothing twice and costs half."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.killing.batches import kill_at

MOMENTS: Final = (
    *("batch-intended:2", "batch-intended", "batch-submitted", "batch-submitted:1", "sent"),
    *("committing:4", "sending:2", "acknowledged", "changing-state", "committed:5"),
)


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_ten_kills_submit_nothing_twice_and_cost_half(source: str, tmp_path: Path) -> None:
    kill_at(tmp_path / "workspace", source, MOMENTS)
