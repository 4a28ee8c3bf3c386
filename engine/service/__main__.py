"""The entry point of an engine's process. Started by `spawning.spawn`, never by hand."""

from __future__ import annotations

import os
import sys

from engine.service.hosting import run_job


def main() -> None:
    """Detach from the parent process, then run the job."""
    # forks so that nobody has to wait for the engine, and it belongs to no terminal
    if os.fork():
        os._exit(0)
    sys.exit(run_job(sys.stdin.read(), int(sys.argv[1])))


if __name__ == "__main__":
    main()
