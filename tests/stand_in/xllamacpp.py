"""Stands in for the package xllamacpp in tests: their own server, with its interface."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings


class CommonParams(SimpleNamespace):
    """Takes any parameter."""

    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
        )


class Server:
    """Answers as a script. Writes its process id into the file `pids` beside the model's."""

    def __init__(self, params: Any) -> None:
        path = Path(params.model.path)
        with (path.parent / "pids").open("a") as pids:
            pids.write(f"{os.getpid()}\n")
        if path.name.startswith("broken"):
            os.write(2, b"E llama_model_load: tensor data is not within the file bounds\n")
            raise RuntimeError("Failed to init server, please check the input params.")
        if path.name.startswith("crashing"):
            os.abort()
        [alias] = params.model_alias
        [key] = params.api_keys
        settings = Settings(key=key, aliases={alias: "steadfast"}, lenient=True)
        self._server = ProtocolServer(settings)
        self._server.start()
        self.listening_address = f"http://127.0.0.1:{self._server.port}"

    def handle_completions(self, request: Any) -> Any:
        """As llama.cpp's own."""
        assert request["n_predict"]
        return {"timings": {"predicted_per_second": 29.96}}
