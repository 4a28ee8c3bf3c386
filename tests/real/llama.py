"""llama-cpp-python's server with a model of random weights, which is written here. It is built from
source, which takes a C++ compiler and up to an hour. `LLAMA_PYTHON` names a Python that has it."""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.real.runs import Case, NotTriedError, free_port, install, run, server

INSTALLING_S: Final = 3_600
_BUILD: Final = {
    "CMAKE_ARGS": "-DLLAVA_BUILD=OFF",
    "CMAKE_BUILD_PARALLEL_LEVEL": str(max((os.cpu_count() or 2) // 2, 1)),
}
_NEEDS: Final = ("llama-cpp-python[server]", "gguf", "numpy")
_WRITER: Final = Path(__file__).with_name("random_weights.py")
_SHORT: Final = {"params": {"max_tokens": 64}}
_ROOMY: Final = {"name": "random", "params": {"max_tokens": 512}}
_Roles = Mapping[str, Mapping[str, Any]]
_CASES: Final[tuple[tuple[str, list[str], Mapping[str, _Roles]], ...]] = (
    ("as it comes", [], {"target": {}}),
    (
        "interrupt_requests false",
        ["--interrupt_requests", "false"],
        {"target": {}, "target and evaluator": {"evaluator": _ROOMY}},
    ),
)


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    python = _installed(folder / "venv")
    weights = folder / "random.gguf"
    install([python, _WRITER, weights], 60, {})
    label = f"llama-cpp-python {_version(python)}"
    for how, words, cases in _CASES:
        port = free_port()
        at = f"http://127.0.0.1:{port}/v1"
        command = [str(python), "-m", "llama_cpp.server", "--model", str(weights), *words]
        command += ["--model_alias", "random", "--n_ctx", "8192"]
        command += ["--host", "127.0.0.1", "--port", str(port)]
        with server(command, f"{at}/models", folder / "log"):
            for name, roles in cases.items():
                place = folder / f"{name} {how}".replace(" ", "-")
                yield run(
                    place, label, Case(f"{name}, {how}", "openai", at, "random", _SHORT, roles)
                )


def _installed(folder: Path) -> Path:
    given = os.environ.get("LLAMA_PYTHON")
    if given:
        return Path(given)
    venv.create(folder, with_pip=True)
    install([folder / "bin" / "pip", "install", "--quiet", *_NEEDS], INSTALLING_S, _BUILD)
    return folder / "bin" / "python"


def _version(python: Path) -> str:
    words = [str(python), "-c", "import llama_cpp; print(llama_cpp.__version__)"]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    if told.returncode:
        raise NotTriedError("what was installed cannot be imported")
    return str(told.stdout.strip())
