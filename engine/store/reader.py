"""All queries of the store, for the engine and for any number of watchers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from sqlite3 import Row
from typing import Final, TypeVar

from engine.benchmark import (
    ConversationKey,
    CostOrigins,
    Metric,
    Role,
    Scenario,
    Speaker,
    Stage,
    State,
    Usage,
)
from engine.errors import DamagedError
from engine.facts import Fact, NoteKind
from engine.identity import message_digest
from engine.jury import HUMAN, PlainVote
from engine.progress import Progress
from engine.scripted import EVALUATOR, GENERATOR, TARGET, USER, is_script, played_by
from engine.store.codec import VOTE, columns_of, plain_vote, read, read_all
from engine.store.connection import Connection, Parameter
from engine.store.events import USAGE, facts_after, last_seq, snapshot
from engine.store.imports import CONFIG, ImportNote, kept_import, rows_digest
from engine.store.lock import LEASE, Lease, ProcessState, holder_state, lease_from
from engine.store.rowcheck import SPENT, plausible_value
from engine.store.schema import (
    CHECKED_LANDMARKS,
    CONV_ID,
    NEWER_FINISHED,
    TAKES_WITH_ENDS,
    TURNS,
    outcome,
    part_is_damaged,
    speaks,
)
from engine.store.tables import (
    AttemptRow,
    BatchEventRow,
    BatchRow,
    CheckRow,
    Depends,
    LabelSampleRow,
    LearnedRow,
    MessageRow,
    MetricRow,
    MirroredFile,
    ReviewRow,
    RunRow,
    ScenarioRow,
    SettingsRow,
    StateRow,
    StoredBatch,
    StoredConfig,
    StoredTake,
    UnusableRow,
    Verdict,
    VerdictRow,
    utc_datetime,
)

_T = TypeVar("_T")

_TAKES: Final = (
    "SELECT t.*, e.stop_reason, e.finished, e.detail, e.user_faults,"
    f" (SELECT answers FROM take_check WHERE take = t.seq AND {CHECKED_LANDMARKS}"
    f" ORDER BY seq DESC LIMIT 1) AS landmark_check {TAKES_WITH_ENDS}"
)
_LEFT_OUT: Final = {
    "justification": "''",
    "quotes": "'[]'",
    "marks": "NULL",
    "depends": "CASE WHEN passed IS NULL THEN depends END",
}
_BRIEF_VERDICT: Final = ", ".join(
    f"{_LEFT_OUT[name]} AS {name}" if name in _LEFT_OUT else name for name in columns_of("verdict")
)
NEWEST: Final = 2**62
"""Above every `seq`."""
_IN_ORDER: Final = " GROUP BY id, benchmark ORDER BY id, benchmark LIMIT ?3"


def _ids(condition: str) -> dict[str, str]:
    """The queries for ids, by kind."""
    return {
        "metric": "SELECT benchmark, id FROM ("
        "  SELECT benchmark, metric_id AS id FROM metric UNION ALL"
        f"  SELECT benchmark, metric_id FROM scenario) WHERE {condition}",
        "scenario": "SELECT benchmark, scenario_id AS id FROM scenario s WHERE removed = 0"
        "  AND seq = (SELECT max(seq) FROM scenario n WHERE n.benchmark = s.benchmark"
        f"  AND n.scenario_id = s.scenario_id) AND {condition}",
        "conversation": f"SELECT benchmark, {CONV_ID} AS id FROM take WHERE {condition}",
    }


IDS: Final = _ids("id >= ?1 AND id < ?2" + _IN_ORDER)
"""Each query reads an index in its order, so that it reads no more than it returns."""
_IDS_WITHIN: Final = _ids("instr(lower(id), ?1) > 0 AND NOT (id >= ?2 AND id < ?4)" + _IN_ORDER)
"""Ids that contain a text and do not begin with it. Scans all ids."""
_BEYOND: Final = "\U0010ffff"
"""Sorts after every character that can follow a prefix."""
_BENCHMARKS: Final = (
    "WITH RECURSIVE one (name) AS (SELECT min(benchmark) FROM {table} UNION ALL"
    " SELECT (SELECT min(benchmark) FROM {table} WHERE benchmark > one.name) FROM one"
    " WHERE name IS NOT NULL) SELECT name FROM one WHERE name IS NOT NULL"
)
"""Skips from one name to the next, as there are few names in many rows."""
USED_CALLS: Final = 5_000
"""The newest calls, enough to predict what the next ones use and quick to read."""
ATTEMPTS_WITHIN: Final = 20_000
"""Rows before a failure, of all tables, among which its attempts are searched."""

_SPEAKERS: Final = (Speaker.USER, Speaker.TARGET)
"""In the order of their messages."""


class Reader:
    """Read-only queries over one connection, which threads may share. All results are complete."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """For modules of `engine.store` that query the same connection."""
        self.path = connection.path
        self._scenarios: dict[str, tuple[tuple[object, ...], list[ScenarioRow]]] = {}
        """Those that were read last, with the sums that they had then: plans read them often."""

    def close(self) -> None:
        """Close the connection, and with it all that share it."""
        self.connection.close()

    def move_to(self, other: Reader) -> None:
        """Read from the store of `other` from now on; `other` must not be used any more."""
        self.connection.move_to(other.connection)
        # rows of another store may have the same sums
        self._scenarios.clear()

    # For watchers

    def data_version(self) -> int:
        """Return a number that changes whenever another connection has committed."""
        return self.connection.number("PRAGMA data_version")

    def last_seq(self) -> int:
        """Return the last committed `seq`; 0 for an empty store."""
        return last_seq(self.connection)

    def facts(self, after: int, limit: int = 5000) -> list[Fact]:
        """Return the first `limit` facts beyond `after`, in order and without gaps."""
        return facts_after(self.connection, after, limit)

    def snapshot(self) -> Progress:
        """Return what folding all facts up to now would give."""
        return snapshot(self.connection)

    # Overview

    def benchmarks(self) -> list[str]:
        """Return every benchmark's name, including validation runs, sorted."""
        names: set[str] = set()
        for table in ("scenario", "take", "state", "metric"):
            names.update(row[0] for row in self.connection.all(_BENCHMARKS.format(table=table)))
        return sorted(names)

    def last_run(self) -> RunRow | None:
        """Return the newest run; None if there is none, as in a store with imports only."""
        row = self.connection.first("SELECT * FROM run ORDER BY seq DESC LIMIT 1")
        return None if row is None else read(RunRow, row)

    def last_config(self) -> StoredConfig | None:
        """Return the configuration of the newest run, or of an import after it."""
        run = self.last_run()
        row = self.connection.first(
            "SELECT at, digest, seq FROM mirrored WHERE path = ?", (CONFIG,)
        )
        if row is not None and (run is None or row["seq"] > run.seq):
            return StoredConfig(row["digest"], utc_datetime(row["at"]), is_run=False)
        return None if run is None else StoredConfig(run.config, run.when, is_run=True)

    def run_over(self, after: int) -> RunRow | None:
        """Return the newest run beyond `after` that has ended."""
        row = self.connection.first(
            "SELECT r.* FROM run r WHERE r.seq > ? AND EXISTS (SELECT 1 FROM note n "
            "WHERE n.kind = ? AND n.seq > r.seq) ORDER BY r.seq DESC LIMIT 1",
            (after, NoteKind.RUN_ENDED.value),
        )
        return None if row is None else read(RunRow, row)

    def mirrored(self, path: str) -> MirroredFile | None:
        """Return a file of the mirror by its path relative to the workspace."""
        row = self.connection.first("SELECT * FROM mirrored WHERE path = ?", (path,))
        return None if row is None else read(MirroredFile, row)

    def rows_digest(self, benchmark: str) -> str:
        """Return a digest that changes when a row of the benchmark is added or removed."""
        return rows_digest(self.connection, benchmark)

    def imported(self, benchmark: str, source: str) -> ImportNote | None:
        """Return the last import from a source; None if the store has lost rows since then."""
        return kept_import(self.connection, benchmark, source)

    def counts_digest(self, benchmark: str) -> str | None:
        """Return the digest of what was last decided of a benchmark; None if nothing was."""
        row = self.connection.first(
            "SELECT digest FROM counts_as_of WHERE benchmark = ?", (benchmark,)
        )
        return None if row is None else str(row["digest"])

    def kept_digest(self, path: str) -> str | None:
        """Return the digest of an edited file that a person decided to keep; None otherwise."""
        row = self.connection.first("SELECT digest FROM kept WHERE path = ?", (path,))
        return None if row is None else str(row["digest"])

    def lease(self) -> Lease | None:
        """Return the lease of the engine that has the store, or had it when it was killed."""
        row = self.connection.first(f"SELECT {LEASE} FROM lease")
        return None if row is None else lease_from(row)

    def find_ids(self, prefix: str, limit: int = 20) -> list[tuple[str, str, str]]:
        """Return (benchmark, id, kind) of ids that begin with `prefix`; kind is `metric`,
        `scenario` or `conversation`, in this order. A negative `limit` is none."""
        matches: list[tuple[str, str, str]] = []
        for kind, sql in IDS.items():
            left = limit if limit < 0 else limit - len(matches)
            if left:
                rows = self.connection.all(sql, (prefix, prefix + _BEYOND, left))
                matches += [(row["benchmark"], row["id"], kind) for row in rows]
        return matches

    def find_ids_within(self, part: str, limit: int) -> list[tuple[str, str, str]]:
        """As `find_ids`, for ids that contain `part` but do not begin with it in this case."""
        matches: list[tuple[str, str, str]] = []
        texts = (part.lower(), part)
        for kind, sql in _IDS_WITHIN.items():
            rows = self.connection.all(sql, (*texts, limit - len(matches), part + _BEYOND))
            matches += [(row["benchmark"], row["id"], kind) for row in rows]
        return matches

    # Metrics and scenarios

    def metrics(self, benchmark: str) -> list[tuple[Metric, Depends | None, str]]:
        """Return the newest metric of each id, with its inputs and its source."""
        rows = self.metric_rows(benchmark)
        return [(row.metric, row.depends, row.source) for row in rows]

    def metric_rows(self, benchmark: str) -> list[MetricRow]:
        """Return the newest row of each metric."""
        return [read(MetricRow, row) for row in self._newest_rows("metric", "metric_id", benchmark)]

    def scenarios(self, benchmark: str) -> list[ScenarioRow]:
        """Return the newest row of each base scenario and variant, except removed ones."""
        sums = self.scenario_sums(benchmark, NEWEST)
        before, kept = self._scenarios.get(benchmark, ((), []))
        if sums != before:
            rows = self._newest_rows("scenario", "scenario_id", benchmark)
            kept = [read(ScenarioRow, row) for row in rows if not row["removed"]]
            self._scenarios[benchmark] = sums, kept
        # a copy, as the list is kept for the next one who asks
        return [*kept]

    def removed_scenarios(self, benchmark: str) -> frozenset[str]:
        """Return the ids that a person removed from the file and that did not come back."""
        rows = self._newest_rows("scenario", "scenario_id", benchmark)
        return frozenset(row["scenario_id"] for row in rows if row["removed"])

    def scenario_sums(self, benchmark: str, through: int) -> tuple[object, ...]:
        """Return figures that change when a row up to `through` is gone; reads an index only."""
        row = self.connection.first(
            # `total`, as `sum` of no row is NULL, and fails where whole numbers overflow
            "SELECT count(*), max(seq), total(seq) FROM scenario WHERE benchmark = ? AND seq <= ?",
            (benchmark, through),
        )
        return () if row is None else tuple(row)

    def has_scenario(self, benchmark: str, scenario_id: str) -> bool:
        """Whether this scenario is not removed. True for one that never was."""
        row = self.connection.first(
            "SELECT removed, max(seq) FROM scenario WHERE benchmark = ? AND scenario_id = ?",
            (benchmark, scenario_id),
        )
        return row is not None and not row["removed"]

    def gone_scenarios(self, benchmark: str) -> list[ScenarioRow]:
        """Return the newest row of each removed scenario."""
        rows = self._newest_rows("scenario", "scenario_id", benchmark)
        return [read(ScenarioRow, row) for row in rows if row["removed"]]

    def scenario_of(self, take: StoredTake) -> Scenario | None:
        """Return the scenario as it was when the take was played; None if it is unknown."""
        row = self.connection.first("SELECT * FROM scenario WHERE seq = ?", (take.scenario_seq,))
        return None if row is None else read(ScenarioRow, row).scenario

    def turns_without_pressure(self, take_seq: int) -> list[int]:
        """Return the turns of the scenario's landmarks for a take with `stance: neutral`, whose
        user model was told none of them; empty for other takes."""
        row = self.connection.first(
            "SELECT s.* FROM take t JOIN scenario s ON s.seq = t.scenario "
            # `json_extract` fails where a damaged row holds no JSON
            "WHERE t.seq = ? AND CASE WHEN json_valid(t.depends) "
            "THEN json_extract(t.depends, '$.stance') END = 'neutral'",
            (take_seq,),
        )
        if row is None:
            return []
        return [mark.turn for mark in read(ScenarioRow, row).scenario.landmarks]

    def scenario_history(self, benchmark: str) -> dict[int, ScenarioRow]:
        """Return every row of every scenario by `seq`: older takes were played from older rows."""
        rows = self.connection.all("SELECT * FROM scenario WHERE benchmark = ?", (benchmark,))
        return {row["seq"]: read(ScenarioRow, row) for row in rows}

    def _newest_rows(self, table: str, column: str, benchmark: str) -> list[Row]:
        return self.connection.all(
            # SQLite takes the other columns from the row that has the maximum
            f"SELECT *, max(seq) FROM {table} WHERE benchmark = ? GROUP BY {column} "
            f"ORDER BY {column}",
            (benchmark,),
        )

    # Takes and messages

    def takes(
        self,
        benchmark: str,
        key: ConversationKey | None = None,
        *,
        target: str | None = None,
        but: Collection[str] = (),
    ) -> list[StoredTake]:
        """Return takes by scenario, target, sample and number; of all conversations, of one, or of
        one target; `but` names conversations to leave out."""
        where, parameters = "t.benchmark = ?", [benchmark]
        if target is not None:
            where += " AND t.target = ?"
            parameters.append(target)
        if but:
            # one parameter for all names: a statement takes only so many
            where += f" AND {CONV_ID} NOT IN (SELECT value FROM json_each(?))"
            parameters.append(json.dumps(list(but)))
        return self._takes(where, parameters, key=key)

    def counting_take(self, benchmark: str, key: ConversationKey) -> StoredTake | None:
        """Return the newest finished take of a conversation."""
        finished = [take for take in self.takes(benchmark, key) if take.finished]
        return finished[-1] if finished else None

    def counting_takes(self, benchmark: str, target: str | None = None) -> list[StoredTake]:
        """Return the newest finished take of each conversation, of all targets or of one."""
        where = f"t.benchmark = ? AND e.finished = 1 AND NOT EXISTS ({NEWER_FINISHED})"
        parameters = [benchmark]
        if target is not None:
            where += " AND t.target = ?"
            parameters.append(target)
        return self._takes(where, parameters)

    def counting_among(self, take_seqs: Iterable[int]) -> set[int]:
        """Return those of these takes that are the newest finished ones of their conversations."""
        where = f"t.seq IN (SELECT value FROM json_each(?)) AND NOT EXISTS ({NEWER_FINISHED})"
        takes = self._takes(where, [json.dumps(list(take_seqs))])
        return {take.seq for take in takes if take.finished}

    def messages(self, take_seq: int) -> list[MessageRow]:
        """Return a take's messages in order. Raises `StoreError` if any is damaged or missing."""
        return self.messages_of([take_seq])[take_seq]

    def messages_of(self, take_seqs: Iterable[int]) -> dict[int, list[MessageRow]]:
        """As `messages`, for many takes, by take."""
        order = "take, turn, speaker = 'assistant'"
        # false sorts before true, so the user's message of a turn comes first
        by_take = self._by_take(take_seqs, "message", order, _message)
        for messages in by_take.values():
            self._refuse_gap(messages)
        return by_take

    def _refuse_gap(self, messages: Sequence[MessageRow]) -> None:
        """Raise `DamagedError` if a message of one take is missing between others."""
        # the two sides take turns, the user first
        for place, message in enumerate(messages):
            if message.turn != (place >> 1) + 1 or message.speaker is not _SPEAKERS[place & 1]:
                where = f"turn {message.turn}, {message.speaker}, of take {message.take}"
                how = f"what was said before {where} is missing"
                raise part_is_damaged(self.connection.path, how)

    def messages_by_others(self, benchmark: str) -> dict[tuple[int, Speaker], dict[str, int]]:
        """Count by take and side the messages from models other than the one that was asked."""
        rows = self.connection.all(
            "SELECT m.take, m.speaker, m.served_by, count(*) AS messages FROM message m "
            "JOIN take t ON t.seq = m.take WHERE m.served_by IS NOT NULL AND t.benchmark = ? "
            "GROUP BY m.take, m.speaker, m.served_by",
            (benchmark,),
        )
        by_side: dict[tuple[int, Speaker], dict[str, int]] = {}
        for row in rows:
            side = by_side.setdefault((row["take"], Speaker(row["speaker"])), {})
            side[row["served_by"]] = row["messages"]
        return by_side

    def messages_said(self, take_seqs: Iterable[int], speaker: Speaker) -> int:
        """Count the messages of one side in these takes."""
        return self.connection.number(
            "SELECT count(*) FROM message WHERE speaker = ?2 "
            "AND take IN (SELECT value FROM json_each(?1))",
            (json.dumps(list(take_seqs)), speaker.value),
        )

    def target_models(self) -> list[tuple[str, str]]:
        """Return the targets of all benchmarks, with the models that played them."""
        rows = self.connection.all("SELECT DISTINCT target, model FROM take")
        return [(target, model) for target, model in rows]

    def parts_played(self) -> dict[str, dict[str, bool]]:
        """Return by benchmark and role whether a script played it, even in part."""
        by_benchmark: dict[str, dict[str, bool]] = defaultdict(dict)
        for benchmark, target, user_model, model, scripted in self.connection.all(
            "SELECT DISTINCT benchmark, target, user_model, model, scripted FROM take"
        ):
            parts = played_by(user_model, model, scripted=bool(scripted))
            played = {USER: parts[USER], f"{TARGET} {target}": parts[TARGET]}
            for part, script in played.items():
                by_benchmark[benchmark][part] = by_benchmark[benchmark].get(part, False) or script
        for benchmark, judge in self.connection.all(
            "SELECT DISTINCT t.benchmark, v.judge FROM verdict v JOIN take t ON t.seq = v.take "
            "WHERE v.source IS NOT ?",
            (HUMAN,),
        ):
            by_benchmark[benchmark][f"{EVALUATOR} {judge}"] = is_script(judge)
        for benchmark, parts in by_benchmark.items():
            writers = self.connection.all(
                "SELECT DISTINCT model FROM attempt WHERE benchmark = ? AND stage IN (?, ?)",
                (benchmark, Stage.GEN_METRICS.value, Stage.GEN_SCENARIOS.value),
            )
            if any(is_script(row[0]) for row in writers):
                parts[GENERATOR] = True
        return dict(by_benchmark)

    def turns_begun(self, benchmark: str) -> dict[int, int]:
        """Return the last turn of each take, from an index and without reading texts."""
        rows = self.connection.all(
            "SELECT t.seq, (SELECT max(turn) FROM message WHERE take = t.seq) FROM take t "
            "WHERE t.benchmark = ?",
            (benchmark,),
        )
        return {row[0]: row[1] or 0 for row in rows}

    def withheld_replies(self) -> dict[int, int]:
        """Return how many replies of each take the provider's filter withheld or the model refused,
        from an index; only of takes that have any."""
        rows = self.connection.all(
            "SELECT take, count(*) FROM message WHERE finish IN ('content_filter', 'refusal') "
            "GROUP BY take"
        )
        return {row[0]: row[1] for row in rows}

    def message_digests(self, take_seqs: Iterable[int]) -> dict[int, list[bytes]]:
        """Return the digests of each take's messages, in order."""
        order = "take, turn, speaker = 'assistant'"
        return self._by_take(take_seqs, "message", order, lambda row: bytes(row["digest"]))

    def _takes(
        self, where: str, parameters: Sequence[Parameter], *, key: ConversationKey | None = None
    ) -> list[StoredTake]:
        if key is not None:
            where += " AND t.scenario_id = ? AND t.target = ? AND t.sample = ?"
            parameters = [*parameters, key.scenario_id, key.target_id, key.sample]
        order = "t.scenario_id, t.target, t.sample, t.number"
        rows = self.connection.all(f"{_TAKES} WHERE {where} ORDER BY {order}", parameters)
        return read_all(StoredTake, rows)

    def _by_take(
        self,
        take_seqs: Iterable[int],
        table: str,
        order: str,
        parse: Callable[[Row], _T],
        columns: str = "*",
    ) -> dict[int, list[_T]]:
        seqs = list(take_seqs)
        by_take: dict[int, list[_T]] = {seq: [] for seq in seqs}
        sql = f"SELECT {columns} FROM {table} WHERE take IN ({{}}) ORDER BY {order}"
        for row in self.connection.of_each(sql, seqs):
            by_take[row["take"]].append(parse(row))
        return by_take

    # Verdicts, checks and labels

    def verdicts(self, take_seq: int) -> list[Verdict]:
        """Return every verdict on a take, oldest first."""
        return self.verdicts_of([take_seq])[take_seq]

    def verdicts_of(
        self, take_seqs: Iterable[int], *, brief: bool = False
    ) -> dict[int, list[Verdict]]:
        """As `verdicts`, for many takes, by take. With `brief`, as they are counted: without texts,
        quotes and marks, and with what they were made from only where they gave no result."""
        columns = _BRIEF_VERDICT if brief else "*"
        return self._by_take(take_seqs, "verdict", "take, seq", partial(read, Verdict), columns)

    def counting_verdicts(
        self, benchmark: str, target: str | None = None
    ) -> list[tuple[StoredTake, list[Verdict]]]:
        """Return each counting take with every verdict on it, oldest first, possibly none."""
        takes = self.counting_takes(benchmark, target)
        verdicts = self.verdicts_of(take.seq for take in takes)
        return [(take, verdicts[take.seq]) for take in takes]

    def votes_on_newest(self, benchmark: str) -> Iterator[tuple[str, tuple[PlainVote, ...]]]:
        """Yield each conversation whose newest take is finished and judged, with all verdicts on
        it, oldest first."""
        rows = self.connection.all(
            f"SELECT {CONV_ID}, {VOTE} "
            # CROSS JOIN, so that verdicts are looked up by take, and not all of them read
            "FROM take t CROSS JOIN verdict v ON v.take = t.seq WHERE t.benchmark = ?1 "
            "AND (SELECT finished FROM take_end WHERE take = t.seq ORDER BY seq DESC LIMIT 1) "
            "AND NOT EXISTS (SELECT 1 FROM take n WHERE n.benchmark = ?1"
            "  AND n.scenario_id = t.scenario_id AND n.target = t.target AND n.sample = t.sample"
            "  AND n.number > t.number) "
            "ORDER BY t.seq, v.seq",
            (benchmark,),
        )
        for unit, votes in groupby(rows, itemgetter(0)):
            yield unit, tuple(plain_vote(vote[1:]) for vote in votes)

    def verdict_rows(
        self,
        benchmark: str | None = None,
        judges: Sequence[str] = (),
        *,
        after: int = 0,
        limit: int | None = None,
    ) -> list[VerdictRow]:
        """Return a row for each conversation whose counting take has a verdict beyond `after`,
        sorted by its newest verdict. `judges` are those whose verdicts count, and are quoted."""
        rows = self.connection.all(
            f"SELECT v.seq, v.metric_id, v.track, {outcome('x')},"
            "  x.judge, x.justification, x.quotes,"
            "  t.benchmark, t.scenario_id, t.target, t.sample, t.number AS take, e.stop_reason,"
            f"  {TURNS} AS turns "
            "FROM verdict v JOIN take t ON t.seq = v.take "
            "JOIN take_end e ON e.take = t.seq AND e.finished = 1 "
            f"JOIN verdict x ON x.seq = {speaks('?4')} "
            "WHERE v.seq > ?1 AND (?2 IS NULL OR t.benchmark = ?2) "
            "AND NOT EXISTS (SELECT 1 FROM verdict w WHERE w.take = v.take AND w.seq > v.seq) "
            f"AND NOT EXISTS ({NEWER_FINISHED}) ORDER BY v.seq LIMIT ?3",
            # SQLite takes a negative limit for none
            (after, benchmark, -1 if limit is None else limit, json.dumps(judges)),
        )
        return read_all(VerdictRow, rows)

    def checks(self, benchmark: str) -> list[CheckRow]:
        """Return every check of a benchmark, oldest first."""
        rows = self.connection.all(
            # CROSS JOIN keeps the order of the tables: there are few checks or none
            "SELECT c.* FROM take_check c CROSS JOIN take t ON t.seq = c.take "
            "WHERE t.benchmark = ? ORDER BY c.seq",
            (benchmark,),
        )
        return [read(CheckRow, row) for row in rows]

    def checks_of(self, take_seqs: Iterable[int]) -> dict[int, list[CheckRow]]:
        """Return the checks of each take, oldest first."""
        return self._by_take(take_seqs, "take_check", "take, seq", partial(read, CheckRow))

    def label_samples(self, benchmark: str, person: str | None = None) -> list[LabelSampleRow]:
        """Return the samples drawn for people, or for one person, oldest first."""
        rows = self.connection.all(
            "SELECT * FROM label_sample WHERE benchmark = ?1 AND (?2 IS NULL OR person = ?2) "
            "ORDER BY seq",
            (benchmark, person),
        )
        return [read(LabelSampleRow, row) for row in rows]

    def reviews(self, benchmark: str) -> list[ReviewRow]:
        """Return every review of metrics and scenarios, oldest first."""
        rows = self.connection.all(
            "SELECT * FROM review WHERE benchmark = ? ORDER BY seq", (benchmark,)
        )
        return read_all(ReviewRow, rows)

    def waiting_seqs(self) -> tuple[int, ...]:
        """Return numbers that change when anything is added that a person reviews or labels, and
        when a person does so."""
        tables = ("metric", "scenario", "review", "label_sample")
        sql = ", ".join(f"(SELECT max(seq) FROM {table})" for table in tables)
        people = "(SELECT max(seq) FROM verdict WHERE source = 'human')"
        return tuple(self.connection.first(f"SELECT {sql}, {people}") or ())

    def peoples_verdicts(self, benchmark: str) -> list[Verdict]:
        """Return every verdict of a person, oldest first, whether or not its take counts."""
        rows = self.connection.all(
            "SELECT v.* FROM verdict v JOIN take t ON t.seq = v.take "
            "WHERE v.source = 'human' AND t.benchmark = ? ORDER BY v.seq",
            (benchmark,),
        )
        return [read(Verdict, row) for row in rows]

    # Work and calls

    def units(
        self, benchmark: str, stage: Stage, *, but: Collection[str] = ()
    ) -> dict[str, StateRow]:
        """Return the newest state of each row of work, by its id; of those that `but` names, only
        if they are not done."""
        rows = self.connection.all(
            "SELECT *, max(seq) FROM state WHERE benchmark = ? AND stage = ? GROUP BY unit "
            # not WHERE, as only the group knows its newest state
            "HAVING state <> 'done' OR unit NOT IN (SELECT value FROM json_each(?))",
            (benchmark, stage.value, json.dumps(list(but))),
        )
        return {row.unit: row for row in read_all(StateRow, rows)}

    def states_of(self, benchmark: str, stage: Stage, units: Iterable[str]) -> list[State]:
        """Return the newest state of each of these rows of work that there is."""
        rows = self.connection.all(
            "SELECT state, max(seq) FROM state WHERE benchmark = ? AND stage = ? "
            "AND unit IN (SELECT value FROM json_each(?)) GROUP BY unit",
            (benchmark, stage.value, json.dumps(list(units))),
        )
        return [State(row["state"]) for row in rows]

    def failed_units(self, benchmark: str | None = None) -> list[StateRow]:
        """Return rows of work whose newest state is failed, oldest first; of all benchmarks or of
        one."""
        rows = self.connection.all(
            "SELECT * FROM state s WHERE state = 'failed' AND (?1 IS NULL OR benchmark = ?1) "
            "AND NOT EXISTS ("
            "  SELECT 1 FROM state n WHERE n.benchmark = s.benchmark AND n.stage = s.stage"
            "  AND n.unit = s.unit AND n.seq > s.seq) ORDER BY seq",
            (benchmark,),
        )
        return read_all(StateRow, rows)

    def failed_rows(self, unit: str, benchmark: str | None = None) -> list[StateRow]:
        """Return what failed of the rows of work with this name, in any benchmark or in one."""
        return [
            row
            for row in self.failed_units()
            if row.unit == unit and benchmark in {None, row.benchmark}
        ]

    def unusable_answers(self, failed: StateRow) -> list[UnusableRow]:
        """Return the last unusable answer of each model that a row of work failed with."""
        rows = self.connection.all(
            "SELECT *, max(seq) FROM unusable WHERE benchmark = ? AND unit = ? AND stage = ? "
            "AND seq > coalesce((SELECT max(seq) FROM state WHERE benchmark = ?1 AND unit = ?2 "
            "AND stage = ?3 AND state = 'running' AND seq < ?4), 0) "
            "GROUP BY role, model ORDER BY seq",
            (failed.benchmark, failed.unit, failed.stage.value, failed.seq),
        )
        return read_all(UnusableRow, rows)

    def attempts_before(self, failed: StateRow, limit: int = 12) -> list[AttemptRow]:
        """Return the last attempts for a row of work before it failed, oldest first. Only the
        `ATTEMPTS_WITHIN` rows before the failure are searched, as there is no index."""
        rows = self.connection.all(
            # with `+`, so that SQLite reads these rows and not all of an index of the benchmark
            "SELECT * FROM attempt WHERE seq BETWEEN ?1 AND ?2 AND +benchmark = ?3 "
            "AND +stage = ?4 AND unit = ?5 ORDER BY seq DESC LIMIT ?6",
            (
                failed.seq - ATTEMPTS_WITHIN,
                failed.seq,
                failed.benchmark,
                failed.stage.value,
                failed.unit,
                limit,
            ),
        )
        return [read(AttemptRow, row) for row in reversed(rows)]

    def attempts_of(self, take: StoredTake, through: int) -> list[AttemptRow]:
        """Return the attempts for a take's messages up to the row `through`, oldest first."""
        rows = self.connection.all(
            "SELECT * FROM attempt WHERE seq BETWEEN ? AND ? AND +benchmark = ? "
            "AND +stage = 'simulate' AND unit = ? ORDER BY seq",
            (take.seq, through, take.benchmark, str(take.key)),
        )
        return read_all(AttemptRow, rows)

    def usage(self, benchmark: str, stage: Stage, target: str | None = None) -> Usage:
        """Sum the usage of a stage's calls, or of those made for `target`."""
        rows = self.connection.all(
            f"SELECT {USAGE} FROM attempt "
            # grouped, as sums without a group have a row even where there is no call
            "WHERE benchmark = ?1 AND stage = ?2 AND (?3 IS NULL OR target = ?3) "
            "GROUP BY benchmark, stage",
            (benchmark, stage.value, target),
        )
        return read(Usage, rows[0]) if rows else Usage()

    def cost_origins(
        self, benchmark: str, stage: Stage | None = None, target: str | None = None
    ) -> CostOrigins:
        """Split the cost of calls into reported, computed and unknown; of a benchmark, of one of
        its stages, or for one target."""
        cost = plausible_value("cost_usd")
        row = self.connection.first(
            f"SELECT total(CASE WHEN reported THEN {cost} END) AS reported,"
            f" total(CASE WHEN reported IS NULL THEN {cost} END) AS computed,"
            " total(outcome = 'answer' AND cost_usd IS NULL) AS unknown FROM attempt "
            "WHERE benchmark = ?1 AND (?2 IS NULL OR stage = ?2) AND (?3 IS NULL OR target = ?3)",
            (benchmark, None if stage is None else stage.value, target),
        )
        if row is None:
            return CostOrigins()
        return CostOrigins(row["reported"], row["computed"], int(row["unknown"]))

    def served_names(self, benchmark: str) -> dict[tuple[Role, str], set[str]]:
        """Return the names under which servers answered, by role and the model that was asked."""
        names: dict[tuple[Role, str], set[str]] = {}
        for row in self.connection.all(
            "SELECT DISTINCT role, model, served FROM attempt "
            "WHERE benchmark = ? AND served IS NOT NULL AND outcome = 'answer'",
            (benchmark,),
        ):
            with self.connection.reporting_damage():
                names.setdefault((Role(row["role"]), row["model"]), set()).add(row["served"])
        return names

    def attempts_without_usage(self, benchmark: str, stage: Stage, target: str | None) -> int:
        """Count the failed attempts without reported usage, whose cost is in no sum."""
        return self.connection.number(
            "SELECT count(*) FROM attempt WHERE benchmark = ?1 AND stage = ?2 "
            "AND (?3 IS NULL OR target = ?3) AND outcome <> 'answer' AND input_tokens IS NULL",
            (benchmark, stage.value, target),
        )

    def used_calls(self) -> list[AttemptRow]:
        """Return the newest answered calls of all benchmarks, newest first."""
        rows = self.connection.all(
            "SELECT * FROM attempt WHERE outcome = 'answer' ORDER BY seq DESC LIMIT ?",
            (USED_CALLS,),
        )
        return read_all(AttemptRow, rows)

    def run_configurations(self, after: int) -> list[tuple[int, int | None, str]]:
        """Return the runs that had not ended at `after`, in order: the first and the last `seq` of
        each, None for one without an end, and its configuration as JSON."""
        rows = self.connection.all(
            "SELECT seq, ended, config FROM (SELECT r.seq, r.config, (SELECT n.seq FROM note n"
            " WHERE n.seq > r.seq AND n.kind = ? ORDER BY n.seq LIMIT 1) AS ended FROM run r)"
            " WHERE ended IS NULL OR ended > ? ORDER BY seq",
            (NoteKind.RUN_ENDED.value, after),
        )
        return [(row[0], row[1], row[2]) for row in rows]

    def turns_played(self, after: int) -> list[tuple[str, int]]:
        """Return, for each take with answered calls to its target beyond `after`, the target's
        model and the number of these calls."""
        rows = self.connection.all(
            "SELECT a.model, count(*) FROM attempt a JOIN take t ON t.seq = (SELECT max(seq)"
            # with `+`, as SQLite uses no index of an expression for a column with an affinity
            f" FROM take WHERE {CONV_ID} = +a.unit AND benchmark = a.benchmark AND seq < a.seq)"
            " WHERE a.seq > ? AND a.role = ? AND a.outcome = 'answer' GROUP BY t.seq, a.model",
            (after, Role.TARGET.value),
        )
        return [(row[0], row[1]) for row in rows]

    def faults(self) -> dict[str, float]:
        """Return, over the newest calls, the faults per answer of each model that answered."""
        rows = self.connection.all(
            # who cancels a call says nothing of its model
            "SELECT model, total(outcome NOT IN ('answer', 'cancelled')) AS faults,"
            " total(outcome = 'answer') AS answers FROM"
            " (SELECT model, outcome FROM attempt ORDER BY seq DESC LIMIT ?)"
            " GROUP BY model HAVING answers",
            (USED_CALLS,),
        )
        return {row["model"]: row["faults"] / row["answers"] for row in rows}

    def verdicts_since(self, seq: int) -> int:
        """Count the verdicts of models from this row on."""
        return self.connection.number(
            "SELECT count(*) FROM verdict WHERE seq >= ? AND source = 'model'", (seq,)
        )

    def spent_usd(self) -> float:
        """Return the cost of all calls in US dollars, as far as their prices are known, and what
        those that were cut off are counted as."""
        row = self.connection.first(f"SELECT {SPENT} AS spent")
        return 0.0 if row is None else float(row["spent"])

    def counted_usd(self) -> float:
        """Return what calls that were cut off are counted as."""
        row = self.connection.first("SELECT total(counted_usd) AS counted FROM unsettled")
        return 0.0 if row is None else float(row["counted"])

    def unsettled_usd(self) -> float:
        """Return the most that calls may have cost that were cut off, until it is decided what they
        are counted as. Those of an engine that is at work are not cut off."""
        row = self.connection.first(
            "SELECT total(most_usd) AS cut_off FROM unsettled WHERE seq > "
            "coalesce((SELECT max(seq) FROM unsettled WHERE counted_usd IS NOT NULL), 0)"
        )
        usd = 0.0 if row is None else float(row["cut_off"])
        lease = self.lease()
        # in doubt it is at work, and what it has sent is not cut off
        if lease is None or holder_state(lease, self.connection.path) is not ProcessState.GONE:
            return usd
        row = self.connection.first("SELECT open_usd FROM lease")
        return usd if row is None else usd + float(row["open_usd"])

    def spent_by_role(self) -> dict[Role, float]:
        """Return that cost by role."""
        spent = f"total({plausible_value('cost_usd')})"
        rows = self.connection.all(f"SELECT role, {spent} AS spent FROM attempt GROUP BY role")
        with self.connection.reporting_damage():
            return {Role(row["role"]): float(row["spent"]) for row in rows}

    def unpriced_calls(self) -> dict[tuple[Role, str], int]:
        """Count by role and model the answers whose cost is unknown."""
        return self._answers_without("cost_usd IS NULL")

    def unmetered_calls(self) -> dict[tuple[Role, str], int]:
        """Count by role and model those whose cost is unknown because their tokens are."""
        return self._answers_without("cost_usd IS NULL AND input_tokens + output_tokens IS NULL")

    def _answers_without(self, condition: str) -> dict[tuple[Role, str], int]:
        rows = self.connection.all(
            "SELECT role, model, count(*) AS calls FROM attempt"
            f" WHERE outcome = 'answer' AND {condition} GROUP BY role, model"
        )
        with self.connection.reporting_damage():
            return {(Role(row["role"]), row["model"]): row["calls"] for row in rows}

    def usage_by_unit(self, benchmark: str, stage: Stage) -> dict[str, Usage]:
        """Sum the usage of the calls for each row of work, by its id."""
        rows = self.connection.all(
            f"SELECT unit, {USAGE} FROM attempt WHERE benchmark = ? AND stage = ? "
            "GROUP BY unit ORDER BY unit",
            (benchmark, stage.value),
        )
        return {row["unit"]: read(Usage, row) for row in rows}

    def usage_by_model(self, benchmark: str) -> dict[str, dict[tuple[Role, str], Usage]]:
        """Sum the usage of playing and judging each conversation, by its id, role and model."""
        rows = self.connection.all(
            f"SELECT unit, role, model, {USAGE} FROM attempt "
            "WHERE benchmark = ? AND stage IN (?, ?) GROUP BY unit, role, model",
            (benchmark, Stage.SIMULATE.value, Stage.EVALUATE.value),
        )
        by_unit: dict[str, dict[tuple[Role, str], Usage]] = {}
        for row in rows:
            with self.connection.reporting_damage():
                key = Role(row["role"]), row["model"]
            by_unit.setdefault(row["unit"], {})[key] = read(Usage, row)
        return by_unit

    def learned(self) -> dict[str, tuple[str, frozenset[str]]]:
        """Return by model how an answer in a given shape must be asked for, and which parameters
        must be left out."""
        rows = self.connection.all("SELECT *, max(seq) FROM learned GROUP BY model")
        learned_rows = [read(LearnedRow, row) for row in rows]
        return {row.model: (row.step, frozenset(row.dropped)) for row in learned_rows}

    def batches(self) -> list[StoredBatch]:
        """Return all batches, the oldest first."""
        rows = read_all(BatchRow, self.connection.all("SELECT * FROM batch ORDER BY seq"))
        if not rows:
            return []
        events = self.connection.all("SELECT *, max(seq) FROM batch_event GROUP BY batch")
        last = {event.batch: event for event in read_all(BatchEventRow, events)}
        taken: defaultdict[str, set[int]] = defaultdict(set)
        for row in self.connection.all("SELECT call FROM batch_taken"):
            key, _, place = str(row["call"]).rpartition("-")
            if place.isdecimal():
                taken[key].add(int(place))
        return [
            StoredBatch(
                row,
                None if (event := last.get(row.key)) is None else event.provider_id,
                None if event is None else event.until,
                event is not None and event.provider_id is None,
                frozenset(taken[row.key]),
            )
            for row in rows
        ]

    def model_settings(self) -> list[SettingsRow]:
        """Return what the digests of models and system prompts stand for."""
        return read_all(SettingsRow, self.connection.all("SELECT * FROM model_settings"))

    def left_out(self, benchmark: str) -> dict[tuple[Role, str, str | None], list[str]]:
        """Return the parameters that were left out of answered calls after a refusal, by role,
        model and target, which only the target's own calls have."""
        found: dict[tuple[Role, str, str | None], set[str]] = {}
        for row in self.connection.all(
            "SELECT DISTINCT role, model, target, left_out FROM attempt "
            "WHERE benchmark = ? AND left_out IS NOT NULL AND outcome = 'answer'",
            (benchmark,),
        ):
            with self.connection.reporting_damage():
                role = Role(row["role"])
                target = row["target"] if role is Role.TARGET else None
                found.setdefault((role, row["model"], target), set()).update(
                    row["left_out"].split()
                )
        return {called: sorted(names) for called, names in found.items()}

    def callers_of(
        self, benchmark: str, stage: Stage, target: str | None
    ) -> list[tuple[Role, str]]:
        """Return the roles and labels of the models that were called in a stage, or for `target`
        in it."""
        rows = self.connection.all(
            "SELECT DISTINCT role, model FROM attempt "
            "WHERE benchmark = ?1 AND stage = ?2 AND (?3 IS NULL OR target = ?3)",
            (benchmark, stage.value, target),
        )
        with self.connection.reporting_damage():
            return sorted((Role(row["role"]), row["model"]) for row in rows)

    def answered_by(self, benchmark: str, stage: Stage) -> dict[str, str]:
        """Return the model that gave the last answer for each row of work, by its id."""
        rows = self.connection.all(
            "SELECT unit, model, max(seq) FROM attempt "
            "WHERE benchmark = ? AND stage = ? AND outcome = 'answer' GROUP BY unit",
            (benchmark, stage.value),
        )
        return {row["unit"]: row["model"] for row in rows}


