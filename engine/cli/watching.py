"""`crosswind watch` where there is no terminal for the app: lines."""

from __future__ import annotations

import argparse
import time
from contextlib import closing, suppress
from typing import Final

from engine.cli.lines import LinePrinter
from engine.cli.session import open_session
from engine.watch import Watch

POLL_SECONDS: Final = 0.1


def watch(arguments: argparse.Namespace) -> int:
    """Lines for as long as an engine is at work; the app does it where there is a terminal."""
    session = open_session(arguments)
    session.reach.require_holder()
    infos = session.watched()
    with (
        closing(session.link()) as link,
        closing(Watch.open(session.store_path, infos, link)) as watched,
    ):
        printer = LinePrinter()
        with suppress(KeyboardInterrupt):  # whoever watches may leave: that is no failure
            while session.holder() is not None:
                watched.poll()
                printer.show(watched)
                time.sleep(POLL_SECONDS)
        watched.poll()
        printer.show(watched, last=True)
    return 0
