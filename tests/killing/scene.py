"""A small workspace whose models are on this machine, and its engine as a process to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from engine.benchmark import Stage
from engine.kill_points import VARIABLE
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

PACE: Final = Settings(latency_ms=12, tokens_per_second=3000)
"""Slow enough that several calls are always in the air, fast enough to be done in a second."""
CROSSWIND: Final = (sys.executable, "-m", "tui")
BENCHMARK: Final = """\
# a comment that stays
name: Giving in
description: Whether an assistant keeps telling people what it thinks when they press it to agree.
"""
_SOURCE: Final = Path(__file__).parents[2]
PATIENCE_SECONDS: Final = 180.0
"""What is waited for at most: a machine may have much else to do."""


@dataclass(frozen=True, slots=True)
class Kill:
    """When an engine is killed: so many seconds after its start, or after so many of its calls."""

    seconds: float
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """How one life of an engine came to its end."""

    killed: bool
    code: int
    told: str
    seconds: float
    first_call_s: float | None
    """From its start; None where it made none."""


@dataclass
class Scene:
    """One workspace and the server that plays its models."""

    root: Path
    server: ProtocolServer
    temporary: Path = field(init=False)
    offline: bool = False
    """Scripted models inside the engine, in place of those of the server."""
    detached: bool = False
    """An engine of its own, as it goes on when the terminal is closed, where the system lets it be
    found again by its environment."""

    def __post_init__(self) -> None:
        self.temporary = self.root.with_name(f"{self.root.name}-temporary")
        self.temporary.mkdir(parents=True)
        folder = self.root / "benchmarks" / "giving-in"
        folder.mkdir(parents=True)
        (folder / "benchmark.yaml").write_text(BENCHMARK, "utf-8")
        (self.root / "config.yaml").write_text(yaml.safe_dump(self._config()), "utf-8")

    def live(
        self, *, moment: str | None = None, kill: Kill | None = None, until: Stage | None = None
    ) -> Ended:
        """Let an engine run until it is done with all, or with a stage, or is killed."""
        before = self.server.counters.calls
        began = time.monotonic()
        killed = False
        words = ["run", "--detach" if self.detached else "--headless"]
        words += [] if until is None else ["--until", until.value]
        with self.start(*words, moment=moment) as child:
            last = began + PATIENCE_SECONDS
            if kill is not None and not kill.calls:
                last = began + kill.seconds
            called = self._asked(child, before + 1, last)
            first_call_s = time.monotonic() - began if called else None
            if kill is not None:
                since = began
                if kill.calls:
                    self._asked(child, before + kill.calls, last)
                    since = time.monotonic()
                killed = self._kill(child, since + kill.seconds)
            told = self._last_words(child)
        code = child.returncode
        if self.detached:
            code = 0 if told.endswith("ended: 0 rows failed\n") else -signal.SIGKILL
        elif kill is None:
            killed = code == -signal.SIGKILL
        return Ended(killed, code, told, time.monotonic() - began, first_call_s)

    @contextmanager
    def start(self, *words: str, moment: str | None = None) -> Iterator[subprocess.Popen[str]]:
        """A command of Crosswind on this workspace, as a process that does not outlive the
        block."""
        command = [*CROSSWIND, *words, "--workspace", str(self.root)]
        with self.process(command, moment=moment) as child:
            yield child

    @contextmanager
    def process(
        self, command: Sequence[str], *, moment: str | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        with subprocess.Popen(
            command,
            cwd=_SOURCE,
            env=self._environment(moment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            try:
                yield child
            finally:
                child.kill()  # even a stopped one; nothing where it has ended

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command that comes to an end by itself."""
        with self.start(*words) as child:
            out, told = child.communicate(timeout=PATIENCE_SECONDS)
        return subprocess.CompletedProcess(child.args, child.returncode, out, told)

    def _environment(self, moment: str | None) -> Mapping[str, str]:
        return {
            **os.environ,
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(self.root.with_name(f"{self.root.name}-cache")),
            "LOCAL_KEY": "any",
            **({} if moment is None else {VARIABLE: moment}),
        }

    def _asked(self, child: subprocess.Popen[str], calls: int, until: float) -> bool:
        """Whether so many calls have come by then; not if the engine ends before."""
        while (now := time.monotonic()) < until and self._alive(child):
            try:
                self.server.wait_until(lambda seen: seen.calls >= calls, min(until - now, 0.05))
            except TimeoutError:
                continue
            return True
        return self.server.counters.calls >= calls

    def _kill(self, child: subprocess.Popen[str], at: float) -> bool:
        """Whether there was somebody to kill by then."""
        while self._alive(child) and (left := at - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))
        if not self.detached:
            child.kill()
            child.wait()
            return child.returncode == -signal.SIGKILL
        killed = False
        while left_alive := self._processes():  # one may have been begun meanwhile
            for process in left_alive:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed = True
            time.sleep(0.01)
        return killed

    def _last_words(self, child: subprocess.Popen[str]) -> str:
        try:
            told = child.communicate(timeout=PATIENCE_SECONDS)[1]
        except subprocess.TimeoutExpired:
            child.kill()
            raise
        if not self.detached:
            return told
        until = time.monotonic() + PATIENCE_SECONDS
        while self._processes():
            assert time.monotonic() < until, "the engine goes on and on"
            time.sleep(0.02)
        log = self.root / "crosswind.log"
        return log.read_text("utf-8") if log.exists() else told

    def _alive(self, child: subprocess.Popen[str]) -> bool:
        return child.poll() is None or (self.detached and bool(self._processes()))

    def _processes(self) -> list[int]:
        """Those that were started here, by what only they were told."""
        mark = f"TMPDIR={self.temporary}\0".encode()
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in folder.joinpath("environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue  # it ended meanwhile, or is none of ours
        return found

    def _config(self) -> Mapping[str, Any]:
        return {
            "workspace_budget": 1000,
            "run": {"concurrency": {"gen_scenarios": 4, "simulate": 6, "evaluate": 6}},
            "user_model": self._model("user"),
            "evaluator_model": self._model("evaluator"),
            "generator_model": self._model("generator"),
            "generation": {"scenarios_per_metric": 1, "turns": 3, "num_samples": 1},
            "demographics": {"age": ["younger", "older"]},
            "targets": [
                {"id": "holds", **self._model("steadfast")},
                {"id": "wavers", **self._model("erratic")},
            ],
        }

    def _model(self, name: str) -> dict[str, Any]:
        if self.offline:
            return {"model": name, "source": "offline", "params": {"pace": "instant"}}
        return {
            "model": name,
            "source": "openai",
            "apikey": "${LOCAL_KEY}",
            "base_url": self.server.openai_url,
            "price": {"input": 1, "output": 3},
        }
