"""`crosswind watch` without the app: prints the progress of the engine at work."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Final

from engine.cli.commands.at_work import WatchCommand
from engine.cli.console import tell
from engine.cli.lines import FailureNews, LinePrinter
from engine.cli.session import open_session
from engine.watch import Watch

POLL_SECONDS: Final = 0.1


def watch(arguments: WatchCommand) -> int:
    """Print progress while an engine is at work; on a terminal the app does this instead."""
    session = open_session(arguments.workspace)
    session.handle.require_holder()
    infos = session.watched()
    with (
        closing(session.link()) as link,
        closing(Watch.open(session.store_path, infos, link)) as watched,
    ):
        printer, news = LinePrinter(), FailureNews()
        try:
            while session.holder() is not None:
                _tell_failures(watched, news)
                printer.show(watched)
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:  # leaving is no failure
            tell("the run goes on; `crosswind watch` shows it again")
            return 0
        _tell_failures(watched, news)
        printer.show(watched, last=True)
    return 0


def _tell_failures(watched: Watch, news: FailureNews) -> None:
    for fact in watched.poll():
        failed = news.hear(fact)
        if failed is not None:
            tell(failed)
