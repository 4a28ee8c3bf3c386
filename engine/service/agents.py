"""Opens the worker agents that make an engine's calls, if anybody asked for them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from engine.cluster.pool import AgentPool
from engine.config.schema import Config
from engine.config.workspace import LOG_FILE
from engine.errors import InputError, Problem
from engine.pipeline.written_endpoints import GivenValues
from engine.service.engine import Engine
from engine.service.spawning import EngineSettings

_PACKAGES: Final = ("distributed", "cryptography")
"""What workers need; an optional extra."""


def open_agents(
    settings: EngineSettings, config: Config, given: GivenValues, engine: Engine
) -> AgentPool:
    """Open a pool of agents; nothing connects before it is started. Raises `InputError` if a
    package that workers need is missing."""
    _require_extra()
    from engine.cluster.dask_agents import agents_here, agents_of_cluster  # imports Dask

    log = settings.root / LOG_FILE
    if settings.workers or config.cluster is None:
        source = agents_here(settings.workers, settings.root, log)
    else:
        source = agents_of_cluster(config.cluster.scheduler, settings.root, log)
    return AgentPool(
        source, given.values, on_note=engine.warn, on_waiting=engine.waiting_for_workers
    )


def _require_extra() -> None:
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        are = "are" if missing[1:] else "is"
        what = f"workers need {' and '.join(missing)}, which {are} not installed"
        hint = "pip install 'crosswind[cluster]', or pipx inject crosswind distributed cryptography"
        raise InputError(Problem(what, hint=hint))
