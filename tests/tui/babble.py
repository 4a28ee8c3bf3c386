"""The app while 200 conversations speak, as long as nobody tells them to stop, with a meter on its
loop: `python -m tests.tui.babble FOLDER`. It works on the folder's store."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Final

from engine.benchmark import ConversationKey, Speaker
from engine.facts import LiveText, Speech
from engine.link import Board, EngineState
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tests.tui.theatre import BENCHMARK, TARGETS, ScriptedLink, a_scenario, screen_lines
from tui.app import CrosswindApp
from tui.services.ticker import instant_now
from tui.state.run_status import Instant

CONVERSATIONS: Final = 200
LETTERS_A_SECOND: Final = 400
EVERY: Final = 0.005
"""Seconds between two looks at how late the loop is."""
OFTEN: Final = 0.025
"""Seconds between two frames: more than the app draws, so that no stall need be long."""
STOP: Final = "stop"
SCREEN: Final = "screen.txt"
LAGS: Final = "lags.json"


class Babble(ScriptedLink):
    """Says more from look to look, until the file is there that stops it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._stop = folder / STOP
        self._began = time.monotonic()
        self._stopped: float | None = None
        self._speeches = [
            Speech(BENCHMARK, key, 0, 1, Speaker.TARGET, "Goes on.", float(number))
            for number in range(CONVERSATIONS // len(TARGETS))
            for key in (ConversationKey(a_scenario(number + 1).id, name) for name in TARGETS)
        ]

    @property
    def is_over(self) -> bool:
        return self._stopped is not None

    @property
    def length(self) -> int:
        if self._stopped is None and self._stop.exists():
            self._stopped = time.monotonic()
        end = time.monotonic() if self._stopped is None else self._stopped
        return int((end - self._began) * LETTERS_A_SECOND)

    def board(self) -> Board:
        said = dict.fromkeys(TARGETS, self.length * CONVERSATIONS // len(TARGETS))
        return Board(EngineState.RUNNING, tuple(self._speeches), said=said)

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        speech = next(each for each in self._speeches if each.key == key)
        number, rest = divmod(self.length, 10)
        text = "".join(f"word{each:05d} " for each in range(number)) + "." * rest
        return LiveText.since(cursor, speech, text)


class Metered(CrosswindApp):
    """Keeps how late its loop was, and when it left out frames."""

    def __init__(self, watch: Watch, babble: Babble, folder: Path) -> None:
        self._babble = babble
        self._folder = folder
        self._last = instant_now()
        super().__init__(watch, moment=self._moment_of)
        self.late: list[tuple[float, float]] = []
        self.gated: list[float] = []

    def _moment_of(self) -> Instant:
        """Stands still when nobody speaks any more, so that the screen does."""
        if not self._babble.is_over:
            self._last = instant_now()
        return self._last

    def on_mount(self) -> None:
        self.run_worker(self._meter(), group="meter")
        self.set_interval(0.1, self._tell_screen)
        self.set_interval(OFTEN, self.tick)

    async def _meter(self) -> None:
        while True:
            due = time.monotonic() + EVERY
            await asyncio.sleep(EVERY)
            self.late.append((time.monotonic(), time.monotonic() - due))

    def _tell_screen(self) -> None:
        """What the app believes to be on the screen, once it does not change any more."""
        if self._babble.is_over:
            text = "\n".join(screen_lines(self))
            self._folder.joinpath(SCREEN).write_text(text, "utf-8")

    def _close_gate(self) -> None:
        self.gated.append(time.monotonic())
        super()._close_gate()


def main(folder: Path) -> None:
    targets = [TargetInfo(name, name, scripted=True) for name in TARGETS]
    info = BenchmarkInfo(BENCHMARK, "Holding steady", 2, targets, scripted=True)
    babble = Babble(folder)
    with closing(Watch.open(folder / "crosswind.db", [info], babble)) as watch:
        app = Metered(watch, babble, folder)
        app.run()
    folder.joinpath(LAGS).write_text(json.dumps({"late": app.late, "gated": app.gated}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
