"""A clock that is set forwards and backwards in the midst of a run changes times, and no more."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Final

import pytest

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline
from engine.progress import Progress
from engine.providers.accounts import Clock as ProviderClock
from engine.store.database import open_store
from engine.store.open_reader import open_reader
from tests.killing.holdings import STORE, check_once, check_whole, holdings, mirrored
from tests.killing.scene import Scene
from tests.pipelines import run_once
from tests.protocol_server.server import ProtocolServer

Clock = Callable[[], datetime]
JUMPS: Final = (
    timedelta(0),
    timedelta(days=1),
    timedelta(days=-2),
    timedelta(days=3650),
    timedelta(seconds=-1),
    timedelta(days=-18250),
)


def jumping() -> Clock:
    jumps: Iterator[timedelta] = cycle(JUMPS)
    return lambda: datetime.now(UTC) + next(jumps)


def plain() -> datetime:
    return datetime.now(UTC)


def run(root: Path, server: ProtocolServer, clock: Clock) -> Path:
    scene = Scene(root / "workspace", server, offline=True)
    config = load_config(scene.root / "config.yaml")
    with open_store(scene.root / STORE, clock=clock) as store:
        pipeline = Pipeline(
            Workspace(scene.root),
            config,
            store.reader,
            store,
            clock=replace(ProviderClock(), now=clock),
        )
        result = asyncio.run(run_once(pipeline, Order(("giving-in",))))
    assert (result.failed, result.stopped) == (0, False)
    return scene.root


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """One run by a clock that jumps, and one by a clock that does not."""
    with ProtocolServer() as server:
        there = tmp_path_factory.mktemp("clocks")
        return run(there / "jumping", server, jumping()), run(there / "plain", server, plain)


def test_a_run_under_a_jumping_clock_comes_to_the_same(roots: tuple[Path, Path]) -> None:
    jumped, normal = roots
    check_whole(jumped)
    check_once(holdings(jumped))
    assert mirrored(jumped) == mirrored(normal)
    found, wanted = holdings(jumped), holdings(normal)
    assert {take.unit: take.texts for take in found.takes} == {
        take.unit: take.texts for take in wanted.takes
    }


def test_a_watcher_of_it_sees_no_rate_that_is_none(roots: tuple[Path, Path]) -> None:
    with closing(open_reader(roots[0] / STORE)) as reader:
        progress = Progress()
        while facts := reader.facts(progress.seq):
            for fact in facts:
                progress.apply(fact)
                for target in progress.targets_of("giving-in").values():
                    _check_number(target.settled.per_second(plain()))
                    for estimate in (target.time_left, target.time_to_end):
                        for number in estimate(plain(), turns=2) or ():
                            _check_number(number)
        assert progress.seq == reader.last_seq()
        settled = {stage: tally.settled for (_, stage), tally in progress.stages.items()}
    assert sum(settled.values()) == 1 + 12 + 16 + 16 + 1


def _check_number(number: float | None) -> None:
    assert number is None or (math.isfinite(number) and number >= 0), number
