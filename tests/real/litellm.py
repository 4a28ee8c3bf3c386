"""The sample against LiteLLM's proxy, over both protocols, and its silent fallback.

`make check-real` installs the proxy from the package registry into a folder of its own and prints
a table. Behind the proxy answers the tests' own server: nothing leaves this machine, and nothing is
paid for. `LITELLM` names a `litellm` that is installed already.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from urllib.error import URLError
from urllib.request import urlopen

import yaml

from engine.benchmark import Stage, State
from engine.config.settings import load_config
from engine.config.workspace import Workspace
from engine.pipeline.order import Order
from engine.pipeline.run import Pipeline
from engine.store.database import open_store
from tests.engine.wire import audit
from tests.engine.wire.workplace import metric, scenario
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

INSTALLING_S: Final = 900
STARTING_S: Final = 120
ROWS: Final = 3
KEY: Final = f"sk-{'0123456789abcdef' * 4}"
HEAD: Final = (
    "| server | protocol | case | conversations done / failed | verdicts | calls | retries "
    "| replies of other models | notes |"
)


@dataclass(frozen=True, slots=True)
class Case:
    """One run."""

    name: str
    target: str
    """The model's name at the proxy."""
    more: dict[str, Any]


CASES: Final = (
    Case("as asked", "steadfast", {"served_model": "same"}),
    Case("fallback, any", "alpha", {}),
    Case("fallback, same", "alpha", {"served_model": "same"}),
)


def installed(folder: Path) -> Path:
    """The proxy's command. Raises what installing raises."""
    given = os.environ.get("LITELLM")
    if given:
        return Path(given)
    venv.create(folder, with_pip=True)
    command = [str(folder / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"]
    subprocess.run(command, check=True, timeout=INSTALLING_S)
    return folder / "bin" / "litellm"


def version(command: Path) -> str:
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+[.\w]*", told.stdout + told.stderr)
    return found[0] if found else "unknown"


def proxy_config(url: str, source: str) -> dict[str, Any]:
    """Every model is the tests' server's; `alpha` is not there, and `steadfast` stands in."""

    def entry(name: str, model: str) -> dict[str, Any]:
        params = {"model": f"{source}/{model}", "api_base": url, "api_key": KEY}
        return {"model_name": name, "litellm_params": params}

    names = ("user", "evaluator", "generator", "steadfast")
    return {
        "model_list": [*(entry(name, name) for name in names), entry("alpha", "not-there")],
        "litellm_settings": {"fallbacks": [{"alpha": ["steadfast"]}], "num_retries": 0},
    }


@contextmanager
def proxy(command: Path, folder: Path, upstream: str, source: str) -> Iterator[str]:
    """Its address, while it runs. Raises `TimeoutError` where it does not begin to answer."""
    config = folder / "proxy.yaml"
    config.write_text(yaml.safe_dump(proxy_config(upstream, source)), "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "proxy.log").open("wb") as log:
        words = ["--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        own = {**os.environ, "LITELLM_MASTER_KEY": KEY}
        process = subprocess.Popen([command, *words], stdout=log, stderr=log, env=own)
        try:
            _wait(f"http://127.0.0.1:{port}/health/liveliness", process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + STARTING_S
    while time.monotonic() < until and process.poll() is None:
        try:
            with urlopen(url, timeout=2):
                return
        except (URLError, OSError):
            time.sleep(0.5)
    raise TimeoutError("the proxy did not begin to answer; its log is proxy.log")


def run(folder: Path, url: str, source: str, case: Case) -> str:
    """One line of the table."""
    _workspace(folder, url if source == "anthropic" else f"{url}/v1", source, case)
    config = load_config(folder / "config.yaml")
    with open_store(folder / "crosswind.db") as store:
        pipeline = Pipeline(Workspace(folder), config, store.reader, store, environ={"KEY": KEY})
        asyncio.run(pipeline.run(Order(("bread",))))
        units = store.reader.units("bread", Stage.SIMULATE).values()
        done = sum(unit.state is State.DONE for unit in units)
        failed = sum(unit.state is State.FAILED for unit in units)
        verdicts = len(store.reader.verdict_rows("bread"))
        board = store.reader.snapshot().target("bread", "target")
        reasons = Counter(unit.reason for unit in units if unit.reason)
    calls = audit.attempts(folder / "crosswind.db")
    again = sum(call["outcome"] != "answer" for call in calls)
    others = board.served_by_others or "none"
    notes = "; ".join(f"{count}: {reason}" for reason, count in reasons.items()) or "—"
    cells = [source, case.name, f"{done} / {failed}", verdicts, len(calls), again, others, notes]
    return " | ".join(map(str, cells))


def _workspace(folder: Path, url: str, source: str, case: Case) -> None:
    def model(name: str, **more: Any) -> dict[str, Any]:
        return {"model": name, "source": source, "apikey": "${KEY}", "base_url": url, **more}

    config = {
        "user_model": model("user"),
        "evaluator_model": model("evaluator"),
        "generator_model": model("generator"),
        "generation": {"turns": 2, "scenarios_per_metric": 1},
        "targets": [{"id": "target", **model(case.target, **case.more)}],
    }
    bread = folder / "benchmarks" / "bread"
    bread.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    metrics = [metric(number, f"Honest {number}.") for number in range(1, ROWS + 1)]
    definition = {"name": "bread", "description": "About bread.", "metrics": metrics}
    (bread / "benchmark.yaml").write_text(yaml.safe_dump(definition), "utf-8")
    scenarios = [scenario(number) for number in range(1, ROWS + 1)]
    (bread / "scenarios.json").write_text(json.dumps(scenarios), "utf-8")


def main() -> int:
    with TemporaryDirectory(prefix="crosswind-real-") as name:
        folder = Path(name)
        try:
            command = installed(folder / "venv")
        except (OSError, subprocess.SubprocessError) as error:
            sys.stdout.write(f"LiteLLM: not tried, as it could not be installed: {error}\n")
            return 1
        server = f"LiteLLM {version(command)}"
        lines = [HEAD, "|" + " --- |" * 9]
        settings = Settings(lenient=True)
        with ProtocolServer(settings) as upstream:
            for source in ("openai", "anthropic"):
                behind = upstream.openai_url if source == "openai" else upstream.anthropic_url
                with proxy(command, folder, behind, source) as url:
                    for number, case in enumerate(CASES):
                        place = folder / f"{source}-{number}"
                        lines.append(f"| {server} | {run(place, url, source, case)} |")
        sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
