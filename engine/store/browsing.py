"""Finds the judged conversations that match a filter, sorts them, and reads what a table shows;
and parses a filter as a person types it.

A result of thirty thousand rows is a number for each; a page of rows is read when it is shown.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from engine.benchmark import ConversationKey, StopReason, Track, base_id
from engine.store.codec import optional_bool, read
from engine.store.connection import Parameter
from engine.store.reader import Reader
from engine.store.schema import (
    CHECKED_LANDMARKS,
    NEWER_FINISHED,
    TAKES_WITH_ENDS,
    TURNS,
    outcome,
    speaks,
)
from engine.store.tables import TakeCount, VerdictRow


class Field(StrEnum):
    """The fields of a filter."""

    BENCHMARK = "benchmark"
    METRIC = "metric"
    TYPE = "type"
    TARGET = "target"
    WHO = "who"
    """A demographic value, as `value` or `axis=value`."""
    SAMPLE = "sample"
    OUTCOME = "outcome"
    JUDGE = "judge"
    """Any judge of the conversation, whether or not that verdict counts."""
    END = "end"
    """Why the conversation ended."""
    IS = "is"
    """`split`: its judges disagree; `replayed`: it was played more than once; `invalid`: its user
    model did not play its part; `stale`: its inputs have changed since; `uncounted`: results leave
    it out; `failed`, `running`, `waiting`: its state; `unread`: nobody opened it; `starred`."""
    ID = "id"
    TEXT = "text"
    """A part of a justification, a quote or the id."""


OUTCOMES: Final = ("pass", "fail", "unscored")
SPLIT: Final = "split"
REPLAYED: Final = "replayed"
INVALID: Final = "invalid"
STALE: Final = "stale"
UNCOUNTED: Final = "uncounted"
FAILED: Final = "failed"
RUNNING: Final = "running"
WAITING: Final = "waiting"
UNREAD: Final = "unread"
STARRED: Final = "starred"
STATES: Final = (FAILED, RUNNING, WAITING)
KINDS: Final = (SPLIT, REPLAYED, INVALID, STALE, UNCOUNTED, *STATES, UNREAD, STARRED)


@dataclass(frozen=True, slots=True)
class FilterTerm:
    """Matches if the field matches one of `values`; if `negated`, if it matches none."""

    field: Field
    values: tuple[str, ...]
    negated: bool = False


Filter = tuple[FilterTerm, ...]
"""Terms that must all match; an empty filter matches everything."""


class Column(StrEnum):
    """The columns that rows can be sorted by."""

    ID = "id"
    OUTCOME = "outcome"
    BENCHMARK = "benchmark"
    METRIC = "metric"
    TYPE = "type"
    TARGET = "target"
    WHO = "who"
    SAMPLE = "sample"
    TURNS = "turns"
    JUDGE = "judge"
    END = "end"
    AT = "when"
    BECAUSE = "because"


@dataclass(frozen=True, slots=True)
class Sorting:
    """The order of rows; ties are sorted by their ids."""

    column: Column = Column.ID
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class FilterResult:
    """The `seq` of each counting take of the conversations that match, in order."""

    takes: array[int]
    passed: int
    failed: int
    through: int
    """The last verdict that was seen."""
    uncounted: int = 0
    """Those that results leave out, which are in none of the other numbers."""

    @property
    def unscored(self) -> int:
        return len(self.takes) - self.passed - self.failed - self.uncounted


@dataclass(frozen=True, slots=True)
class RelatedTake:
    """A take of a scenario or of one of its variants."""

    take_seq: int
    key: ConversationKey
    number: int
    """The number of the take within its conversation."""
    counts: bool
    """Whether it is the newest finished take."""
    stop_reason: StopReason | None
    """None while it is being played, or was interrupted."""
    finished: bool
    judged: bool
    passed: bool | None


class ArcTurn(NamedTuple):
    """What a small plot of the conversation shows of one turn."""

    landmark: bool
    """Whether the user model was given an instruction in this turn."""
    quoted: bool
    """Whether the verdict quotes from this turn."""


@dataclass(frozen=True, slots=True)
class BrowsedRow:
    """A conversation as the table shows it."""

    verdict: VerdictRow
    """The newest verdict that agrees with what counts, by a judge that counts if there is one."""
    who: Mapping[str, str]
    judges: int
    """The number of judges that judged it, whether or not they agree."""
    counts: bool
    """Whether there is no newer finished take of it."""
    arc: Sequence[ArcTurn]
    why_not: str | None = None
    """Why results leave it out; None if they do not."""


MOST_GROUPS: Final = 256
"""The most demographic groups that are told apart."""
_CONV_ID: Final = (
    "t.scenario_id || '__' || t.target || CASE WHEN t.sample THEN '__s' || t.sample ELSE '' END"
)
_JUDGED: Final = (
    "FROM take t "
    "JOIN verdict v ON v.seq = (SELECT max(seq) FROM verdict WHERE take = t.seq) "
    "JOIN take_end e ON e.take = t.seq AND e.finished = 1"
)
_COUNTING: Final = f"{_JUDGED} WHERE NOT EXISTS ({NEWER_FINISHED})"
_WHO: Final = (
    "(SELECT s.demographic FROM scenario s WHERE s.benchmark = t.benchmark "
    "AND s.scenario_id = t.scenario_id ORDER BY s.seq DESC LIMIT 1)"
)
METRIC_ID: Final = (
    "coalesce(v.metric_id, (SELECT s.metric_id FROM scenario s WHERE s.benchmark = t.benchmark "
    "AND s.scenario_id = t.scenario_id ORDER BY s.seq DESC LIMIT 1))"
)
_PAIRS: Final = "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)"
_TRIPLES: Final = (
    "SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]')"
    " FROM json_each(?)"
)
_SPLIT: Final = (
    "EXISTS (SELECT 1 FROM verdict a JOIN verdict b ON b.take = a.take AND b.passed <> a.passed "
    "WHERE a.take = t.seq AND a.passed = 1 AND NOT EXISTS (SELECT 1 FROM verdict c WHERE "
    "c.take = t.seq AND c.judge = a.judge AND c.number = a.number AND c.seq > a.seq) "
    "AND NOT EXISTS (SELECT 1 FROM verdict c WHERE c.take = t.seq AND c.judge = b.judge "
    "AND c.number = b.number AND c.seq > b.seq))"
)
_INVALID: Final = (
    "e.user_faults <> '[]' OR (SELECT answers LIKE '%\"holds\":false%' FROM take_check "
    f"WHERE take = t.seq AND {CHECKED_LANDMARKS} ORDER BY seq DESC LIMIT 1)"
)
_BROWSED: Final = (
    f"SELECT v.seq, {outcome('x')}, x.metric_id, x.track, x.judge, x.justification, x.quotes,"
    " t.seq AS take_seq, t.benchmark, t.scenario_id, t.target, t.sample, t.number AS take,"
    f" e.stop_reason, {TURNS} AS turns,"
    " (SELECT count(DISTINCT judge) FROM verdict WHERE take = t.seq) AS judges,"
    f" {_WHO} AS who, NOT EXISTS ({NEWER_FINISHED}) AS counts {_JUDGED}"
    f" JOIN verdict x ON x.seq = {speaks('?')} WHERE t.seq IN ({{}})"
)
PLACE: Final = ("t.benchmark", "t.scenario_id", "t.target", "t.sample")
"""In this order, rows are sorted by their ids, as an index has them."""
_PLACE: Final = ", ".join(PLACE)
ORDERS: Final[Mapping[Column, str]] = {
    Column.ID: _CONV_ID,
    Column.OUTCOME: "coalesce(v.counted, 2)",
    Column.BENCHMARK: "t.benchmark",
    Column.METRIC: METRIC_ID,
    Column.TYPE: "v.track",
    Column.TARGET: "t.target",
    Column.WHO: _WHO,
    Column.SAMPLE: "t.sample",
    Column.TURNS: TURNS,
    Column.JUDGE: "v.judge",
    Column.END: "e.stop_reason",
    Column.AT: "v.seq",
    Column.BECAUSE: "v.justification",
}


class Browser:
    """Queries the store over a reader's connection; threads may share it."""

    def __init__(self, reader: Reader) -> None:
        self._store = reader.connection
        self.stale: Collection[int] = ()
        """The takes that `is:stale` matches: the store does not know today's inputs."""
        self.decided: Mapping[int, TakeCount] = {}
        """The takes that the files decide otherwise than the newest verdict says."""
        self.opened: Collection[tuple[str, ConversationKey, int]] = ()
        """Takes by number, which `is:unread` does not match."""
        self.starred: Collection[tuple[str, ConversationKey]] = ()

    @property
    def path(self) -> Path:
        return self._store.path

    def close(self) -> None:
        self._store.close()

    def benchmarks(self) -> list[str]:
        """Return every benchmark with takes."""
        return [row[0] for row in self._store.all("SELECT DISTINCT benchmark FROM take")]

    def count(self) -> int:
        """Count the conversations whose counting take was judged, whatever the filter."""
        return self._store.number(f"SELECT count(*) {_COUNTING}")

    def longest_id(self) -> int:
        """Return the length of the longest conversation id, in characters."""
        return self._store.number(f"SELECT coalesce(max(length({_CONV_ID})), 0) FROM take t")

    def has_several_judges(self) -> bool:
        """Whether not all verdicts are by one judge."""
        asked = "SELECT EXISTS (SELECT 1 FROM verdict WHERE judge <> (SELECT judge FROM verdict))"
        return bool(self._store.number(asked))

    def groups(self) -> list[dict[str, str]]:
        """Return the demographic groups of all scenarios, each once, at most `MOST_GROUPS`."""
        rows = self._store.all(
            "SELECT DISTINCT demographic FROM scenario WHERE demographic NOT IN ('', '{}') LIMIT ?",
            (MOST_GROUPS,),
        )
        with self._store.reporting_damage():
            return [json.loads(row["demographic"]) for row in rows]

    def find(self, wanted: Filter = (), sorting: Sorting = Sorting()) -> FilterResult:
        """Return all conversations that match. Raises `StoreError`."""
        where, parameters = self._where(wanted)
        way = " DESC" if sorting.backwards else ""
        order = f"{ORDERS[sorting.column]}{way}, {_PLACE}"
        if sorting.column is Column.ID:
            # by columns: an index has them in this order, and a concatenated id would be computed
            # for each row
            order = ", ".join(name + way for name in PLACE)
        # read before the rows: a verdict stored in between is reported as new later, not missed
        through = self._store.number("SELECT coalesce(max(seq), 0) FROM verdict")
        rows = self._store.all(
            f"SELECT t.seq, v.counted {_COUNTING}{where} ORDER BY {order}", parameters
        )
        # counted here: a second query would read everything once more
        outcomes = Counter(self._outcome(*row) for row in rows)
        return FilterResult(
            # eight bytes a row; a list of integers takes several times as much
            array("q", [row[0] for row in rows]),
            outcomes["pass"],
            outcomes["fail"],
            through,
            outcomes[UNCOUNTED],
        )

    def _outcome(self, take: int, counted: int | None) -> str:
        """Return one of `OUTCOMES`, or `UNCOUNTED`."""
        decided = self.decided.get(take)
        if decided is None:
            return _OUTCOME_OF[counted]
        return _OUTCOME_OF[decided.passed] if decided.why_not is None else UNCOUNTED

    def _where(self, wanted: Filter) -> tuple[str, list[Parameter]]:
        """Return a filter as SQL, with its parameters."""
        parts: list[str] = []
        parameters: list[Parameter] = []
        for condition in wanted:
            alternatives = [self._condition(condition.field, value) for value in condition.values]
            either = " OR ".join(sql for sql, _ in alternatives) or "1"
            # coalesce: NULL would match neither a filter nor its negation
            parts.append(f" AND {'NOT ' if condition.negated else ''}coalesce(({either}), 0)")
            for _, values in alternatives:
                parameters += values
        return "".join(parts), parameters

    def _condition(self, field: Field, value: str) -> tuple[str, list[Parameter]]:
        match field:
            case Field.IS if value == UNREAD:
                opened = [[name, str(key), take] for name, key, take in self.opened]
                asked = f"coalesce((t.benchmark, {_CONV_ID}, t.number) NOT IN ({_TRIPLES}), 1)"
                return asked, [json.dumps(opened)]
            case Field.IS if value == STARRED:
                starred = [[benchmark, str(key)] for benchmark, key in self.starred]
                return f"(t.benchmark, {_CONV_ID}) IN ({_PAIRS})", [json.dumps(starred)]
            case Field.IS if value == UNCOUNTED:
                left_out = (take for take, of in self.decided.items() if of.why_not is not None)
                return _among(left_out)
            case Field.IS if value == STALE:
                return _among(self.stale)
            case Field.OUTCOME:
                return _outcome(value, self.decided)
            case _:
                return _field_condition(field, value)

    def finds_any(self, wanted: Filter) -> bool:
        """Whether any conversation matches. Raises `StoreError`."""
        where, parameters = self._where(wanted)
        return bool(self._store.all(f"SELECT 1 {_COUNTING}{where} LIMIT 1", parameters))

    def judged_since(self, wanted: Filter, after: int) -> tuple[list[int], int]:
        """Return the matching takes with a verdict beyond `after`, and the last verdict's `seq`."""
        where, parameters = self._where(wanted)
        through = self._store.number("SELECT coalesce(max(seq), 0) FROM verdict")
        if through <= after:
            return [], through
        newer = "SELECT DISTINCT take FROM verdict WHERE seq > ?"
        rows = self._store.all(
            f"SELECT t.seq {_COUNTING} AND t.seq IN ({newer}){where}", [after, *parameters]
        )
        return [row[0] for row in rows], through

    def outcomes(self, takes: Sequence[int]) -> tuple[int, int]:
        """Count how many of these takes pass and how many fail now. Raises `StoreError`."""
        newest = "SELECT max(seq) FROM verdict WHERE take = t.seq"
        asked = f"SELECT t.seq, v.counted FROM take t JOIN verdict v ON v.seq = ({newest})"
        rows = self._store.of_each(asked + " WHERE t.seq IN ({})", takes)
        counts = Counter(self._outcome(*row) for row in rows)
        return counts["pass"], counts["fail"]

    def rows(self, takes: Sequence[int], judges: Sequence[str] = ()) -> dict[int, BrowsedRow]:
        """Return the rows by take; a take that is gone from the store is left out. `judges` are
        those whose verdicts count."""
        by_take: dict[int, BrowsedRow] = {}
        landmarks = self._landmarks(takes)
        for row in self._store.of_each(_BROWSED, takes, [json.dumps(judges)]):
            with self._store.reporting_damage():
                shown, decided = read(VerdictRow, row), self.decided.get(row["take_seq"])
                if decided is not None:
                    shown = replace(shown, passed=decided.passed, unscored=decided.unscored)
                by_take[row["take_seq"]] = BrowsedRow(
                    shown,
                    json.loads(row["who"] or "{}"),
                    row["judges"],
                    bool(row["counts"]),
                    _arc(landmarks.get(row["take_seq"], {}), row["quotes"]),
                    None if decided is None else decided.why_not,
                )
        return by_take

    def _landmarks(self, takes: Sequence[int]) -> dict[int, dict[int, bool]]:
        """By take and turn: whether there was a landmark."""
        by_take: dict[int, dict[int, bool]] = defaultdict(dict)
        for take, turn, landmark in self._store.of_each(
            "SELECT take, turn, landmark IS NOT NULL FROM message "
            "WHERE take IN ({}) AND speaker = 'user' ORDER BY take, turn",
            takes,
        ):
            by_take[take][turn] = bool(landmark)
        return by_take

    def keys(self, takes: Sequence[int]) -> list[tuple[str, ConversationKey]]:
        """Return benchmark and conversation of each take, in this order, without takes that are
        gone."""
        by_take: dict[int, tuple[str, ConversationKey]] = {}
        for row in self._store.of_each("SELECT * FROM take WHERE seq IN ({})", takes):
            by_take[row["seq"]] = (row["benchmark"], read(ConversationKey, row))
        return [by_take[take] for take in takes if take in by_take]

    def related_takes(self, benchmark: str, scenario_id: str) -> list[RelatedTake]:
        """Return every take of a scenario's base and of all its variants, by all targets, sorted
        by scenario, target, sample and number."""
        base = base_id(scenario_id)
        rows = self._store.all(
            "SELECT t.*, e.stop_reason, coalesce(e.finished, 0) AS finished, v.counted, "
            f"v.seq AS judged {TAKES_WITH_ENDS} "
            "LEFT JOIN verdict v ON v.seq = (SELECT max(seq) FROM verdict WHERE take = t.seq) "
            "WHERE t.benchmark = ? AND (t.scenario_id = ? "
            # not LIKE, for which `_` is any character and case does not matter
            "OR substr(t.scenario_id, 1, length(?)) = ?) "
            f"ORDER BY {_PLACE}, t.number",
            (benchmark, base, f"{base}_v", f"{base}_v"),
        )
        newest = {read(ConversationKey, row): row["number"] for row in rows if row["finished"]}
        return [
            RelatedTake(
                take_seq=row["seq"],
                key=(key := read(ConversationKey, row)),
                number=row["number"],
                counts=newest.get(key) == row["number"],
                stop_reason=None if row["stop_reason"] is None else StopReason(row["stop_reason"]),
                finished=bool(row["finished"]),
                judged=row["judged"] is not None,
                passed=optional_bool(row["counted"]),
            )
            for row in rows
        ]

    def takes_that_count(
        self, wanted: Iterable[tuple[str, ConversationKey]]
    ) -> dict[tuple[str, ConversationKey], int]:
        """Return the newest finished take of each of these conversations, without those that have
        none."""
        asked = set(wanted)
        takes: dict[tuple[str, ConversationKey], int] = {}
        for benchmark in sorted({name for name, _ in asked}):
            for row in self._store.all(
                "SELECT t.* FROM take t JOIN take_end e ON e.take = t.seq AND e.finished = 1 "
                f"WHERE t.benchmark = ? ORDER BY {_PLACE}, t.number",
                (benchmark,),
            ):
                conversation = (benchmark, read(ConversationKey, row))
                if conversation in asked:
                    takes[conversation] = row["seq"]
        return takes

    def takes_of(self, wanted: Iterable[tuple[str, ConversationKey, int]]) -> set[int]:
        """Return the takes with these numbers of these conversations."""
        # as JSON in one parameter, as the number of parameters is limited
        names = json.dumps([(benchmark, str(key), take) for benchmark, key, take in wanted])
        rows = self._store.all(
            f"SELECT t.seq FROM take t WHERE (t.benchmark, {_CONV_ID}, t.number) IN ({_TRIPLES})",
            (names,),
        )
        return {row[0] for row in rows}

    def judged_again(self, takes: Collection[int], after: int) -> dict[int, int]:
        """Return the newest verdict's `seq` for each of these takes with one beyond `after`."""
        rows = self._store.all(
            "SELECT take, max(seq) AS seq FROM verdict WHERE seq > ? GROUP BY take", (after,)
        )
        return {row["take"]: row["seq"] for row in rows if row["take"] in takes}


