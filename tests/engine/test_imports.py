"""Imports fall one way, and nobody loads what it does not need."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import engine
from engine.store.database import create_store

ENGINE = Path(engine.__file__).parent

LAYERS = [
    ["cli"],
    ["doctor", "host", "watch"],
    ["service"],
    ["cluster"],
    ["link"],
    ["pipeline"],
    ["stages", "importing", "report"],
    ["analysis"],
    ["store", "providers", "prompts", "config"],
    ["jury"],
    ["checks", "lint", "local_models", "progress", "statistics", "trust"],
    ["facts", "branches", "files", "json_template", "memory"],
    [
        "addresses",
        "benchmark",
        "errors",
        "identity",
        "display",
        "kill_points",
        "quotes",
        "people",
        "scripted",
    ],
]
"""From the top down. A room may import from lower layers and from itself."""


def layer_of(room: str) -> int:
    return next(number for number, rooms in enumerate(LAYERS) if room in rooms)


PACKAGES = ["crosswind", "tui", "engine"]
"""From the top down, as the layers."""


@cache
def imports(package: str) -> list[tuple[str, str, Path]]:
    found: list[tuple[str, str, Path]] = []
    folder = ENGINE.with_name(package)
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            found += [(room, name, path) for name in names]
    return [row for row in found if row[0] != "__init__"]


@pytest.mark.exhaustive
def test_imports_fall_one_way() -> None:
    wrong = []
    for room, name, path in imports("engine"):
        parts = name.split(".")
        if parts[0] != "engine" or len(parts) < 2 or parts[1] == room:
            continue
        if layer_of(parts[1]) <= layer_of(room):
            wrong.append(f"{path.relative_to(ENGINE)}: {name}")
    assert not wrong


@pytest.mark.exhaustive
def test_a_package_imports_none_above_it() -> None:
    for number, package in enumerate(PACKAGES):
        assert imports(package)
        for _, name, path in imports(package):
            assert name.split(".")[0] not in PACKAGES[:number], path


def test_the_engine_knows_no_screen() -> None:
    for room, name, path in imports("engine"):
        root = name.split(".")[0]
        assert root != "textual", path
        assert root != "rich" or room == "cli", path


def test_the_http_room_knows_nothing_of_models() -> None:
    found = {
        name for _, name, path in imports("engine") if path.parent == ENGINE / "providers" / "http"
    }
    ours = {name for name in found if name.startswith("engine.")}
    assert {name for name in ours if not name.startswith("engine.providers.http.")} == {
        *("engine.errors", "engine.providers.failures")
    }


NETWORK = {"httpx", "httpx2", "httptools", "genai_prices", "distributed", "cryptography"}


def loaded(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


SDKS = {"openai", "anthropic"}


def test_headless_commands_load_neither_textual_nor_an_sdk() -> None:
    found = loaded("from engine.cli.main import main\nmain(['run', '--workspace', '/nowhere'])")
    assert not found & {"textual", "rich", *SDKS, *NETWORK}


def test_help_loads_nothing_heavy() -> None:
    found = loaded("from tui.__main__ import main\ntry: main(['--help'])\nexcept SystemExit: pass")
    heavy = {"pydantic", "sqlite_utils", "yaml", "asyncio", "textual", "rich"}
    assert not found & {*heavy, *SDKS, *NETWORK}


def test_to_open_an_account_loads_no_sdk() -> None:
    code = (
        "import asyncio\n"
        "from engine.providers.accounts import Accounts\n"
        "from engine.providers.endpoint import Wire\n"
        "asyncio.run(Accounts().account(Wire.OPENAI, 'http://127.0.0.1:9/v1', 'sk-key'))"
    )
    assert not loaded(code) & {"aiohttp", *SDKS}


def test_the_app_and_what_prints_results_load_no_sdk_and_no_templates() -> None:
    """They write no page."""
    found = loaded("import engine.cli.reporting, tui.app")
    assert not found & {"jinja2", *SDKS, *NETWORK}
    assert "jinja2" in loaded("import engine.report.html.page")


def test_only_a_store_whose_schema_changes_loads_sqlite_utils_and_never_with_pandas(
    tmp_path: Path,
) -> None:
    path = tmp_path / "crosswind.db"
    opened = (
        "from pathlib import Path\n"
        "from engine.store.database import open_store\n"
        f"open_store(Path({str(path)!r})).close()"
    )
    made = loaded(opened)
    assert "sqlite_utils" in made
    assert not made & {"numpy", "pandas"}
    assert "sqlite_utils" not in loaded(opened)


READING = """
import sys, threading
from engine.cli.command_line import parse
from engine.cli.main import guarded
from tui import app
from tui.launch import open_app

app.is_cut = lambda: False  # this is no terminal, which would end it after some seconds

def hear(event, arguments):
    if event == "import" and arguments[0] == "engine.cli.session":
        assert threading.current_thread() is not threading.main_thread()
        print(*sys.modules, file=found, flush=True)

found = open(sys.argv[2], "a")
sys.addaudithook(hear)
sys.exit(guarded(lambda: open_app(parse(["--workspace", sys.argv[1]]))))
"""
"""Says what is loaded when the configuration begins to be read, which the app does when its first
frame is on the screen."""
LATER = {
    "pydantic",
    "sqlite_utils",
    "yaml",
    *("engine.config.schema", "engine.config.benchmark_file"),
    *("engine.store.database", "engine.store.writer", "engine.store.inserts"),
    *("engine.store.browsing", "engine.store.maintenance"),
    *("engine.service.client", "engine.service.protocol"),
    *("engine.pipeline.run", "engine.pipeline.counting", "engine.statistics.rates"),
    *("tui.screens.live", "tui.screens.cards", "tui.results"),
}
"""What the first frame does not wait for."""


def test_the_first_frame_waits_only_for_what_is_on_it(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("targets: []\n", "utf-8")  # read, and refused
    (tmp_path / "benchmarks").mkdir()
    create_store(tmp_path / "crosswind.db")
    found = tmp_path / "found"

    done = subprocess.run(
        [sys.executable, "-c", READING, str(tmp_path), str(found)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "TEXTUAL_DRIVER": "textual.drivers.headless_driver:HeadlessDriver",
            "XDG_CONFIG_HOME": str(tmp_path),
        },
    )

    assert done.returncode == 2, done.stderr
    assert "config.yaml" in done.stderr
    first = set(found.read_text("utf-8").splitlines()[0].split())
    assert "tui.screens.benchmarks" in first
    assert not first & {*LATER, "openai", "anthropic", *NETWORK}


@pytest.mark.parametrize(("room", "others"), [("text", {"text"}), ("state", {"text", "state"})])
def test_state_and_text_of_the_app_know_nothing_of_textual(room: str, others: set[str]) -> None:
    tui = ENGINE.parent / "tui"
    names = [f"tui.{room}.{path.stem}" for path in (tui / room).glob("[!_]*.py")]
    assert names
    found = loaded("import " + ", ".join(names))
    assert "textual" not in found
    rooms = {name.split(".")[1] for name in found if name.count(".") > 1 and name[:4] == "tui."}
    assert rooms <= others
