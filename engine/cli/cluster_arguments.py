"""The arguments of `crosswind cluster`, and the options that choose who makes the calls."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

FOLDER: Final = Path("crosswind-cluster")


def add_workers(command: argparse.ArgumentParser) -> None:
    """Add the options that choose who makes the calls of an engine that the command starts."""
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="make the calls in N processes of this machine (default: in the engine itself, which "
        "is enough for nearly everybody)",
    )
    command.add_argument(
        "--cluster",
        type=Path,
        metavar="DIR",
        help="make the calls in the workers of this cluster; see `crosswind cluster`",
    )
    command.add_argument(
        "--forward-keys",
        action="store_true",
        help="send keys to the workers, over TLS (default: workers look them up where they run)",
    )


def add_cluster(command: Callable[..., argparse.ArgumentParser]) -> None:
    cluster = command(
        "cluster",
        "make the calls of a run on many machines, which few studies need",
        "`crosswind run --cluster DIR` uses them. docs/many-machines.md says when to.",
    )
    actions = cluster.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str, epilog: str | None = None) -> argparse.ArgumentParser:
        return actions.add_parser(
            name,
            help=text,
            description=text[0].upper() + text[1:] + ".",
            epilog=epilog,
            formatter_class=cluster.formatter_class,
        )

    _init(action)
    scheduler = action("scheduler", "connect workers and runs until it is stopped; calls no model")
    _folder(scheduler)
    scheduler.add_argument(
        "--port",
        type=port,
        metavar="PORT",
        help="the port to listen on, 0 for any that is free (default: 8786)",
    )
    _address(scheduler)
    _worker(action)
    status = action(
        "status", "list the workers: host, version, and whether they fit this Crosswind"
    )
    _folder(status)
    status.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _init(action: Callable[..., argparse.ArgumentParser]) -> None:
    init = action(
        "init",
        "make a cluster's folder with the key that each of its processes needs",
        "Whoever has the key may run programs as you on every machine of the cluster. It is "
        "readable by you alone; copy it with scp or as a Secret, and nowhere else.",
    )
    init.add_argument(
        "--out", type=Path, default=FOLDER, metavar="DIR", help="(default: ./crosswind-cluster)"
    )
    init.add_argument(
        "--address",
        metavar="tls://HOST:PORT",
        help="where the scheduler will listen, if machines share no disk; may be added later",
    )


def _worker(action: Callable[..., argparse.ArgumentParser]) -> None:
    worker = action(
        "worker",
        "make the calls of any run, until it is stopped",
        "${NAME} in config.yaml is filled in here, from this environment: keys do not travel "
        "unless `run --forward-keys` sends them. If the scheduler ends, a worker waits for "
        "another one.\nExit codes: 0 it was ended · 2 it could not begin, or no scheduler came.",
    )
    _folder(worker)
    worker.add_argument(
        "--env", type=Path, metavar="FILE", help="lines NAME=value, such as keys; mode 0600"
    )
    worker.add_argument(
        "--name", metavar="NAME", help="the worker's name (default: its host and four digits)"
    )
    worker.add_argument(
        "--death-timeout",
        type=seconds,
        default=120.0,
        metavar="SECONDS",
        help="end if no scheduler was found for this long (default: 120)",
    )
    _address(worker)


def _folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help="the cluster's folder (default: ./crosswind-cluster)",
    )


def _address(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--host", metavar="HOST", help="the address to listen on")
    where.add_argument("--interface", metavar="NAME", help="the network to listen on, such as ib0")


def port(text: str) -> int:
    """argparse turns a `ValueError` into an error that names the option."""
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError
    return number


def seconds(text: str) -> float:
    """argparse turns a `ValueError` into an error that names the option."""
    number = float(text)
    if not 0 < number <= 86_400:
        raise ValueError
    return number