def _arc(landmarks: Mapping[int, bool], quotes: str) -> list[ArcTurn]:
    quoted = {quote.get("turn") for quote in json.loads(quotes)}
    return [ArcTurn(landmark, turn in quoted) for turn, landmark in landmarks.items()]


# A filter as SQL


_OUTCOME_OF: Final = {1: "pass", 0: "fail", None: "unscored"}


def _field_condition(field: Field, value: str) -> tuple[str, list[Parameter]]:
    match field:
        case Field.SAMPLE:
            return "CAST(t.sample AS TEXT) = ?", [value]
        case Field.WHO:
            return _person_condition(value)
        case Field.IS:
            kinds = {SPLIT: _SPLIT, REPLAYED: "t.number > 0", INVALID: _INVALID}
            return kinds.get(value, "0"), []
        case Field.JUDGE:
            return (
                "EXISTS (SELECT 1 FROM verdict w WHERE w.take = t.seq AND "
                "w.judge LIKE ? ESCAPE '\\')",
                [_anywhere(value)],
            )
        case Field.TEXT:
            like = "LIKE ? ESCAPE '\\'"
            sql = (
                f"EXISTS (SELECT 1 FROM verdict w WHERE w.take = t.seq AND (w.justification {like} "
                f"OR w.quotes {like})) OR {_CONV_ID} {like}"
            )
            # quotes are stored as JSON, in which a quotation mark or a line break is escaped
            quoted = json.dumps(value, ensure_ascii=False)[1:-1]
            return sql, [_anywhere(value), _anywhere(quoted), _anywhere(value)]
        case Field.METRIC | Field.TYPE:
            column = METRIC_ID if field is Field.METRIC else "v.track"
            return f"{column} LIKE ? ESCAPE '\\'", [_beginning_or_all(value)]
        case _:
            column = {
                Field.BENCHMARK: "t.benchmark",
                Field.TARGET: "t.target",
                Field.END: "e.stop_reason",
            }.get(field, _CONV_ID)
            return f"{column} LIKE ? ESCAPE '\\'", [_anywhere_or_all(value)]


