"""`transformers serve` with a model of random weights, which is written here. Installing it takes
several gigabytes. `TRANSFORMERS_PYTHON` names a Python that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.real.runs import Case, free_port, install, python_with, run, server, version_in

INSTALLING_S: Final = 3_600
_NEEDS: Final = ("transformers[serving]", "torch")
_WRITER: Final = Path(__file__).with_name("random_transformer.py")
_OFFLINE: Final = {"HF_HUB_OFFLINE": "1"}
_TARGET: Final = {"served_model": "same", "params": {"max_tokens": 64}}


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    python = python_with(folder / "venv", _NEEDS, INSTALLING_S, "TRANSFORMERS_PYTHON")
    weights = folder / "random"
    install([python, _WRITER, weights], 600, _OFFLINE)
    label = f"transformers {version_in(python, 'transformers')}"
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    command: list[str | Path] = [python.with_name("transformers"), "serve", weights]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with server(command, f"{at}/health", folder / "log", _OFFLINE):
        case = Case("target, same", "openai", f"{at}/v1", str(weights), _TARGET)
        yield run(folder / "run", label, case)
