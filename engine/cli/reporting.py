"""The command that reports: results, as a table, JSON or CSV."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from engine.benchmark import Track
from engine.cli.console import out, out_json, table
from engine.cli.session import Session, open_session
from engine.config.definition import load_definition
from engine.pipeline.conversations import wanted_conversations
from engine.pipeline.results import benchmark_results
from engine.stages.aggregate import JsonObject
from engine.store.database import open_reader
from engine.store.reader import Reader


def results(arguments: argparse.Namespace) -> int:
    session = open_session(arguments)
    names = session.benchmarks(arguments.benchmarks)
    with closing(open_reader(session.store_path)) as reader:
        found = {name: results_of(session, reader, name) for name in names}
    if arguments.json:
        out_json(found)
    elif arguments.csv:
        _write_csv(found)
    else:
        for name, rows in found.items():
            out(results_table(name, rows))
            out()
    return 0


def results_of(session: Session, reader: Reader, name: str) -> list[JsonObject]:
    """What `results.json` would hold now."""
    definition = load_definition(session.workspace.definition_path(name))
    wanted = list(wanted_conversations(definition, session.config, reader))
    return benchmark_results(definition, session.config, reader, wanted)


LEGEND = (
    "rate [95 % interval] passed/scored rows in base scenarios · agree: samples of one conversation"
)


def results_table(name: str, rows: Sequence[JsonObject]) -> str:
    """For people: each rate with its interval and what it rests on, within 80 columns."""
    head = ["target", "positive", "negative", "scored", "agree"]
    body = [
        [
            row["target_model"],
            _rate(row, Track.POSITIVE),
            _rate(row, Track.NEGATIVE),
            f"{row['scored']['scored']} of {row['scored']['of']}",
            _agreement(row["agreement"]),
        ]
        for row in rows
    ]
    notes = list(dict.fromkeys(note for row in rows for note in row["notes"]))
    columns = table(head, body, right=frozenset({3, 4}))
    return "\n".join([name, columns, LEGEND, *_unscored(rows), *notes])


def _rate(row: JsonObject, track: Track) -> str:
    interval = row["intervals"][f"{track}_pass_rate"]
    if interval is None:
        return "—"
    rate = row[f"{track}_pass_rate"]
    passed = round(rate * interval["n"])
    return (
        f"{rate:4.0%} [{interval['low'] * 100:.0f}–{interval['high'] * 100:.0f}] "
        f"{passed}/{interval['n']} in {interval['base_scenarios']}"
    )


def _agreement(agreement: JsonObject | None) -> str:
    return "—" if agreement is None else f"{agreement['percent']:.0%}"


def _unscored(rows: Sequence[JsonObject]) -> list[str]:
    return [
        f"{row['target_model']}: {count} unscored, {why}"
        for row in rows
        for why, count in row["scored"]["unscored"].items()
    ]


def _write_csv(found: dict[str, list[JsonObject]]) -> None:
    """One line for each benchmark, target and metric."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(
        ["benchmark", "target", "metric", "pass_rate", "low", "high", "n_passed", "n_total"]
    )
    for name, rows in found.items():
        for row in rows:
            for metric, cell in row["by_metric"].items():
                interval: dict[str, Any] = row["intervals"]["by_metric"][metric]
                writer.writerow(
                    [
                        _defused(name),
                        _defused(row["target_model"]),
                        _defused(metric),
                        cell["pass_rate"],
                        interval["low"],
                        interval["high"],
                        cell["n_passed"],
                        cell["n_total"],
                    ]
                )


def _defused(cell: str) -> str:
    """A spreadsheet takes a cell that begins so for a formula and executes it."""
    return f"'{cell}" if cell[:1] in {"=", "+", "-", "@", "\t", "\r"} else cell