def _among(takes: Iterable[int]) -> tuple[str, list[Parameter]]:
    return "t.seq IN (SELECT value FROM json_each(?))", [json.dumps(list(takes))]


def _outcome(value: str, decided: Mapping[int, TakeCount]) -> tuple[str, list[Parameter]]:
    """Match outcomes of what counts by a prefix of their names."""
    meant = [name for name in OUTCOMES if value and name.startswith(value)]
    sql = {"pass": "v.counted = 1", "fail": "v.counted = 0", "unscored": "v.counted IS NULL"}
    stored = " OR ".join(sql[name] for name in meant) or "0"
    if not decided:
        return stored, []
    among, takes = _among(decided)
    here, own = _among(
        take
        for take, of in decided.items()
        if of.why_not is None and _OUTCOME_OF[of.passed] in meant
    )
    return f"{here} OR (({stored}) AND NOT {among})", [*own, *takes]


def _person_condition(value: str) -> tuple[str, list[Parameter]]:
    axis, equals, wanted = value.partition("=")
    like = "LIKE ? ESCAPE '\\'"
    test = f"j.key {like} AND j.value {like}" if equals else f"j.value {like}"
    return (
        # one concatenated column: SQLite compares a pair of columns row by row; no benchmark's
        # name has a slash
        "t.benchmark || '/' || t.scenario_id IN (SELECT s.benchmark || '/' || s.scenario_id"
        " FROM scenario s,"
        f" json_each(s.demographic) j WHERE {test} AND NOT EXISTS (SELECT 1 FROM scenario n WHERE"
        " n.benchmark = s.benchmark AND n.scenario_id = s.scenario_id AND n.seq > s.seq))",
        [_anywhere(axis), _anywhere(wanted)] if equals else [_anywhere(value)],
    )


