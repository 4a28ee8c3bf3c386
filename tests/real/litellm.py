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
        for source in ("openai", "anthropic"):
            behind = upstream.openai_url if source == "openai" else upstream.anthropic_url
            config = folder / f"{source}.yaml"
            config.write_text(yaml.safe_dump(_config(behind, source)), "utf-8")
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
            with server([command, *words], health, folder / f"{source}.log", own):
                url = at if source == "anthropic" else f"{at}/v1"
                cases = [(*case, _ROLES) for case in _CASES]
                if source == "openai":
                    cases.append(("forms dropped", "steadfast", {}, {**_ROLES, **_DROPPED}))
                for number, (name, target, more, roles) in enumerate(cases):
                    case = Case(name, source, url, target, more, roles)
                    yield run(folder / f"{source}-{number}", label, case)


_CASES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    ("as asked", "steadfast", {"served_model": "same"}),
    ("fallback, any", "alpha", {}),
    ("fallback, same", "alpha", {"served_model": "same"}),
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
    }
    return {"model_list": [*models], "litellm_settings": settings}
