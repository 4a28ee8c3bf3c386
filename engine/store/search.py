"""Finds words in everything that was said, by an index in a file of its own that can be made again.

The index holds no text. What is found is read from the store, and where the words stand in it is
found anew by the same tokenizer, so that spans are those of the stored text.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from engine.benchmark import ConversationKey, Speaker
from engine.errors import StoreError
from engine.store.codec import storable
from engine.store.connection import transaction
from engine.store.filesystem import keep_private

INDEX_NAME: Final = "search.db"
BATCH_ROWS: Final = 1000
"""Messages that are indexed by one statement."""
HOLD_S: Final = 0.5
"""Seconds after which what was indexed is committed: it can be found, and others may write."""
CONTEXT: Final = 80
"""Characters of a snippet on either side of the first match."""

_VERSION: Final = 2
_TOKENIZER: Final = "unicode61 remove_diacritics 2"
_PAGE: Final = 16 << 10
_PAGE_HEAD: Final = 384
"""Of a page, what SQLite needs for itself."""
_MERGED_FROM: Final = 32 << 20
"""Bytes of words that are gathered before they are written: small parts would be merged again and
again."""
_CACHE_KB: Final = 32 << 10
_CHECKPOINT_PAGES: Final = (64 << 20) // _PAGE
"""Each checkpoint waits for the disk twice."""
_QUERY_LENGTH: Final = 1000
_QUERY_TERMS: Final = 32
_LAST_ROWID: Final = 2**63 - 1
_PREFIX_LETTERS: Final = 4
"""Shorter beginnings of words are in nearly every text, and slow to collect."""

_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
"""Marks around a match: code points that are no characters, and are in no text that we mark."""

_TERM = re.compile(r'"([^"]*)"?|(\S+)')


@dataclass(frozen=True, slots=True)
class Hit:
    """A message in which all that was asked for occurs."""

    seq: int
    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: Speaker
    snippet: str
    spans: tuple[tuple[int, int], ...]
    """Where the matches stand in the snippet: from, to."""
    cut_before: bool
    """Whether the message goes on before the snippet."""
    cut_after: bool


class Search:
    """An index of one store. Threads may share it; `interrupt` ends what others ask of it. What is
    being indexed keeps no search waiting: each has a connection of its own."""

    def __init__(self, store: Path, index: Path) -> None:
        self._index = index
        self._writing = _Shared(_open(store, index))
        try:
            with _translated(index):
                self._reading = _Shared(_connected(store, index))
        except BaseException:
            self._writing.close()
            raise

    @property
    def through(self) -> int:
        """The last `seq` up to which messages are found."""
        with self._reading.lock, _translated(self._index):
            return _through(self._reading.connection)

    def extend(self, batch: int = BATCH_ROWS, hold_s: float = HOLD_S) -> int:
        """Take in what was said since; how many messages that was.

        Every `hold_s` seconds it is committed. Between two commits nothing is held, so that nobody
        who indexes the same store is kept waiting.
        """
        added = 0
        while some := self._extend_once(batch, hold_s):
            added += some
        return added

    def search(
        self,
        text: str,
        *,
        speaker: Speaker | None = None,
        benchmark: str | None = None,
        limit: int = 50,
    ) -> list[Hit]:
        """The newest messages with every word of `text`, whatever stands in it.

        "Several words" in quotation marks are one phrase; `begin*` is the beginning of a word.
        """
        query = _query(text)
        if not query:
            return []
        with self._reading.lock, _translated(self._index):
            rows = self._reading.connection.execute(
                "SELECT m.seq, m.turn, m.speaker, m.text, t.benchmark, t.scenario_id, t.target,"
                " t.sample, t.number FROM said JOIN store.message m ON m.seq = said.rowid "
                "JOIN store.take t ON t.seq = m.take WHERE said MATCH ?1 "
                "AND said.rowid BETWEEN ?5 AND ?6 "
                "AND (?2 IS NULL OR m.speaker = ?2) AND (?3 IS NULL OR t.benchmark = ?3) "
                "ORDER BY said.rowid DESC LIMIT ?4",
                (
                    *(query, None if speaker is None else speaker.value, benchmark, limit),
                    *self._between(benchmark),
                ),
            ).fetchall()
        marked = _marked([row["text"] for row in rows], query)
        return [_hit(row, spans) for row, spans in zip(rows, marked, strict=True)]

    def interrupt(self) -> None:
        """Make what other threads wait for end at once, with a `StoreError`."""
        for shared in (self._writing, self._reading):
            with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed meanwhile
                shared.connection.interrupt()

    def close(self) -> None:
        """Waits for what is being asked; `interrupt` ends that."""
        self._reading.close()
        self._writing.close()

    def _between(self, benchmark: str | None) -> tuple[int, int]:
        """The first message of a benchmark and its last: a benchmark is mostly said at one time,
        and without this every match of a later one would be looked at."""
        if benchmark is None:
            return 0, _LAST_ROWID
        first, last = self._reading.connection.execute(
            "SELECT min(m.seq), max(m.seq) FROM store.take t JOIN store.message m ON m.take = t.seq"
            " WHERE t.benchmark = ?",
            (benchmark,),
        ).fetchone()
        return (0, 0) if first is None else (first, last)

    def _extend_once(self, batch: int, hold_s: float) -> int:
        """One transaction."""
        connection = self._writing.connection
        with self._writing.lock, _translated(self._index), transaction(connection):
            began = time.monotonic()
            through, added = _through(connection), 0
            while some := _batch(connection, through, batch):
                through, added = some.last, added + some.messages
                if time.monotonic() - began >= hold_s:
                    break
            if added:
                connection.execute("UPDATE progress SET through = ?", (through,))
            return added


@dataclass(frozen=True, slots=True)
class _Shared:
    """A connection, and who may use it now."""

    connection: sqlite3.Connection
    lock: threading.Lock = field(default_factory=threading.Lock)

    def close(self) -> None:
        with self.lock:
            self.connection.close()


class _Batch(NamedTuple):
    """Messages that were indexed: the `seq` of the last one, and how many."""

    last: int
    messages: int


def _through(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT through FROM progress").fetchone()[0])


def _batch(connection: sqlite3.Connection, after: int, size: int) -> _Batch | None:
    """None where nothing is left."""
    last, count = connection.execute(
        "SELECT max(seq), count(*) FROM (SELECT seq FROM store.message "
        "WHERE seq > ? ORDER BY seq LIMIT ?)",
        (after, size),
    ).fetchone()
    if not count:
        return None
    connection.execute(
        "INSERT INTO said (rowid, text) SELECT seq, text FROM store.message "
        "WHERE seq > ? AND seq <= ?",
        (after, last),
    )
    return _Batch(last, count)


def open_search(store: Path) -> Search:
    """The index beside a store; made anew where it is missing, damaged or of another store.

    Raises `StoreError` where there is no store, or no place for the index.
    """
    if not store.exists():
        raise StoreError(f"{store} does not exist yet: nothing was run here so far")
    return Search(store, store.with_name(INDEX_NAME))


# The index file


def _open(store: Path, index: Path) -> sqlite3.Connection:
    with _translated(index):
        try:
            return _opened(store, index)
        except (sqlite3.DatabaseError, _OtherIndexError) as error:
            if not _is_worthless(error):
                raise
        # all four: SQLite would apply a log that is left of the old file to the new one
        for suffix in ("", "-wal", "-shm", "-journal"):
            index.with_name(index.name + suffix).unlink(missing_ok=True)
        return _opened(store, index)


class _OtherIndexError(Exception):
    """Made by another version of this program, or from another store."""


def _is_worthless(error: Exception) -> bool:
    """Whether an index that fails like this is to be made anew."""
    # the low byte is the kind, the rest says more of it: SQLITE_CORRUPT_VTAB is what a damaged
    # fts5 table says
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, _OtherIndexError) or code in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
    }


def _opened(store: Path, index: Path) -> sqlite3.Connection:
    with contextlib.suppress(FileExistsError):  # the words of an index are as private as the store
        os.close(os.open(index, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    keep_private(index)
    connection = _connected(store, index)
    try:
        with transaction(connection):
            _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connected(store: Path, index: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        index.absolute().as_uri(),
        uri=True,
        timeout=10.0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    try:
        # taken only before the first table is made, and not in WAL mode
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # what is lost is indexed again
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
        # read-only and attached, so that one statement joins what is found with what was said
        connection.execute("ATTACH ? AS store", (f"{store.absolute().as_uri()}?mode=ro",))
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> None:
    [identity] = connection.execute(
        "SELECT min(applied_at) FROM store._sqlite_migrations"
    ).fetchone()
    made_from = f"{_VERSION} {_TOKENIZER} {identity}"
    is_new = not connection.execute("SELECT 1 FROM main.sqlite_master").fetchone()
    if is_new:
        connection.execute(
            # contentless: the words are kept once, in the store
            "CREATE VIRTUAL TABLE said USING fts5 "
            # columnsize = 0: the lengths of texts serve ranking alone, and hits are shown newest
            # first
            f"(text, content = '', columnsize = 0, tokenize = '{_TOKENIZER}')"
        )
        for name, value in (("hashsize", _MERGED_FROM), ("pgsz", _PAGE - _PAGE_HEAD)):
            connection.execute("INSERT INTO said (said, rank) VALUES (?, ?)", (name, value))
        connection.execute("CREATE TABLE progress (made_from TEXT, through INTEGER)")
        connection.execute("INSERT INTO progress VALUES (?, 0)", (made_from,))
    [found] = connection.execute("SELECT made_from FROM progress").fetchone() or (None,)
    if found != made_from:
        raise _OtherIndexError
    # an index that is damaged inside opens well: it is asked once, so that it is made anew here
    # and not in the middle of a search
    connection.execute("SELECT rowid FROM said WHERE said MATCH 'a' LIMIT 1").fetchone()


@contextlib.contextmanager
def _translated(index: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise StoreError(
            f"{index} could not be used: {error}; it can be deleted at any time and is made again"
        ) from error


# What people type


def _query(text: str) -> str:
    """Every word as a string of its own, so that nothing in it is an operator."""
    cleaned = "".join(" " if unicodedata.category(one)[0] == "C" else one for one in text)
    terms = []
    for found in _TERM.finditer(storable(cleaned)[:_QUERY_LENGTH]):
        phrase, word = found.groups()
        term = (phrase or word or "").replace('"', " ")
        letters = sum(map(_is_token, term))
        if letters:
            is_prefix = word is not None and term.endswith("*") and letters >= _PREFIX_LETTERS
            terms.append(f'"{term}"' + "*" * is_prefix)
    return " ".join(terms[:_QUERY_TERMS])


def _is_token(character: str) -> bool:
    """What the tokenizer makes words of."""
    # unicode61 makes words of letters and numbers (and of private use, which nobody searches for);
    # a term without any would be a syntax error to fts5
    return unicodedata.category(character)[0] in "LN"


# What is shown of a message


def _marked(texts: Sequence[str], query: str) -> list[list[tuple[int, int]]]:
    """Where in each text the matches stand."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        # highlight() needs the text, which the index does not hold; in memory the same tokenizer
        # finds the same words
        connection.execute(f"CREATE VIRTUAL TABLE found USING fts5(text, tokenize='{_TOKENIZER}')")
        connection.executemany(
            "INSERT INTO found (rowid, text) VALUES (?, ?)",
            [(number, _unmarked(text)) for number, text in enumerate(texts)],
        )
        rows = connection.execute(
            "SELECT rowid, highlight(found, 0, ?, ?) FROM found WHERE found MATCH ?",
            (_OPEN, _CLOSE, query),
        )
        spans: list[list[tuple[int, int]]] = [[] for _ in texts]
        for number, text in rows:
            spans[number] = list(_spans(text))
    return spans


def _unmarked(text: str) -> str:
    return text.replace(_OPEN, "\ufffd").replace(_CLOSE, "\ufffd")


def _spans(marked: str) -> Iterator[tuple[int, int]]:
    """Positions in the text without the marks."""
    position = begin = 0
    for piece in re.split(f"([{_OPEN}{_CLOSE}])", marked):
        if piece == _OPEN:
            begin = position
        elif piece == _CLOSE:
            yield begin, position
        else:
            position += len(piece)


def _hit(row: sqlite3.Row, spans: Sequence[tuple[int, int]]) -> Hit:
    text: str = row["text"]
    first, behind = spans[0] if spans else (0, 0)
    begin = max(0, first - CONTEXT)
    end = min(len(text), max(behind, first + 1) + CONTEXT)
    return Hit(
        seq=row["seq"],
        benchmark=row["benchmark"],
        key=ConversationKey(row["scenario_id"], row["target"], row["sample"]),
        take=row["number"],
        turn=row["turn"],
        speaker=Speaker(row["speaker"]),
        snippet=text[begin:end],
        spans=tuple((a - begin, b - begin) for a, b in spans if begin <= a and b <= end),
        cut_before=begin > 0,
        cut_after=end < len(text),
    )
