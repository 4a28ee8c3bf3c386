"""`crosswind cluster`: makes a cluster's key, runs its scheduler and workers, and lists them."""

from __future__ import annotations

import argparse
import os
import warnings

from engine.cluster.extra import require_extra


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
