"""An engine as a process of its own. Started by `spawning.spawn`, never by hand."""

from __future__ import annotations

import os
import sys

from engine.service.hosting import run_job


def main() -> None:
    """Leave the work to a process that has neither a terminal nor anybody to wait for it."""
    # so that nobody has to wait for the engine when it ends, and it belongs to no terminal
    if os.fork():
        os._exit(0)
    os.umask(0o077)
    sys.exit(run_job(sys.stdin.read(), int(sys.argv[1])))


if __name__ == "__main__":
    main()
