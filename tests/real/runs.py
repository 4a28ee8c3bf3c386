"""One run of a sample benchmark against a server, and its line in the table."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
import venv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from engine.benchmark import Stage, State
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.display import one_line
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline
from engine.store.database import open_store
from engine.store.tables import StateRow
from tests.engine.wire import audit
from tests.pipelines import run_once

SAMPLE: Final = Path("sample_benchmarks/benchmarks/own-judgement")
TARGET: Final = "tried"
STARTING_S: Final = 120
RUN_S: Final = 240
ENDING_S: Final = 30
KEY: Final = f"sk-{'0123456789abcdef' * 4}"
HEAD: Final = (
    "| server | protocol | case | conversations done / failed | verdicts done / failed | calls "
    "| without an answer | replies of other models | why rows failed |\n" + "|" + " --- |" * 9
)
_LONGEST_REASON: Final = 160


class NotTriedError(Exception):
    """Why a server is no part of the table."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    name: str
    source: str
    url: str
    target: str
    """The model's name at the server."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What else the target's entry says."""
    roles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Who plays the other parts; scripts play those that are not named."""


def run(folder: Path, server: str, case: Case) -> str:
    """One line of the table."""
    _workspace(folder, case)
    config = load_config(folder / "config.yaml")
    bench = SAMPLE.name
    with open_store(folder / "crosswind.db") as store:
        pipeline = Pipeline(Workspace(folder), config, store.reader, store, environ={"KEY": KEY})
        late = asyncio.run(_within(RUN_S, pipeline, Order((bench,))))
        spoken = store.reader.units(bench, Stage.SIMULATE).values()
        judged = store.reader.units(bench, Stage.EVALUATE).values()
        others = store.reader.snapshot().target(bench, TARGET).served_by_others or "none"
        reasons = Counter(
            unit.reason for unit in (*spoken, *judged) if unit.state is State.FAILED and unit.reason
        )
    calls = [
        call
        for call in audit.attempts(folder / "crosswind.db")
        if not call["model"].startswith("offline:")
    ]
    unanswered = Counter(call["outcome"] for call in calls if call["outcome"] != "answer")
    without = ", ".join(f"{count} {outcome}" for outcome, count in unanswered.items()) or "0"
    notes = [f"{count}: {_cell(reason)}" for reason, count in reasons.items()]
    notes += [f"stopped after {RUN_S} s"] if late else []
    settled = [_settled(spoken), _settled(judged)]
    cells = [server, case.source, case.name, *settled, len(calls), without]
    return f"| {' | '.join(map(str, [*cells, others, '; '.join(notes) or '—']))} |"


def _settled(units: Iterable[StateRow]) -> str:
    states = Counter(unit.state for unit in units)
    return f"{states[State.DONE]} / {states[State.FAILED]}"


def _cell(text: str) -> str:
    """Foreign text, as a cell of a table holds it."""
    return one_line(text.encode("ascii", "replace").decode(), _LONGEST_REASON).replace("|", "/")


async def _within(seconds: float, pipeline: Pipeline, order: Order) -> bool:
    """Whether it took too long."""
    try:
        async with asyncio.timeout(seconds):
            await run_once(pipeline, order)
    except TimeoutError:
        return True
    return False


def _workspace(folder: Path, case: Case) -> None:
    """The sample's benchmark, with a configuration that has real sources in it."""

    def model(name: str, **more: Any) -> dict[str, Any]:
        own = {"source": case.source, "apikey": "${KEY}", "base_url": case.url}
        return {"model": name, **own, **more}

    def role(name: str) -> dict[str, Any]:
        if name in case.roles:
            return model(**case.roles[name])
        return {"model": name, "source": "offline", "params": {"pace": "instant", "seed": 7}}

    config = {
        "user_model": role("user"),
        "evaluator_model": role("evaluator"),
        "generator_model": role("generator"),
        "generation": {"turns": 2, "scenarios_per_metric": 1},
        "targets": [{"id": TARGET, **model(case.target, **case.more)}],
    }
    place = folder / "benchmarks" / SAMPLE.name
    place.mkdir(parents=True)
    shutil.copy(SAMPLE / "benchmark.yaml", place)
    (folder / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def server(
    command: Sequence[str | Path],
    health: str,
    log: Path,
    environ: Mapping[str, str] | None = None,
) -> Iterator[None]:
    """While it runs, in a process group of its own that is ended whole.

    Raises `NotTriedError` where it does not begin to answer at `health`.
    """
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            stdout=written,
            stderr=written,
            env={**os.environ, **(environ or {})},
            start_new_session=True,
        )
        try:
            _wait(health, process, log)
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    for word in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, word)
        try:
            process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            continue


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + STARTING_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(url, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.5)
    last = log.read_text("utf-8", "replace").strip().splitlines()[-1:]
    raise NotTriedError(f"it did not begin to answer; its last words were {' '.join(last)!r}")


def install(command: Sequence[str | Path], longest_s: float, environ: Mapping[str, str]) -> None:
    """Raises `NotTriedError` with the last that was said."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=longest_s,
            env={**os.environ, **environ},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotTriedError(f"it could not be installed: {error}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NotTriedError(f"it could not be installed: {_cell(' '.join(last))}")


def python_with(folder: Path, needs: Sequence[str], longest_s: float, variable: str) -> Path:
    """The Python that the variable names, or one in `folder` into which `needs` were installed.

    Raises `NotTriedError`.
    """
    if given := os.environ.get(variable):
        return Path(given)
    venv.create(folder, with_pip=True)
    install([folder / "bin" / "pip", "install", "--quiet", *needs], longest_s, {})
    return folder / "bin" / "python"


def version_in(python: Path, package: str) -> str:
    """Raises `NotTriedError` where it is not installed there."""
    code = f"from importlib.metadata import version; print(version({package!r}))"
    told = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
    if told.returncode:
        raise NotTriedError(f"what was installed has no {package}")
    return str(told.stdout.strip())
