"""What a run, and all runs together, may cost."""

from __future__ import annotations

from pathlib import Path

from engine.config.settings import Config
from engine.doctor.findings import Area, Finding, State
from engine.pipeline.quoting import budget_words
from engine.store.health import spent_usd


def budget_findings(config: Config, store: Path) -> list[Finding]:
    """None where no budget is set."""
    words = list(budget_words(config, spent_usd(store) if store.exists() else 0.0))
    return [Finding(Area.CONFIGURATION, "budget", State.OK, one) for one in words]
