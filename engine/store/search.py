"""Full-text search in all messages, by an index in a file of its own that can be rebuilt; where
there can be none, by reading all messages.

The index holds no text. Where the words stand is found in a hit's text, which is read from the
store. A word is a run of letters and digits. Scripts that put no spaces between words have no such
runs, so of them each character is a word, together with the marks on it, and a query of several is
a phrase. Every emoji is a word, too.
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
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.benchmark import ConversationKey, Speaker
from engine.errors import StoreError
from engine.quotes import Span
from engine.store.codec import storable
from engine.store.connection import transaction
from engine.store.filesystem import keep_private
from engine.store.open_reader import is_older, open_reader

MOST_TERMS: Final = 32
"""A pasted page would otherwise be a query of thousands of words."""
_QUERY_LENGTH: Final = 1000
_PREFIX_LETTERS: Final = 4
"""Letters of a prefix query; shorter prefixes match nearly every text and are slow."""

# Thai, Lao, Tibetan, Burmese, Khmer and the scripts of the Tai languages
_WITH_MARKS: Final = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\ua9e0-\ua9ff\uaa60-\uaadf"
    "\u3041-\u30ff"  # kana, whose voicing marks can be characters of their own
)
# Chinese characters of every plane, the signs among them that are letters, Bopomofo, other kana
_SINGLE: Final = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3035\u3100-\u312f\u31a0-\u31ff\u3400-\u9fff"
    "\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_EMOJI: Final = (
    "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001faff"
)


def _marks() -> str:
    """Return the characters that stand on another one, in scripts without spaces."""
    ends = zip(_WITH_MARKS[::3], _WITH_MARKS[2::3], strict=True)
    characters = (chr(code) for a, b in ends for code in range(ord(a), ord(b) + 1))
    return "".join(each for each in characters if unicodedata.category(each)[0] == "M")


_DIACRITICS: Final = "\u0300-\u036f"
_ALONE: Final = rf"(?=\w)[{_WITH_MARKS}{_SINGLE}][{_marks()}]*|[{_EMOJI}]"
# without alternatives, as that is ten times as fast on text that has nothing of it
_SPECIAL: Final = re.compile(f"[{_WITH_MARKS}{_SINGLE}{_EMOJI}{_DIACRITICS}]+")
_RUN: Final = rf"[^\W_{_WITH_MARKS}{_SINGLE}{_EMOJI}]"
_WORD_IN_TEXT: Final = re.compile(f"{_ALONE}|{_RUN}(?:{_RUN}|[{_DIACRITICS}])*")
_TERM: Final = re.compile(r'"([^"]*)"?|(\S+)')


class Term(NamedTuple):
    """Words that stand one after the other."""

    words: tuple[str, ...]
    is_prefix: bool
    """Whether the last one is only the beginning of a word."""


def plain(text: str) -> str:
    """Return the text in which FTS5's `unicode61` finds the words of this module: without
    diacritics, and a word of a single character as the letter `u` and its number."""
    if text.isascii():
        return text
    return _SPECIAL.sub(_codes, unicodedata.normalize("NFD", text))


def _codes(run: re.Match[str]) -> str:
    words = _WORD_IN_TEXT.findall(run[0])
    if not words:  # diacritics, or what is no word either
        return "" if "\u0300" <= run[0][0] <= "\u036f" else " "
    return f" {' '.join(map(_code, words))} "


@lru_cache(maxsize=1 << 13)
def _code(word: str) -> str:
    return "".join(f"u{ord(character):x}" for character in word)


def terms_of(query: str) -> list[Term]:
    """Parse what a person types: words, "phrases" and `begin*`. No other character has a meaning,
    and only the first terms count."""
    terms = []
    for match in _TERM.finditer(query[:_QUERY_LENGTH]):
        phrase, word = match.groups()
        term = phrase or word or ""
        found = _WORD_IN_TEXT.findall(term)
        if not found:
            continue
        is_long = sum(map(len, found)) >= _PREFIX_LETTERS
        is_prefix = word is not None and word.endswith("*") and not _SPECIAL.match(found[-1])
        terms.append(Term(tuple(map(_folded, found)), is_prefix and is_long))
    return terms[:MOST_TERMS]


def matches(text: str, terms: Sequence[Term]) -> list[Span] | None:
    """Return where the terms stand, in order and without overlaps; None if one is missing."""
    inside = plain(text).lower()
    if not all(word in inside for term in terms for word in term.words):
        return None  # as of most texts, without a look at each word
    words = [(_folded(found[0]), *found.span()) for found in _WORD_IN_TEXT.finditer(text)]
    spans: list[Span] = []
    for term in terms:
        found = list(_places(words, term))
        if not found:
            return None
        spans += found
    return _merged(sorted(spans))


@lru_cache(maxsize=1 << 14)
def _folded(word: str) -> str:
    return plain(word).strip().lower()


def _places(words: Sequence[tuple[str, int, int]], term: Term) -> Iterator[Span]:
    *firsts, last = term.words
    for at in range(len(words) - len(firsts)):
        end = words[at + len(firsts)]
        is_last = end[0].startswith(last) if term.is_prefix else end[0] == last
        if is_last and all(words[at + index][0] == word for index, word in enumerate(firsts)):
            yield words[at][1], end[2]


def _merged(spans: list[Span]) -> list[Span]:
    merged = spans[:1]
    for begin, end in spans[1:]:
        if begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


INDEX_NAME: Final = "search.db"
BATCH_ROWS: Final = 1000
"""Messages that are indexed by one statement."""
HOLD_S: Final = 0.5
"""Seconds after which indexed messages are committed: they can be found, and others may write."""
CONTEXT: Final = 80
"""Characters of a snippet on each side of the first match."""

_VERSION: Final = 3
_MODULE: Final = "fts5"
_TOKENIZER: Final = "unicode61 remove_diacritics 0"
_PAGE: Final = 16 << 10
_PAGE_HEAD: Final = 384
"""Bytes of a page that SQLite needs for itself."""
_MERGED_FROM: Final = 32 << 20
"""Bytes of postings that are gathered before they are written: small segments would be merged again
and again."""
_CACHE_KB: Final = 32 << 10
_CHECKPOINT_PAGES: Final = (64 << 20) // _PAGE
"""Pages between two checkpoints, each of which waits for the disk twice."""
_LAST_ROWID: Final = 2**63 - 1
_SCANNED: Final = 200
"""Messages that are read at once where there is no index."""

_ROW: Final = (
    "SELECT m.seq, m.turn, m.speaker, m.text, t.benchmark, t.scenario_id, t.target, t.sample, "
    "t.number"
)
_MATCHES: Final = (
    "FROM said JOIN store.message m ON m.seq = said.rowid JOIN store.take t ON t.seq = m.take "
    "WHERE said MATCH ?1 AND said.rowid BETWEEN ?4 AND ?5 "
    "AND (?2 IS NULL OR m.speaker = ?2) AND (?3 IS NULL OR t.benchmark = ?3)"
)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that contains all words of a query."""

    seq: int
    benchmark: str
    key: ConversationKey
    take: int
    turn: int
    speaker: Speaker
    snippet: str
    spans: tuple[tuple[int, int], ...]
    """Start and end of each match in the snippet."""
    cut_before: bool
    """Whether the message has text before the snippet."""
    cut_after: bool


