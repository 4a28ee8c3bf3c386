"""llama.cpp's own server, out of xllamacpp, with a model of random weights, which is written here.
`XLLAMACPP_PYTHON` names a Python that has it, `gguf` and `numpy`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.real.runs import Case, free_port, install, python_with, run, server, version_in

INSTALLING_S: Final = 600
_NEEDS: Final = ("xllamacpp", "gguf", "numpy")
_WRITER: Final = Path(__file__).with_name("random_weights.py")
_SERVE: Final = """
import sys, threading, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.hostnames, params.model_alias = ["127.0.0.1"], {"random"}
params.n_parallel, params.n_ctx = 2, 16384
server = xllamacpp.Server(params)
threading.Event().wait()
"""
_TARGET: Final = {
    "served_model": "same",
    "params": {"max_tokens": 64},
    "extra_body": {"top_k": 20, "min_p": 0.01},
}


def lines(folder: Path) -> Iterator[str]:
    """Raises `NotTriedError`."""
    python = python_with(folder / "venv", _NEEDS, INSTALLING_S, "XLLAMACPP_PYTHON")
    weights = folder / "random.gguf"
    install([python, _WRITER, weights], 60, {})
    label, port = f"xllamacpp {version_in(python, 'xllamacpp')}", free_port()
    at = f"http://127.0.0.1:{port}"
    with server([python, "-c", _SERVE, weights, str(port)], f"{at}/health", folder / "log"):
        for protocol, url in (("openai", f"{at}/v1"), ("anthropic", at)):
            case = Case("target, same, extra_body", protocol, url, "random", _TARGET)
            yield run(folder / protocol, label, case)
