"""Resolves an id, or the beginning of one, to what it names in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from engine.benchmark import ConversationKey, base_id
from engine.branches import Branch
from engine.cli.session import Session
from engine.config.wording import nearest_word
from engine.errors import InputError, Problem
from engine.store.reader import Reader


class IdMatch(NamedTuple):
    """A metric, scenario or conversation that an id names."""

    benchmark: str
    id: str
    kind: str
    """`metric`, `scenario` or `conversation`; `row` for one of work that failed before it became
    any of these."""


ALL: Final = -1
"""No limit."""
LONGEST: Final = 200
"""Characters of a text that is compared with ids."""
NEAR: Final = 2_000
"""The most ids that are searched for a suggestion; of more, only those that begin alike are."""
SHOWN: Final = 8
"""The most ids that a message lists."""


def find(reader: Reader, text: str, *, benchmark: str | None = None) -> IdMatch:
    """The one thing that has this id, or whose id alone begins with this text.

    Raises `InputError` where there is none, with a suggestion, or more than one.
    """
    begun = _ids_with_prefix(reader, text, benchmark)
    exact = [match for match in begun if match.id == text]
    # an id may be a prefix of others, as a metric's id is of its scenarios' ids
    matches = exact or begun
    if len(matches) == 1:
        return matches[0]
    if not matches and (failed := reader.failed_rows(text, benchmark)):
        names = {row.benchmark for row in failed}
        benchmarks = names if benchmark else {name for name in names if Branch.parse(name) is None}
        if len(benchmarks) != 1:
            raise _in_several(text, benchmarks)
        return IdMatch(failed[0].benchmark, text, "row")
    if not matches:
        raise InputError(_not_found(reader, text, benchmark))
    if exact:
        raise _in_several(text, {match.benchmark for match in matches})
    ids = sorted({match.id for match in matches})
    if len(ids) == 1:
        raise _in_several(ids[0], {match.benchmark for match in matches})
    some = ", ".join(ids[:SHOWN]) + (", …" if len(ids) > SHOWN else "")
    raise InputError(Problem(f"{text!r} begins {len(ids)} ids", hint=f"say which: {some}"))


def conversations(
    reader: Reader, texts: Sequence[str], *, benchmark: str | None = None
) -> dict[str, frozenset[ConversationKey]]:
    """By benchmark, every conversation that was played of the things with these ids. Raises
    `InputError` for an id that names nothing, or nothing that was played."""
    by_benchmark: defaultdict[str, set[ConversationKey]] = defaultdict(set)
    for text in texts:
        matches = _conversations_of(reader, text, benchmark)
        if not matches:
            named = find(reader, text, benchmark=benchmark)
            raise InputError(Problem(f"no conversation of {named.id} was played yet"))
        for name, keys in matches.items():
            by_benchmark[name] |= keys
    return {name: frozenset(keys) for name, keys in by_benchmark.items()}


def still_asked_for(
    session: Session, keys: Mapping[str, frozenset[ConversationKey]], named: Sequence[str] = ()
) -> dict[str, frozenset[ConversationKey]]:
    """Only those conversations that the configuration still asks for, and those whose own ids are
    in `named`. Left out are samples beyond `num_samples`, rejected scenarios, and metrics and
    targets that were removed."""
    by_benchmark: dict[str, frozenset[ConversationKey]] = {}
    with session.reader() as reader:
        for name, of_benchmark in keys.items():
            asked = session.counts(name, reader).asked
            own = (key for key in of_benchmark if asked.why_not(key) is None or str(key) in named)
            by_benchmark[name] = frozenset(own)
    return {name: of_benchmark for name, of_benchmark in by_benchmark.items() if of_benchmark}


def _conversations_of(
    reader: Reader, text: str, benchmark: str | None
) -> dict[str, set[ConversationKey]]:
    """By benchmark, the conversations of a conversation's, scenario's, base scenario's or metric's
    id. Raises `InputError` where several benchmarks have it."""
    by_benchmark: defaultdict[str, set[ConversationKey]] = defaultdict(set)
    for match in _ids_with_prefix(reader, text, benchmark):
        if match.kind != "conversation":
            continue
        key = ConversationKey.parse(match.id)
        mine = {match.id, key.scenario_id, base_id(key.scenario_id)}
        if text in mine or key.scenario_id.startswith(f"{text}_s"):
            by_benchmark[match.benchmark].add(key)
    if len(by_benchmark) > 1:
        raise _in_several(text, by_benchmark)
    return by_benchmark


def require_begun(reader: Reader, benchmark: str) -> None:
    """Raises `InputError` where the store holds nothing of this benchmark."""
    known = reader.benchmarks()
    if benchmark not in known:
        names = ", ".join(name for name in known if Branch.parse(name) is None)
        hint = f"there are: {names}" if names else None
        raise InputError(Problem(f"no benchmark {benchmark!r} was begun here", hint=hint))


def _not_found(reader: Reader, text: str, benchmark: str | None) -> Problem:
    if benchmark is not None:
        require_begun(reader, benchmark)
    near = _nearest_id(reader, text, benchmark)
    hint = f"did you mean {near}?" if near else "`crosswind search` finds by words"
    return Problem(f"there is nothing with the id {text!r}", hint=hint)


def _in_several(text: str, benchmarks: Iterable[str]) -> InputError:
    names = ", ".join(sorted(benchmarks))
    hint = "say which: with --benchmark NAME, or for `run` with NAME before the id"
    return InputError(Problem(f"{text!r} is in several benchmarks: {names}", hint=hint))


def _ids_with_prefix(
    reader: Reader, text: str, benchmark: str | None, limit: int = ALL
) -> list[IdMatch]:
    """Everything whose id begins with this text. A validation run shares the ids of its original,
    so it is searched only where `benchmark` names it."""
    if not _is_text(text):
        return []
    rows = reader.find_ids(text, limit)
    looked_at = {benchmark}
    if benchmark is None:
        looked_at = {name for name in {row[0] for row in rows} if Branch.parse(name) is None}
    return [IdMatch(*row) for row in rows if row[0] in looked_at]


def _is_text(typed: str) -> bool:
    """Whether it holds no bytes of the command line that are no text."""
    try:
        typed.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nearest_id(reader: Reader, text: str, benchmark: str | None) -> str | None:
    """The most similar id among all, or where those are too many, among those that begin alike."""
    ids: set[str] = set()
    for length in range(len(text[:LONGEST])):
        near = {match.id for match in _ids_with_prefix(reader, text[:length], benchmark, NEAR)}
        ids = near or ids
        if len(near) < NEAR:
            break
    return nearest_word(text, ids)