class _Index:
    """Searches one store by its index. Threads may share it; `interrupt` cancels what others wait
    for. Indexing and searching have a connection each, so that neither waits for the other."""

    def __init__(self, store: Path, index: Path) -> None:
        self._index = index
        self._writing, self._writing_lock = _open(store, index), threading.Lock()
        try:
            with _translated(index):
                self._reading, self._reading_lock = _connect(store, index), threading.Lock()
        except BaseException:
            self._writing.close()
            raise

    @property
    def indexed_through(self) -> int:
        """The last `seq` that can be found."""
        with self._reading_lock, _translated(self._index):
            return _indexed_through(self._reading)

    def extend(self) -> int:
        """Index the messages that were added since, and return how many those are.

        Commits every `HOLD_S` seconds and holds no lock between two commits, so that others who
        index the same store are not kept waiting.
        """
        added = 0
        while some := self._extend_once():
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
        """Return the newest messages that contain every term of `text`, at most `limit`.

        "Several words" in quotation marks are one phrase; `begin*` matches a prefix of four letters
        or more. No other character has a meaning, and only the first 32 terms count.
        """
        terms = _terms(text)
        if not terms:
            return []
        rows = self._rows(
            f"{_ROW} {_MATCHES} ORDER BY said.rowid DESC LIMIT ?6", terms, speaker, benchmark, limit
        )
        return [_hit_of_row(row, matches(row["text"], terms) or []) for row in rows]

    def count(
        self, text: str, *, speaker: Speaker | None = None, benchmark: str | None = None
    ) -> int:
        """Return how many messages `search` would find without a limit."""
        terms = _terms(text)
        return (
            self._rows(f"SELECT count(*) {_MATCHES}", terms, speaker, benchmark)[0][0]
            if terms
            else 0
        )

    def interrupt(self) -> None:
        """End what other threads wait for, with a `StoreError`."""
        for connection in (self._writing, self._reading):
            with contextlib.suppress(sqlite3.ProgrammingError):  # it was closed meanwhile
                connection.interrupt()

    def close(self) -> None:
        """Close all connections, after running queries have ended."""
        with self._reading_lock:
            self._reading.close()
        with self._writing_lock:
            self._writing.close()

    def _rows(
        self,
        sql: str,
        terms: Sequence[Term],
        speaker: Speaker | None,
        benchmark: str | None,
        *more: int,
    ) -> list[Any]:
        """Return the rows of a query with `_MATCHES`."""
        # in quotes, so that no word is an operator of FTS5
        query = " ".join(f'"{" ".join(term.words)}"' + "*" * term.is_prefix for term in terms)
        who = None if speaker is None else speaker.value
        with self._reading_lock, _translated(self._index):
            wanted = (query, who, benchmark, *self._seq_range(benchmark), *more)
            return self._reading.execute(sql, wanted).fetchall()

    def _seq_range(self, benchmark: str | None) -> tuple[int, int]:
        """Return a benchmark's first and last message. A benchmark is mostly run at one time;
        without this range every match of a later benchmark would be read."""
        if benchmark is None:
            return 0, _LAST_ROWID
        first, last = self._reading.execute(
            "SELECT min(m.seq), max(m.seq) FROM store.take t JOIN store.message m ON m.take = t.seq"
            " WHERE t.benchmark = ?",
            (benchmark,),
        ).fetchone()
        return (0, 0) if first is None else (first, last)

    def _extend_once(self) -> int:
        """Index in one transaction."""
        connection = self._writing
        with self._writing_lock, _translated(self._index), transaction(connection):
            began, added = time.monotonic(), 0
            through = _indexed_through(connection)
            while time.monotonic() - began < HOLD_S or not added:
                last, count = connection.execute(
                    "SELECT max(seq), count(*) FROM (SELECT seq FROM store.message "
                    "WHERE seq > ? ORDER BY seq LIMIT ?)",
                    (through, BATCH_ROWS),
                ).fetchone()
                if not count:
                    break
                connection.execute(
                    "INSERT INTO said (rowid, text) SELECT seq, plain(text) FROM store.message "
                    "WHERE seq > ? AND seq <= ?",
                    (through, last),
                )
                through, added = last, added + count
            if added:
                connection.execute("UPDATE progress SET through = ?", (through,))
            return added


