"""The program of the process in which a local model runs: llama.cpp's own server, out of xllamacpp.

Its settings come as the first line on standard input, and where that ends, so does this process.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any, BinaryIO, Final

from engine.providers.functions.child import die_with_parent, private_pipes

_TRIED: Final = {"prompt": "The weather in May is", "n_predict": 16, "cache_prompt": False}
"""A first request, which also shows how fast the model is here."""
_ONLY_ERRORS: Final = 1
LONGEST_REPLY: Final = 2_048
"""Tokens of a reply for which no `max_tokens` is sent: a small model may never end by itself."""


def main() -> None:
    requests, say = private_pipes()
    die_with_parent()
    with os.fdopen(requests, "rb") as lines:
        settings = json.loads(lines.readline())
        # a thread, which notices the end of the engine while the model is loaded
        threading.Thread(target=_end_with, args=(lines,), daemon=True).start()
        try:
            say(_serve(settings))
        except Exception as error:  # noqa: BLE001  (the library's, which are not documented)
            say({"failed": str(error) or type(error).__name__})
            return
        threading.Event().wait()


def _end_with(lines: BinaryIO) -> None:
    lines.read()
    os._exit(0)


def _serve(settings: dict[str, Any]) -> dict[str, Any]:
    """Start the server. It serves on threads of its own for as long as it is referred to."""
    import xllamacpp  # here, so that a fault of its import is reported

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.model_alias = {settings["name"]}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["key"]]
    params.n_parallel = settings["slots"]
    params.n_ctx = settings["context"] * settings["slots"]
    params.n_predict = LONGEST_REPLY
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = settings["prompt_cache_mib"]
    params.verbosity = _ONLY_ERRORS
    params.ui = params.endpoint_slots = False
    server = xllamacpp.Server(params)
    _KEPT.append(server)
    speed = server.handle_completions(_TRIED)["timings"]["predicted_per_second"]
    return {"address": server.listening_address, "tokens_per_second": round(float(speed), 1)}


_KEPT: Final[list[Any]] = []


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(1)