def _message(row: Row) -> MessageRow:
    """Raise `DamagedError` if the text does not match its digest."""
    if message_digest(row["speaker"], row["text"]) != row["digest"]:
        raise DamagedError(
            f"message {row['seq']} (take {row['take']}, turn {row['turn']}, {row['speaker']}) is "
            "damaged: its text is not the one that was stored; `crosswind repair` takes it out, so "
            "that the conversation is played on from there"
        )
    return read(MessageRow, row)


class EditedScenariosReader(Reader):
    """A reader that shows other scenarios for one benchmark, as if a file had been read."""

    def __init__(
        self,
        reader: Reader,
        benchmark: str,
        edited: Mapping[str, ScenarioRow],
        removed: frozenset[str],
    ) -> None:
        super().__init__(reader.connection)
        self._benchmark = benchmark
        self._edited = edited
        self._removed = removed

    def scenarios(self, benchmark: str) -> list[ScenarioRow]:
        stored = super().scenarios(benchmark)
        if benchmark != self._benchmark:
            return stored
        rows = {row.scenario.id: row for row in stored} | dict(self._edited)
        return [rows[name] for name in sorted(rows) if name not in self._removed]

    def removed_scenarios(self, benchmark: str) -> frozenset[str]:
        removed = super().removed_scenarios(benchmark)
        if benchmark != self._benchmark:
            return removed
        return (removed | self._removed) - self._edited.keys()
