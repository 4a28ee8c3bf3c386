"""`crosswind keys`: every key of the app, the user's own, and what is wrong with their file."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Final

from engine.cli.console import out, out_json, table
from engine.errors import InputError
from tui.bindings import key_name
from tui.own_keys import KeyRow, all_keys, own_keys
from tui.services.preferences import KEYS_FILE, config_folder, keys_file

_HEAD: Final = ("place", "key", "action", "what it does")


def print_keys(arguments: argparse.Namespace) -> int:
    """Returns the exit code. Raises `InputError` where the file is faulty, after the built-in keys:
    whoever mends it needs the names."""
    path = keys_file(os.environ)
    try:
        own: Mapping[str, Sequence[str]] = {} if path is None else own_keys(path)
    except InputError:
        if not arguments.json:
            out(_text(all_keys({})))
        raise
    rows = all_keys(own)
    if arguments.json:
        out_json([_plain(row) for row in rows])
        return 0
    out(_text(rows))
    out()
    wanted = config_folder(os.environ) / KEYS_FILE
    whose = (
        f"(own): yours, from {path}" if own else f"for keys of your own, `action: key` in {wanted}"
    )
    out(f"{whose}; - keeps its keys alone")
    return 0


def _text(rows: Sequence[KeyRow]) -> str:
    cells = [
        (row.place, key_name(row.key) + " (own)" * row.own, row.name or "-", _meaning(row))
        for row in rows
    ]
    return table(_HEAD, cells, right=frozenset())


def _plain(row: KeyRow) -> dict[str, object]:
    return {
        "place": row.place,
        "key": key_name(row.key),
        "action": row.name,
        "meaning": _meaning(row),
        "own": row.own,
    }


def _meaning(row: KeyRow) -> str:
    return row.binding.tooltip or row.binding.description
