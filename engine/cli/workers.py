"""`--workers`, `--cluster` and `--forward-keys`: which processes make the calls of an engine; and
`crosswind cluster`, which makes a cluster's key, runs its scheduler and workers, and lists them."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from engine.cli.console import tell
from engine.cli.session import Session, open_session
from engine.cluster.folder import folder_of
from engine.cluster.local_processes import LocalProcesses
from engine.config.schema import Config, Target
from engine.errors import InputError, Problem
from engine.service.spawning import AgentSettings

MOST_WORKERS: Final = 64
_PACKAGES: Final = ("distributed", "cryptography")
"""What workers need; an optional extra."""


def agents_asked_for(arguments: argparse.Namespace) -> AgentSettings | None:
    """The workers that the options ask for; None where the engine makes its calls itself. Raises
    `InputError`."""
    workers: int | None = arguments.workers
    cluster: Path | None = arguments.cluster
    if cluster is None and arguments.forward_keys:
        what = "--forward-keys is for --cluster: without it nobody has to be told them"
        raise InputError(Problem(what))
    if workers is None and cluster is None:
        return None
    if workers is not None and cluster is not None:
        what = "--workers starts processes of this machine, --cluster has others"
        raise InputError(Problem(what, hint="leave one of the two out"))
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        what = f"--workers {workers}: expected a whole number from 1 to {MOST_WORKERS}"
        raise InputError(Problem(what, hint="more than one for each core helps nobody"))
    require_extra()
    folder = None if cluster is None else folder_of(cluster).path.absolute()
    return AgentSettings(workers or 0, folder, arguments.forward_keys)


def open_with_workers(arguments: argparse.Namespace) -> Session:
    """As `open_session`, for a command that may start an engine. Raises `InputError`."""
    agents = agents_asked_for(arguments)
    session = replace(open_session(arguments), agents=agents)
    if agents is not None and (stays := _stays_here(session.config)) is not None:
        tell(f"note: {stays}")
    return session


@contextmanager
def workers_begun(session: Session) -> Iterator[Session]:
    """The session with its local worker processes, if it asks for any. They load their modules
    while the plan is priced, and end with the block."""
    agents = session.agents
    if agents is None or agents.cluster is not None:
        yield session
        return
    processes = LocalProcesses(agents.workers)
    try:
        yield replace(session, processes=processes)
    finally:
        processes.close()


def _stays_here(config: Config) -> str | None:
    """A sentence about models that workers do not call; None where there are none."""
    specs = [*config.models_beside_targets, *config.targets]
    here = sum(spec.is_offline or (isinstance(spec, Target) and bool(spec.call)) for spec in specs)
    if not here:
        return None
    rest = "workers make the calls of the others" if here < len(specs) else "workers have no part"
    return f"scripted models and Python functions answer in the engine itself: {rest}"


def cluster(arguments: argparse.Namespace) -> int:
    require_extra()
    # our own sentences replace Dask's log; the worker's process inherits this
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    os.environ.setdefault("DASK_LOGGING__ASYNCIO", "critical")
    # such as that it found no network: it goes on with this machine
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="distributed")
    # imported here: Dask may not be installed, and reads its log settings on import
    from engine.cli.cluster_actions import ACTIONS

    return ACTIONS[arguments.action](arguments)


def require_extra() -> None:
    """Raise `InputError` if a package that workers need is missing. Imports none of them."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(
            Problem(
                f"workers need {' and '.join(missing)}, which {'are' if missing[1:] else 'is'} "
                "not installed",
                hint="pip install 'crosswind[cluster]', or pipx inject crosswind distributed "
                "cryptography",
            )
        )
