"""The servers that the manual shows whole are ones that can be measured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import CONFIG, Place, small_workspace
from tools.manual.pages import DOCS


def shown_code(page: str, title: str) -> str:
    text = (DOCS / page).read_text("utf-8")
    fence = rf'^```python title="{title}"\n(.*?)^```'
    found: list[str] = re.findall(fence, text, re.DOTALL | re.MULTILINE)
    [source] = found
    return source


@contextmanager
def shown_server(page: str, title: str, name: str) -> Iterator[str]:
    """Where it is reached."""
    source = shown_code(page, title)
    named: dict[str, Any] = {"__name__": "server"}
    exec(source, named)
    shown: type[BaseHTTPRequestHandler] = named[name]
    quiet = type("Quiet", (shown,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), quiet) as server:
        serving = Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def play(root: Path, *targets: str) -> Place:
    place = small_workspace(root)
    roles = CONFIG.partition("targets:")[0].replace(
        "scenarios_per_metric: 2", "scenarios_per_metric: 1"
    )
    place.config.write_text(f"{roles}targets: [{', '.join(targets)}]")
    code, out, err = crosswind(place.root, "run", "--headless", "--yes")
    assert code == 0, err
    assert re.search(r"(\d+) of \1 scored", out)
    return place


def test_the_one_of_a_chat_protocol_is_played_with_and_judged(tmp_path: Path) -> None:
    with shown_server("providers.md", "server.py", "Chat") as address:
        target = "id: my-app, model: my-app, source: mine, price: {input: 0, output: 0}"
        place = play(tmp_path, f"{{{target}, base_url: '{address}/v1'}}")
    shown = crosswind(place.root, "show", "m01_s001_v01__my-app").out
    assert "You said: " in shown


@pytest.mark.process
def test_the_function_is_played_with_and_judged(tmp_path: Path) -> None:
    source = shown_code("providers.md", "shop_bot.py")
    tmp_path.joinpath("shop_bot.py").write_text(source)
    play(tmp_path, "{id: my-app, source: python, call: 'shop_bot:reply'}")
    shown = crosswind(tmp_path, "show", "m01_s001_v01__my-app").out
    approve(shown)


def test_the_application_is_played_with_whole_streamed_and_in_a_session(tmp_path: Path) -> None:
    with shown_server("providers.md", "application.py", "Application") as address:
        rest = f"source: http, system_prompt: '', url: '{address}"
        all_said = "request: {messages: $messages}"
        session = "request: {session: $session, text: $message}, session: per conversation"
        place = play(
            tmp_path,
            f"{{id: my-app, {rest}/chat', {all_said}, reply: answer.text}}",
            f"{{id: streams, {rest}/stream', {all_said}, stream: delta}}",
            f"{{id: remembers, {rest}/session', {session}, reply: answer.text}}",
        )
    for target in ("my-app", "streams", "remembers"):
        shown = crosswind(place.root, "show", f"m01_s001_v01__{target}").out
        approve(shown)