def _indexed_through(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT through FROM progress").fetchone()[0])


def open_search(store: Path) -> _Index | _Scan:
    """Open the index beside a store; rebuild it if it is missing, damaged or of another store. An
    older store is searched without an index, and so is one in a place that cannot be written, or
    with an SQLite that has no FTS5.

    Raises `StoreError` if there is no store, or if it cannot be read.
    """
    if not store.exists():
        raise StoreError(f"{store} does not exist yet: nothing was run here so far")
    if is_older(store):
        return _Scan(store)
    try:
        return _Index(store, store.with_name(INDEX_NAME))
    except StoreError:
        return _Scan(store)


class _Scan:
    """As `_Index`, and reads all messages, the newest first."""

    def __init__(self, store: Path) -> None:
        self._reader = open_reader(store)
        self._is_ended = False

    @property
    def indexed_through(self) -> int:
        return self._reader.last_seq()

    def extend(self) -> int:
        return 0

    def search(
        self,
        text: str,
        *,
        speaker: Speaker | None = None,
        benchmark: str | None = None,
        limit: int = 50,
    ) -> list[Hit]:
        found = self._matches(text, speaker, benchmark)
        return [_hit_of_row(row, spans) for row, spans in islice(found, limit)]

    def count(
        self, text: str, *, speaker: Speaker | None = None, benchmark: str | None = None
    ) -> int:
        return sum(1 for _ in self._matches(text, speaker, benchmark))

    def interrupt(self) -> None:
        self._is_ended = True

    def close(self) -> None:
        self._reader.close()

    def _matches(
        self, text: str, speaker: Speaker | None, benchmark: str | None
    ) -> Iterator[tuple[sqlite3.Row, list[Span]]]:
        terms, who, before = _terms(text), speaker and speaker.value, _LAST_ROWID
        while terms:
            rows = self._reader.connection.all(
                f"{_ROW} FROM message m JOIN take t ON t.seq = m.take WHERE m.seq < ?1 "
                "AND (?2 IS NULL OR m.speaker = ?2) AND (?3 IS NULL OR t.benchmark = ?3) "
                "ORDER BY m.seq DESC LIMIT ?4",
                (before, who, benchmark, _SCANNED),
            )
            if not rows:
                return
            for row in rows:
                if self._is_ended:
                    raise StoreError("the search was ended")
                if (spans := matches(row["text"], terms)) is not None:
                    yield row, spans
            before = rows[-1]["seq"]


Search = _Index | _Scan

# The index file


def _open(store: Path, index: Path) -> sqlite3.Connection:
    with _translated(index):
        try:
            return _open_index(store, index)
        except (sqlite3.DatabaseError, _OtherIndexError) as error:
            if not _is_worthless(error):
                raise
        # all four: SQLite would apply a leftover log of the old file to the new one
        for suffix in ("", "-wal", "-shm", "-journal"):
            index.with_name(index.name + suffix).unlink(missing_ok=True)
        return _open_index(store, index)


class _OtherIndexError(Exception):
    """The index was made by another version of this program, or from another store."""


def _is_worthless(error: Exception) -> bool:
    """Whether an index with this error is to be rebuilt."""
    # the low byte is the primary code; a damaged fts5 table gives the extended SQLITE_CORRUPT_VTAB
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, _OtherIndexError) or code in {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_ERROR,
    }


