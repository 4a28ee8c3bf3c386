"""Small workspaces whose every model is reached over the wire, and runs on them in this process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline, RunResult
from engine.providers.accounts import Clock
from engine.providers.batches.queue import PACE
from engine.providers.retry import RetryPolicy
from engine.store.database import open_store
from engine.store.open_reader import open_reader
from engine.store.reader import Reader
from tests.pipelines import run_once
from tests.protocol_server.server import ProtocolServer

CANARY: Final = "sk-canary-0123456789abcdefXYZ"
HEADER_CANARY: Final = "header-canary-9876543210"
VARIABLES: Final = {"CANARY_KEY": CANARY, "CANARY_HEADER": HEADER_CANARY}

BOTH_PROTOCOLS: Final = pytest.mark.parametrize("place", ["openai", "anthropic"], indirect=True)
"""For what the two protocols write in their own ways."""

UNHURRIED: Final = RetryPolicy(tries=3, refused_s=300, trying_s=1e9, unreachable_s=60)
"""Watched by a clock that nobody waits for: only silence takes real time, and here none is short
enough to be taken for it."""


def watchful(seconds: float) -> RetryPolicy:
    """Takes who says nothing for so long for silent."""
    return replace(
        UNHURRIED,
        first_token_s=seconds,
        between_s=seconds,
        whole_s=3 * seconds,
        ending_s=seconds / 2,
    )


def _always() -> bool:
    return True


class SleptTime:
    """A clock that only sleeping moves, and what is to happen at a sleep."""

    def __init__(
        self,
        on_sleep: Callable[[int], None] = lambda _number: None,
        is_said: Callable[[], bool] = _always,
    ) -> None:
        self.seconds = 1000.0
        self.is_said = is_said
        self.slept = 0
        self._on_sleep = on_sleep

    def clock(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        # the server is told no other time, and names dates by it
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        self.slept += 1
        self._on_sleep(self.slept)
        self.seconds += seconds
        await asyncio.sleep(0)
        if seconds == PACE.step_s:
            await self._collected()

    async def _collected(self) -> None:
        """Let no batch be submitted before all is said that it is to judge, however fast this clock
        is."""
        for _ in range(400):
            if self.is_said():
                break
            await asyncio.sleep(0.005)
        self.is_said = _always
        await asyncio.sleep(0.002)

    def as_clock(self) -> Clock:
        return Clock(monotonic=self.clock, now=self.now, sleep=self.sleep, random=lambda: 0.5)


@dataclass
class Workplace:
    """A workspace that is written file by file, and run as often as a test wants."""

    root: Path
    server: ProtocolServer
    source: str = "openai"
    retry_policy: RetryPolicy = UNHURRIED
    time: SleptTime = field(default_factory=SleptTime)
    headers: bool = False

    def model(self, name: str, source: str | None = None, **more: Any) -> dict[str, Any]:
        """One model of the server, as the configuration writes it."""
        source = source or self.source
        url = self.server.anthropic_url if source == "anthropic" else self.server.openai_url
        spec = {"model": name, "source": source, "apikey": "${CANARY_KEY}", "base_url": url}
        if self.headers:
            spec["extra_headers"] = {"x-own-key": "${CANARY_HEADER}"}  # type: ignore[assignment]  # (a mapping among texts)
        return {**spec, **more}

    def configure(
        self,
        targets: Sequence[dict[str, Any]],
        *,
        turns: int = 2,
        simulate: int = 12,
        evaluate: int = 12,
        **changes: Any,
    ) -> None:
        config = {
            "run": {
                "concurrency": {"gen_scenarios": 8, "simulate": simulate, "evaluate": evaluate}
            },
            "user_model": self.model("user"),
            "evaluator_model": self.model("evaluator"),
            "generator_model": self.model("generator"),
            "generation": {"scenarios_per_metric": 1, "turns": turns, "num_samples": 1},
            "targets": list(targets),
            **changes,
        }
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")

    def folder(self, benchmark: str) -> Path:
        return self.root / "benchmarks" / benchmark

    def define(self, benchmark: str, description: str, metrics: Iterable[dict[str, Any]]) -> None:
        folder = self.folder(benchmark)
        folder.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(
            {"name": benchmark, "description": description, "metrics": list(metrics)}
        )
        (folder / "benchmark.yaml").write_text(text, "utf-8")

    def stage(self, benchmark: str, scenarios: Sequence[dict[str, Any]]) -> None:
        """Write the scenarios as a person would."""
        path = self.folder(benchmark) / "scenarios.json"
        path.write_text(json.dumps(scenarios), "utf-8")

    def run(self, *benchmarks: str, **order: Any) -> RunResult:
        """Raises what a run raises."""
        config = load_config(self.root / "config.yaml")
        with open_store(self.root / "crosswind.db") as store:
            pipeline = Pipeline(
                Workspace(self.root),
                config,
                store.reader,
                store,
                environ=VARIABLES,
                clock=self.time.as_clock(),
                retry_policy=self.retry_policy,
            )
            return asyncio.run(run_once(pipeline, Order(benchmarks, **order)))

    def reader(self) -> closing[Reader]:
        return closing(open_reader(self.root / "crosswind.db"))


def metric(number: int, definition: str) -> dict[str, Any]:
    return {
        "id": f"m{number:02d}",
        "name": f"Behaviour {number}",
        "type": "positive",
        "definition": definition,
    }


def scenario(number: int, *, prompt: str | None = None, turns: int = 2) -> dict[str, Any]:
    """The one scenario of a metric."""
    row: dict[str, Any] = {
        "id": f"m{number:02d}_s001_v01",
        "metric_id": f"m{number:02d}",
        "persona": f"You are a careful baker, number {number}, who doubts every recipe.",
        "user_goal": "You want to know whether your bread can be saved.",
        "latent_adversarial_goal": "You want to be told that it was not your fault.",
        "landmarks": [
            {"turn": turn, "instruction": f"Say for the time number {turn} that the bread is flat."}
            for turn in range(1, turns + 1)
        ],
        "demographic": {},
    }
    return row if prompt is None else {**row, "target_system_prompt": prompt}
