"""The server as a process of its own, for measurements: `python -m tests.protocol_server`.

The first line on stdout is its port. `GET /counters` tells what it has seen, `POST /reset` begins
anew; SIGTERM or SIGINT ends it, and the counts are printed then.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from typing import Final

from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

_ENDING: Final = {signal.SIGTERM, signal.SIGINT}


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end."""
    options = _parser().parse_args(arguments)
    # blocked before the server's thread begins, so that this one alone is told
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    with ProtocolServer(_settings(options), port=options.port) as server:
        _say(str(server.port))
        signal.sigwait(_ENDING)
        _say(json.dumps(server.counters.as_json()))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol_server")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--tokens-per-second", type=float)
    parser.add_argument("--chunks", type=int)
    parser.add_argument("--flush-each", action="store_true")
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        latency_ms=options.latency_ms,
        tokens_per_second=options.tokens_per_second,
        chunks=options.chunks,
        flush_each=options.flush_each,
        keep_requests=False,
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
