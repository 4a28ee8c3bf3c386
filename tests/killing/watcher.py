"""A watcher as a process of its own: `python -m tests.killing.watcher WORKSPACE`.

It says `watching` when it sees the run, and when the engine has gone, in one line of JSON, what it
saw.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Final

from engine.cli.session import Session
from engine.config.settings import load_config
from engine.config.workspace import Workspace
from engine.facts import MessageSpoken, VerdictGiven
from engine.watch import Watch

POLL_SECONDS: Final = 0.1


def main(root: Path) -> None:
    workspace = Workspace(root)
    session = Session(workspace, load_config(workspace.config_path))
    watch = Watch.open(session.store_path, session.infos(workspace.benchmark_names()), session.link())
    seen = {"messages": 0, "verdicts": 0}
    _say("watching")
    going_on = True
    while going_on:
        going_on = session.holder() is not None
        for fact in watch.poll():
            seen["messages"] += isinstance(fact, MessageSpoken)
            seen["verdicts"] += isinstance(fact, VerdictGiven)
        time.sleep(POLL_SECONDS)
    _say(json.dumps({**seen, "seq": watch.progress.seq}))
    watch.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