def _open_index(store: Path, index: Path) -> sqlite3.Connection:
    with contextlib.suppress(FileExistsError):  # an index is as private as its store
        os.close(os.open(index, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    keep_private(index)
    connection = _connect(store, index)
    try:
        with transaction(connection):
            _prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(store: Path, index: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        index.absolute().as_uri(),
        uri=True,
        timeout=10.0,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    connection.create_function("plain", 1, plain, deterministic=True)
    try:
        # takes effect only before the first table is created, and not in WAL mode
        connection.execute(f"PRAGMA page_size = {_PAGE}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")  # what is lost is indexed again
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA cache_size = {-_CACHE_KB}")
        # attached read-only, so that one statement can join matches and messages
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
            # contentless: the text is only in the store
            f"CREATE VIRTUAL TABLE said USING {_MODULE} "
            # columnsize = 0: text lengths are for ranking only, and hits are sorted by age
            f"(text, content = '', columnsize = 0, tokenize = '{_TOKENIZER}')"
        )
        for name, value in (("hashsize", _MERGED_FROM), ("pgsz", _PAGE - _PAGE_HEAD)):
            connection.execute("INSERT INTO said (said, rank) VALUES (?, ?)", (name, value))
        connection.execute("CREATE TABLE progress (made_from TEXT, through INTEGER)")
        connection.execute("INSERT INTO progress VALUES (?, 0)", (made_from,))
    [digest] = connection.execute("SELECT made_from FROM progress").fetchone() or (None,)
    if digest != made_from:
        raise _OtherIndexError
    # an index with inner damage opens without an error: query it once, so that it is rebuilt here
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


# What is shown of a message


def _terms(text: str) -> list[Term]:
    return terms_of(storable(text))


def _hit_of_row(row: sqlite3.Row, spans: Sequence[tuple[int, int]]) -> Hit:
    text: str = row["text"]
    first, behind = spans[0] if spans else (0, 0)
    begin = _word_begin(text, max(0, first - CONTEXT), first)
    end = _word_end(text, max(behind, first + 1), CONTEXT)
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


def _word_begin(text: str, at: int, before: int) -> int:
    """The first begin of a word from `at` on and `before` a match; `at` where there is none."""
    if at == 0 or text[at - 1].isspace():
        return at
    return next((place + 1 for place in range(at, before) if text[place].isspace()), at)


def _word_end(text: str, behind: int, room: int) -> int:
    """The last end of a word in so much room `behind` a match; all of it where there is none."""
    end = min(len(text), behind + room)
    if end == len(text) or text[end].isspace():
        return end
    return next((place for place in range(end - 1, behind - 1, -1) if text[place].isspace()), end)