def _anywhere_or_all(value: str) -> str:
    """Match any part; after an equals sign, the whole."""
    return _like_pattern(value[1:]) if value.startswith("=") else _anywhere(value)


def _beginning_or_all(value: str) -> str:
    """Match the beginning; after an equals sign, the whole."""
    return _like_pattern(value[1:]) if value.startswith("=") else _like_pattern(value) + "%"


def _anywhere(value: str) -> str:
    return f"%{_like_pattern(value)}%"


def _like_pattern(value: str) -> str:
    """Escape a value for LIKE, except that `*` matches anything."""
    for special in ("\\", "%", "_"):
        value = value.replace(special, "\\" + special)
    return value.replace("*", "%")


# A filter line, as a person types it


LONGEST: Final = 500
"""The longest line in characters."""

_WORD: Final = re.compile(
    r'(?P<no>-?)(?:(?P<name>[A-Za-z]+):)?(?:"(?P<quoted>[^"]*)"?|(?P<bare>\S+))'
)
_OTHER_NAMES: Final[dict[str, Field]] = {
    "demographic": Field.WHO,
    "evaluator": Field.JUDGE,
    "stop": Field.END,
    "verdict": Field.OUTCOME,
}
_SIGNS: Final[Mapping[str, str]] = {
    "+": Track.POSITIVE.value,
    "-": Track.NEGATIVE.value,
    "−": Track.NEGATIVE.value,
}
HELP: Final = "outcome: metric: target: who: judge: end: is:stale -not =whole"


