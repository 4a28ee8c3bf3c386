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
from dataclasses import asdict
from typing import Final

from tests.protocol_server.faults import Fault, When, always, first, middle, nth, rate, upto
from tests.protocol_server.server import ProtocolServer
from tests.protocol_server.settings import Settings

_ENDING: Final = {signal.SIGTERM, signal.SIGINT}
_FAULTS_HELP: Final = (
    "FAULT[@MODEL-OR-ROLE][=WHEN], WHEN one of first, middle, always, nth:N, upto:N, "
    "rate:PROBABILITY[:SEED]; such as rate_limited@target=rate:0.05:7"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until told to end."""
    options = _parser().parse_args(arguments)
    # blocked before the server's thread begins, so that this one alone is told
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    with ProtocolServer(_settings(options), port=options.port) as server:
        for fault, match, when in options.faults:
            server.plan(fault, match, when)
        _say(str(server.port))
        signal.sigwait(_ENDING)
        _say(json.dumps(asdict(server.counters)))
    return 0


def fault_order(text: str) -> tuple[Fault, str | None, When]:
    """Read an order such as `rate_limited@target=rate:0.05:7`; ValueError where it is none."""
    whom, _, how_often = text.partition("=")
    name, _, match = whom.partition("@")
    return Fault(name), match or None, _when(how_often or "always")


def _when(text: str) -> When:
    match text.split(":"):
        case ["first"]:
            return first
        case ["middle"]:
            return middle
        case ["always"]:
            return always
        case ["nth", number]:
            return nth(int(number))
        case ["upto", number]:
            return upto(int(number))
        case ["rate", probability]:
            return rate(float(probability))
        case ["rate", probability, seed]:
            return rate(float(probability), int(seed))
        case _:
            raise ValueError(f"{text!r} does not say when: {_FAULTS_HELP}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol_server")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--latency-ms", type=float, default=0.0)
    parser.add_argument("--tokens-per-second", type=float)
    parser.add_argument("--chunks", type=int)
    parser.add_argument("--flush-each", action="store_true")
    parser.add_argument("--cap", type=int)
    parser.add_argument("--cap-retry-after")
    parser.add_argument("--lenient", action="store_true")
    parser.add_argument("--keep-requests", action="store_true")
    parser.add_argument(
        "--faults", nargs="*", default=[], metavar="ORDER", type=fault_order, help=_FAULTS_HELP
    )
    return parser


def _settings(options: argparse.Namespace) -> Settings:
    return Settings(
        cap=options.cap,
        cap_retry_after=options.cap_retry_after,
        latency_ms=options.latency_ms,
        tokens_per_second=options.tokens_per_second,
        chunks=options.chunks,
        flush_each=options.flush_each,
        lenient=options.lenient,
        keep_requests=options.keep_requests,
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
