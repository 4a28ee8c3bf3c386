"""Whether a store is whole, to the last message: as much time as it takes, for who repairs it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from hashlib import blake2b
from pathlib import Path
from typing import Final

from engine.store.amounts import implausible_rows
from engine.store.header import check_header, unreadable

_TOLD: Final = 5
_DAMAGE: Final = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SHORT_READ: Final = 522
"""SQLite's code for a file that ends too early."""


def faults(path: Path) -> list[str]:
    """What is damaged, in a few words each; nothing for a store that is whole.

    Raises `StoreError` for a file that is no store of this program, and for one that cannot be
    looked at.
    """
    if not path.stat().st_size:
        return ["the file is empty"]
    try:
        with closing(_opened(path)) as connection:
            check_header(connection, path)
            return [*_pages(connection), *_amounts(connection), *_messages(connection)][:_TOLD]
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)
        if code & 0xFF in _DAMAGE or code == _SHORT_READ:
            return [str(error)]
        raise unreadable(path, error) from error


def _opened(path: Path) -> sqlite3.Connection:
    """A log that holds something is read with it; without one, nothing is made beside the file."""
    log = path.with_name(path.name + "-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    uri = f"{path.absolute().as_uri()}?{how}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def _pages(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute(f"PRAGMA quick_check({_TOLD})").fetchall()
    return [str(row[0]) for row in rows if row[0] != "ok"]


def _amounts(connection: sqlite3.Connection) -> list[str]:
    count = implausible_rows(connection)
    what = "attempt tells" if count == 1 else "attempts tell"
    return [f"{count} {what} of more tokens or dollars than can be"] if count else []


def _messages(connection: sqlite3.Connection) -> list[str]:
    """Text that is not the one that was stored."""
    connection.text_factory = bytes
    found = []
    for seq, speaker, text, digest in connection.execute(
        "SELECT seq, speaker, text, digest FROM message NOT INDEXED"
    ):
        if blake2b(speaker + b"\0" + text, digest_size=16).digest() != digest:
            found.append(f"the text of message {seq} is not the one that was stored")
            if len(found) == _TOLD:
                break
    return found