class FilterFault(Exception):  # noqa: N818  (a fault of what was typed, in words for who typed it)
    """A fault in a filter line, in words."""


def parse(typed: str) -> Filter:
    """Parse a filter line into conditions; an empty one has none. Raises `FilterFault`."""
    words = _WORD.finditer(typed[:LONGEST])
    return tuple(_term(word, values) for word in words if (values := _values_typed(word)))


def _values_typed(match: re.Match[str]) -> list[str]:
    quoted, bare = match["quoted"], match["bare"]
    if quoted is not None:
        return [quoted] if quoted else []
    if match["name"] is not None:
        return [value for value in bare.split(",") if value]
    is_begun = bare.endswith(":") and bare[:-1].isalpha()
    return [] if is_begun else [bare]


def _term(match: re.Match[str], values: Sequence[str]) -> FilterTerm:
    field = Field.TEXT if match["name"] is None else _field(match["name"])
    negated = match["no"] == "-"
    return FilterTerm(field, tuple(_value(field, value) for value in values), negated)


def _field(name: str) -> Field:
    """The field with this name or with a name that begins like this."""
    wanted = name.lower()
    names = {field.value: field for field in Field} | _OTHER_NAMES
    if wanted in names:
        return names[wanted]
    meant = {field for known, field in names.items() if known.startswith(wanted)}
    if len(meant) == 1:
        return meant.pop()
    raise FilterFault(f"there is no `{name}:`, but " + " ".join(f"{field}:" for field in Field))


def _value(field: Field, value: str) -> str:
    match field:
        case Field.OUTCOME:
            return _one_of(field, value, OUTCOMES)
        case Field.IS:
            return _one_of(field, value, KINDS)
        case Field.TYPE:
            return _one_of(field, _SIGNS.get(value, value), [track.value for track in Track])
        case Field.SAMPLE:
            if not value.isdecimal() or not value.isascii():
                raise FilterFault(f"sample: takes a number from 0, not `{value}`")
            return str(int(value))
        case _:
            return value


def _one_of(field: Field, value: str, known: tuple[str, ...] | list[str]) -> str:
    meant = [word for word in known if word.startswith(value.lower())]
    if len(meant) != 1:
        raise FilterFault(f"{field}: takes {', '.join(known)}, not `{value}`")
    return meant[0]
