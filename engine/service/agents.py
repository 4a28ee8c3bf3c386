"""Opens the worker agents that make an engine's calls, if the settings ask for them."""

from __future__ import annotations

from pathlib import Path

from engine.cluster.dask_agents import agents_here, agents_of_cluster
from engine.cluster.folder import folder_of
from engine.cluster.local_processes import LocalProcesses
from engine.cluster.pool import AgentPool
from engine.config.workspace import LOG_FILE
from engine.pipeline.written_endpoints import GivenValues
from engine.service.engine import Engine
from engine.service.spawning import AgentSettings


def values_for(settings: AgentSettings) -> GivenValues:
    """The keys that the agents may be told."""
    at_home = settings.cluster is None
    return GivenValues(forwards=settings.forwards_keys, at_home=at_home)


def open_agents(
    root: Path,
    settings: AgentSettings,
    given: GivenValues,
    engine: Engine,
    processes: LocalProcesses | None,
) -> AgentPool:
    """Open a pool of agents; nothing connects before it is started. `processes` are local workers
    that are already starting, if any. Raises `InputError` for a cluster that cannot be used."""
    log = root / LOG_FILE
    if settings.cluster is None:
        source = agents_here(processes or LocalProcesses(settings.workers), root, log)
    else:
        source = agents_of_cluster(folder_of(settings.cluster), root, log)
    return AgentPool(
        source, given.values, on_note=engine.warn, on_waiting=engine.waiting_for_workers
    )
