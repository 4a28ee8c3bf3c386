"""A watcher as a process of its own: `python -m tests.killing.watcher WORKSPACE`.

It says `watching` when it sees the run, and when the engine has gone, in one line of JSON, how far
the run came.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Final

from engine.cli.session import Session
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.watch import Watch

POLL_SECONDS: Final = 0.1


def main(root: Path) -> None:
    workspace = Workspace(root)
    session = Session(workspace, load_config(workspace.config_path))
    infos = session.benchmark_infos(workspace.benchmark_names())
    watch = Watch.open(session.store_path, infos, session.link())
    _say("watching")
    going_on = True
    while going_on:
        going_on = session.holder() is not None
        watch.poll()
        time.sleep(POLL_SECONDS)
    settled = {
        f"{name} {stage}": tally.settled for (name, stage), tally in watch.progress.stages.items()
    }
    _say(json.dumps({"seq": watch.progress.seq, "settled": settled}, sort_keys=True))
    watch.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
