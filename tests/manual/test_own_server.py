"""The whole server that the manual shows is one that can be measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from docs.manual.pages import DOCS
from tests.engine.commands import crosswind
from tests.engine.small_workspace import CONFIG, small_workspace


@pytest.fixture
def address() -> Iterator[str]:
    text = (DOCS / "providers" / "own.md").read_text("utf-8")
    [source] = re.findall(
        r'^```python title="server.py"\n(.*?)^```', text, re.DOTALL | re.MULTILINE
    )
    named: dict[str, Any] = {"__name__": "server"}
    exec(source, named)
    shown: type[BaseHTTPRequestHandler] = named["Chat"]
    quiet = type("Quiet", (shown,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), quiet) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        serving.join()


def test_it_is_played_with_and_judged(address: str, tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    roles = CONFIG.partition("targets:")[0].replace(
        "scenarios_per_metric: 2", "scenarios_per_metric: 1"
    )
    target = "id: my-app, model: my-app, source: mine, price: {input: 0, output: 0}"
    place.config.write_text(f"{roles}targets: [{{{target}, base_url: '{address}'}}]")
    code, out, err = crosswind(place.root, "run", "--headless", "--yes")
    assert code == 0, err
    assert re.search(r"my-app .* (\d+)/\1 ", out)
    shown = crosswind(place.root, "show", "m01_s001_v01__my-app").out
    assert "You said: " in shown
