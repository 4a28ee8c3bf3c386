"""A run that was cut off, however hard, goes on where it stood and ends as if nothing had been."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import small_workspace
from tests.waiting import PATIENCE_S, Child, until

CONFIG = """\
run: {concurrency: {gen_scenarios: 4, simulate: 6, evaluate: 6}}
user_model: {model: user, source: offline, params: {pace: PACE}}
evaluator_model: {model: evaluator, source: offline, params: {pace: PACE}}
generator_model: {model: generator, source: offline, params: {pace: WRITING}}
generation: {scenarios_per_metric: 1, turns: 3, num_samples: 2}
demographics: {age: [younger, older]}
perfunctory: true
targets:
  - {id: holds, model: steadfast, source: offline, params: {pace: PACE}}
  - {id: wavers, model: erratic, source: offline, params: {pace: PACE}}
"""
BENCHMARK = """\
# a comment that stays
name: Giving in
description: Whether an assistant keeps telling people what it thinks when they press it to agree.
"""


_TIMES = re.compile(rb'"(?:first|last)_at": "[^"]+"')
"""Of the conversations and verdicts that the results rest on."""


def workspace(root: Path, pace: str, writing: str = "instant") -> Path:
    config = CONFIG.replace("PACE", pace).replace("WRITING", writing)
    return small_workspace(root, config, BENCHMARK).root


def start(root: Path) -> Child:
    return Child(
        [sys.executable, "-m", "tui", "run", "--headless", "--workspace", str(root)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(root: Path) -> None:
    crosswind(root, "run", "--headless", code=0)


def rows(root: Path, query: str) -> list[tuple[object, ...]]:
    path = root / "crosswind.db"
    if not path.exists():
        return []
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            return []  # the child has not made its tables yet


def wait_for(done: Callable[[], bool], child: Child) -> None:
    def is_done_before_it_ends() -> bool:
        found = done()
        assert found or child.poll() is None, child.communicate()
        return found

    until(is_done_before_it_ends)


def files(root: Path) -> dict[str, bytes]:
    folder = root / "benchmarks" / "giving-in"
    names = ["scenarios.json", "results.json", "benchmark.yaml"]
    found = [folder / name for name in names] + sorted(folder.glob("runs/*/*.json"))
    return {
        path.relative_to(folder).as_posix(): _TIMES.sub(b"", path.read_bytes())
        for path in found
        if path.name != "cost.json"
    }


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    root = workspace(tmp_path_factory.mktemp("whole"), "instant")
    finish(root)
    return files(root)


def test_ctrl_c_finishes_what_is_being_spoken_and_the_next_run_goes_on(
    tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    root = workspace(tmp_path, "60")
    with start(root) as child:
        wait_for(lambda: len(rows(root, "SELECT 1 FROM message")) > 2, child)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 3, err
    approve(err)
    unanswered = rows(
        root, "SELECT count(*) FROM take WHERE seq NOT IN (SELECT take FROM take_end)"
    )
    assert unanswered != [(0,)]
    assert set(rows(root, "SELECT outcome FROM attempt")) == {("answer",)}
    config = root / "config.yaml"
    config.write_text(config.read_text().replace("60", "instant"))
    finish(root)
    assert files(root) == uninterrupted


def test_ctrl_c_twice_stops_now(tmp_path: Path) -> None:
    root = workspace(tmp_path, "0.1")
    with start(root) as child:
        wait_for(lambda: bool(rows(root, "SELECT 1 FROM take")), child)
        child.send_signal(signal.SIGINT)
        assert child.stderr is not None
        assert any("once more" in line for line in child.stderr)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 3
