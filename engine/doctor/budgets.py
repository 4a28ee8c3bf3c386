"""What a run, and all runs together, may cost."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from engine.config.settings import Config
from engine.doctor.findings import Area, Finding, State
from engine.errors import StoreError
from engine.pipeline.quoting import budget_words
from engine.store.reading import open_reader


def budget_findings(config: Config, store: Path) -> list[Finding]:
    """None where no budget is set."""
    words = list(budget_words(config, _spent_usd(store)))
    return [Finding(Area.CONFIGURATION, "budget", State.OK, one) for one in words]


def _spent_usd(store: Path) -> float | None:
    """None where the store cannot be read, which is told elsewhere."""
    if not store.exists():
        return 0.0
    try:
        with closing(open_reader(store)) as reader:
            return reader.spent_usd()
    except StoreError:
        return None
