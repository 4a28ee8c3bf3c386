"""Loaded by Dask in each worker process of this machine, before it begins."""

from __future__ import annotations

import signal


def dask_setup(worker: object) -> None:
    """Leave Ctrl-C in a terminal to the engine, which finishes the messages being spoken."""
    del worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
