"""LiteLLM's proxy over both protocols, its silent fallback, and forms that it drops. Behind
it answers the tests' own server. `LITELLM` names a `litellm` that is installed already."""

from __future__ import annotations

import os
import re
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings
from tests.real.runs import KEY, Case, free_port, install, run, server

INSTALLING_S: Final = 900
_ROLES: Final = {name: {"name": name} for name in ("user", "evaluator", "generator")}
_DROPPED: Final = {name: {"name": f"{name}-dropped"} for name in ("user", "evaluator")}
"""Models of which the proxy passes on all but the form of an answer, and does not say so."""


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    command = _installed(folder / "venv")
    label = f"LiteLLM {_version(command)}"
    with ProtocolServer(Settings(lenient=True)) as upstream:
        for source, behind in (*((each, each) for each in _SOURCES), ("anthropic", "openai")):
            place = folder / f"{source}-before-{behind}"
            place.mkdir()
            config = place / "config.yaml"
            url = upstream.openai_url if behind == "openai" else upstream.anthropic_url
            config.write_text(yaml.safe_dump(_config(url, behind)), "utf-8")
            port = free_port()
            at = f"http://127.0.0.1:{port}"
            words: list[str | Path] = [
                "--config",
                config,
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
            ]
            health = f"{at}/health/liveliness"
            own = {"LITELLM_MASTER_KEY": KEY}
            with server([command, *words], health, place / "log", own):
                url = at if source == "anthropic" else f"{at}/v1"
                for number, (name, target, more, roles) in enumerate(_cases(source, behind)):
                    case = Case(name, source, url, target, more, roles)
                    yield run(place / str(number), label, case)


_SOURCES: Final = ("openai", "anthropic")
_Cases = tuple[tuple[str, str, dict[str, Any], dict[str, dict[str, str]]], ...]


def _cases(source: str, behind: str) -> _Cases:
    same: dict[str, Any] = {"served_model": "same"}
    if source != behind:
        return ((f"as asked, {behind} behind it", "steadfast", same, _ROLES),)
    dropped: dict[str, Any] = {**_ROLES, **_DROPPED}
    return (
        ("as asked", "steadfast", same, _ROLES),
        ("fallback, any", "alpha", {}, _ROLES),
        ("fallback, same", "alpha", same, _ROLES),
        *((("forms dropped", "steadfast", {}, dropped),) if source == "openai" else ()),
    )


def _installed(folder: Path) -> Path:
    given = os.environ.get("LITELLM")
    if given:
        return Path(given)
    venv.create(folder, with_pip=True)
    install([folder / "bin" / "pip", "install", "--quiet", "litellm[proxy]"], INSTALLING_S, {})
    return folder / "bin" / "litellm"


def _version(command: Path) -> str:
    told = subprocess.run([command, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"\d+\.\d+[.\w]*", told.stdout + told.stderr)
    return found[0] if found else "unknown"


def _config(url: str, source: str) -> dict[str, Any]:
    """Every model is the tests' server's; `alpha` is not there, and `steadfast` stands in."""

    def entry(name: str, model: str, **more: Any) -> dict[str, Any]:
        params = {"model": f"{source}/{model}", "api_base": url, "api_key": KEY, **more}
        return {"model_name": name, "litellm_params": params}

    names = (*_ROLES, "steadfast")
    drop = {"additional_drop_params": ["response_format"]}
    dropped = (entry(role["name"], name, **drop) for name, role in _DROPPED.items())
    models = (*(entry(name, name) for name in names), *dropped, entry("alpha", "not-there"))
    settings = {
        "fallbacks": [{"alpha": ["steadfast"]}],
        "num_retries": 0,
        "drop_params": True,
        # the tests' server has no Responses API, to which the proxy would turn messages otherwise
        "use_chat_completions_url_for_anthropic_messages": True,
    }
    return {"model_list": [*models], "litellm_settings": settings}
