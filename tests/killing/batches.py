"""A run that is judged in batches, whose engine is killed again and again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from engine.benchmark import Role, Stage
from engine.kill_points import VARIABLE, KillPoint
from tests.engine.wire.batched import NAME, asked, full_price, judged_usd, prepare, verdicts
from tests.engine.wire.workplace import VARIABLES, Workplace
from tests.protocol_server.server import ProtocolServer
from tests.waiting import PATIENCE_S

_ROOT: Final = Path(__file__).parents[2]
_HURRIED: Final = """\
import sys
from engine.providers.batches import queue
queue.PACE = queue.BatchPace(
    quiet_s=0.1, step_s=0.02, first_look_s=0.02, longest_look_s=0.1, unsure_s=0.6, most_calls=4
)
from tui.__main__ import main
main(sys.argv[1:])
"""
"""The command, whose batches are small and at once."""
CONVERSATIONS: Final = 10
OF_BATCHES: Final = {KillPoint.BATCH_INTENDED, KillPoint.BATCH_SUBMITTED}
"""Moments that come in no other run."""


@dataclass
class BatchedScene:
    """A workspace that is played and not judged yet."""

    place: Workplace
    kills: int = 0

    @classmethod
    def of(cls, root: Path, server: ProtocolServer, source: str) -> BatchedScene:
        place = Workplace(root, server, source=source)
        prepare(place, metrics=CONVERSATIONS)
        assert not place.run(NAME, stages=frozenset({Stage.SIMULATE})).failed
        server.reset()
        server.batches.looks = 3
        return cls(place)

    def live(self, moment: str | None) -> None:
        """Let an engine run until it is done, or is killed at a moment."""
        kill = {} if moment is None else {VARIABLE: moment}
        ended = subprocess.run(
            [sys.executable, "-c", _HURRIED, "run", "--headless", "--yes"],
            cwd=self.place.root,
            env={**os.environ, **VARIABLES, **kill, "PYTHONPATH": str(_ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        killed = ended.returncode == -signal.SIGKILL
        assert killed or ended.returncode == 0, ended.stderr
        assert killed or moment is None, f"{moment} did not come"
        self.kills += killed


def kill_at(root: Path, source: str, moments: Sequence[str]) -> None:
    """Raises AssertionError for anything that is not as it must be."""
    with ProtocolServer() as server:
        scene = BatchedScene.of(root, server, source)
        for moment in [*moments, None]:
            scene.live(moment)
        place = scene.place
        assert scene.kills == len(moments)
        assert len(verdicts(place)) == CONVERSATIONS
        assert set(asked(place).values()) == {1}, "a call was submitted twice"
        assert asked(place).total() == CONVERSATIONS
        with place.reader() as reader:
            tokens = reader.usage(NAME, Stage.EVALUATE)
            assert reader.unsettled_usd() == 0
            assert not [stored for stored in reader.batches() if stored.is_open]
            assert tokens.calls == CONVERSATIONS
            assert tokens.input_tokens == server.counters.input_tokens
            assert tokens.output_tokens == server.counters.output_tokens
            assert reader.spent_by_role()[Role.EVALUATOR] == judged_usd(place)
        assert judged_usd(place) == pytest.approx(full_price(place) / 2)
