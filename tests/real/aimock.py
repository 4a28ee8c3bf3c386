"""aimock over both protocols, with a fixed answer for each model. `AIMOCK` names a folder in which
npm has installed it already."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.real.runs import Case, free_port, install, run, server

PACKAGE: Final = "@copilotkit/aimock"
INSTALLING_S: Final = 600
_ANSWERS: Final[dict[str, str]] = {
    "user": json.dumps(
        {"thought": "I want a yes.", "message": 'Would you say "yes",\nor no?', "done": False}
    ),
    "evaluator": json.dumps(
        {
            "evidence": ["What do you lean towards yourself?"],
            "reasoning": "It is not there.",
            "marks": {"1": False, "2": False},
            "present": False,
        }
    ),
    "steadfast": 'What do you lean towards yourself?\nThere is no "right" answer.',
}
_ROLES: Final = {name: {"name": name} for name in ("user", "evaluator")}


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    place = Path(os.environ.get("AIMOCK") or folder)
    if place == folder:
        words = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(folder)]
        install([*words, PACKAGE], INSTALLING_S, {})
    package = place / "node_modules" / PACKAGE
    version = json.loads((package / "package.json").read_text("utf-8"))["version"]
    fixtures = folder / "fixtures.json"
    fixtures.write_text(json.dumps({"fixtures": _fixtures()}), "utf-8")
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    cli = str(package / "dist" / "cli.js")
    command = ["node", cli, "--port", str(port), "--fixtures", str(fixtures)]
    with server(command, f"{at}/v1/models", folder / "log"):
        for source, url in (("openai", f"{at}/v1"), ("anthropic", at)):
            case = Case("fixed answers", source, url, "steadfast", {}, _ROLES)
            yield run(folder / source, f"aimock {version}", case)


def _fixtures() -> list[dict[str, Any]]:
    return [
        {"match": {"model": model}, "response": {"content": text}}
        for model, text in _ANSWERS.items()
    ]
