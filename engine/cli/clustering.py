"""`crosswind cluster`: a key for a cluster, its scheduler, its workers, and who is there."""

from __future__ import annotations

import argparse
import os
import warnings

from engine.cluster.extra import require_extra


def cluster(arguments: argparse.Namespace) -> int:
    require_extra()
    # what there is to tell is told by us, in sentences; the worker's process inherits it
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "critical")
    os.environ.setdefault("DASK_LOGGING__ASYNCIO", "critical")
    # that it found no network, for one: it goes on with this machine
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="distributed")
    # only now: it may not be installed, and reads how to log when it is loaded
    from engine.cli.cluster_actions import ACTIONS

    return ACTIONS[arguments.action](arguments)
