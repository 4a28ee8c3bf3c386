"""`transformers serve` with a model of random weights, which is written here. Installing it takes
several gigabytes. `TRANSFORMERS_PYTHON` names a Python that has it."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.real.runs import Case, NotTriedError, free_port, install, run, server

INSTALLING_S: Final = 3_600
_NEEDS: Final = ("transformers[serving]", "torch")
_WRITER: Final = Path(__file__).with_name("random_transformer.py")
_OFFLINE: Final = {"HF_HUB_OFFLINE": "1"}
_TARGET: Final = {"served_model": "same", "params": {"max_tokens": 64}}


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    python = _installed(folder / "venv")
    weights = folder / "random"
    install([python, _WRITER, weights], 600, _OFFLINE)
    label = f"transformers {_version(python)}"
    port = free_port()
    at = f"http://127.0.0.1:{port}"
    command: list[str | Path] = [python.with_name("transformers"), "serve", weights]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    with server(command, f"{at}/health", folder / "log", _OFFLINE):
        case = Case("target, same", "openai", f"{at}/v1", str(weights), _TARGET)
        yield run(folder / "run", label, case)


def _installed(folder: Path) -> Path:
    given = os.environ.get("TRANSFORMERS_PYTHON")
    if given:
        return Path(given)
    venv.create(folder, with_pip=True)
    install([folder / "bin" / "pip", "install", "--quiet", *_NEEDS], INSTALLING_S, {})
    return folder / "bin" / "python"


def _version(python: Path) -> str:
    words = [str(python), "-c", "import transformers; print(transformers.__version__)"]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    if told.returncode:
        raise NotTriedError("what was installed cannot be imported")
    return str(told.stdout.strip())
