"""The questions that can be asked of the store, by its engine and by any number of watchers."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
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
    Usage,
)
from engine.errors import DamagedError
from engine.facts import Fact, NoteKind
from engine.identity import message_digest
from engine.jury import HUMAN
from engine.progress import Progress
from engine.scripted import EVALUATOR, GENERATOR, TARGET, USER, is_script, played_by
from engine.store.codec import read, read_all
from engine.store.connection import Connection, Parameter
from engine.store.events import USAGE, facts_after, last_seq, snapshot
from engine.store.imports import ImportNote, kept_import, rows_digest
from engine.store.lock import LEASE, Lease, lease_from
from engine.store.records import MirroredFile, VerdictRow
from engine.store.rowcheck import plausible
from engine.store.schema import (
    CHECKED_LANDMARKS,
    CONV_ID,
    LOST_BASES,
    NEWER_FINISHED,
    SPEAKS,
    TAKES_WITH_ENDS,
    TURNS,
    outcome,
    part_is_damaged,
)
from engine.store.tables import (
    AttemptRow,
    CheckRow,
    Depends,
    LabelSampleRow,
    LearnedRow,
    MessageRow,
    MetricRow,
    ReviewRow,
    RunRow,
    ScenarioRow,
    StateRow,
    StoredTake,
    Verdict,
)

_T = TypeVar("_T")

_TAKES: Final = (
    "SELECT t.*, e.stop_reason, e.finished, e.detail, e.user_faults,"
    f" (SELECT answers FROM take_check WHERE take = t.seq AND {CHECKED_LANDMARKS}"
    f" ORDER BY seq DESC LIMIT 1) AS landmark_check {TAKES_WITH_ENDS}"
)
_IN_ORDER: Final = " GROUP BY id, benchmark ORDER BY id, benchmark LIMIT ?3"


def _ids(condition: str) -> dict[str, str]:
    """The question for ids of each kind."""
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
"""Each from an index, in its order, so that no more is read than is asked for."""
_IDS_WITHIN: Final = _ids("instr(lower(id), ?1) > 0 AND NOT (id >= ?2 AND id < ?4)" + _IN_ORDER)
"""Of those that begin otherwise. All ids are looked at."""
_BEYOND: Final = "\U0010ffff"
"""Behind a prefix, what no id that begins with it comes after."""
_BENCHMARKS: Final = (
    "WITH RECURSIVE one (name) AS (SELECT min(benchmark) FROM {table} UNION ALL"
    " SELECT (SELECT min(benchmark) FROM {table} WHERE benchmark > one.name) FROM one"
    " WHERE name IS NOT NULL) SELECT name FROM one WHERE name IS NOT NULL"
)
"""From one name to the next: there are few, in many rows."""
USED_CALLS: Final = 5_000
"""So many tell what the next ones will use, and are read in a moment."""
ATTEMPTS_WITHIN: Final = 20_000
"""Takes whose messages are read in one question: few enough to be light, enough to be quick."""

_SPEAKERS: Final = (Speaker.USER, Speaker.TARGET)
"""In the order in which they take turns."""


class Reader:
    """Read-only. One connection, which threads may share; each answer is complete when given."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """For this room, whose other readers ask by it."""
        self.path = connection.path

    def close(self) -> None:
        """Nothing can be asked any more, nor of what asks by the same connection."""
        self.connection.close()

    def move_to(self, other: Reader) -> None:
        """Answer from the store that `other` reads, which is not to be used any more."""
        self.connection.move_to(other.connection)

    # For watchers

    def data_version(self) -> int:
        """Another number when anything was written since it was last asked for."""
        return self.connection.number("PRAGMA data_version")

    def last_seq(self) -> int:
        """The last `seq` of all that is committed; 0 for an empty store."""
        return last_seq(self.connection)

    def facts(self, after: int, limit: int = 5000) -> list[Fact]:
        """The first `limit` facts whose `seq` is beyond `after`, in order, none left out."""
        return facts_after(self.connection, after, limit)

    def snapshot(self) -> Progress:
        """What folding all facts up to now would give."""
        return snapshot(self.connection)

    # What there is

    def benchmarks(self) -> list[str]:
        """Every name that anything in the store has, validation runs among them; sorted."""
        found: set[str] = set()
        for table in ("scenario", "take", "state", "metric"):
            found.update(row[0] for row in self.connection.all(_BENCHMARKS.format(table=table)))
        return sorted(found)

    def last_run(self) -> RunRow | None:
        """None where none was begun here, as in a store that was only imported into."""
        row = self.connection.first("SELECT * FROM run ORDER BY seq DESC LIMIT 1")
        return None if row is None else read(RunRow, row)

    def run_over(self, after: int) -> RunRow | None:
        """The newest run with a greater `seq` that came to its end."""
        row = self.connection.first(
            "SELECT r.* FROM run r WHERE r.seq > ? AND EXISTS (SELECT 1 FROM note n "
            "WHERE n.kind = ? AND n.seq > r.seq) ORDER BY r.seq DESC LIMIT 1",
            (after, NoteKind.RUN_ENDED.value),
        )
        return None if row is None else read(RunRow, row)

    def mirrored(self, path: str) -> MirroredFile | None:
        """A file of the mirror, by its path relative to the workspace."""
        row = self.connection.first("SELECT * FROM mirrored WHERE path = ?", (path,))
        return None if row is None else read(MirroredFile, row)

    def rows_digest(self, benchmark: str) -> str:
        """A digest that is the same while no row of a benchmark was added or taken away."""
        return rows_digest(self.connection, benchmark)

    def imported(self, benchmark: str, source: str) -> ImportNote | None:
        """What was imported last from a source; None where the store has lost a row since."""
        return kept_import(self.connection, benchmark, source)

    def kept(self, path: str) -> str | None:
        """The digest of a mirrored file that stays as a person wrote it; None for any other."""
        row = self.connection.first("SELECT digest FROM kept WHERE path = ?", (path,))
        return None if row is None else str(row["digest"])

    def lease(self) -> Lease | None:
        """Whose the store is, or was when its engine was killed."""
        row = self.connection.first(f"SELECT {LEASE} FROM lease")
        return None if row is None else lease_from(row)

    def find_ids(self, prefix: str, limit: int = 20) -> list[tuple[str, str, str]]:
        """(benchmark, id, kind) of what begins with `prefix`; kind is `metric`, `scenario` or
        `conversation`, in this order."""
        found: list[tuple[str, str, str]] = []
        for kind, sql in IDS.items():
            left = limit if limit < 0 else limit - len(found)
            if left:
                rows = self.connection.all(sql, (prefix, prefix + _BEYOND, left))
                found += [(row["benchmark"], row["id"], kind) for row in rows]
        return found

    def find_ids_within(self, part: str, limit: int = 20) -> list[tuple[str, str, str]]:
        """As `find_ids`, of what holds `part` somewhere behind its beginning, or there in letters
        of another size."""
        found: list[tuple[str, str, str]] = []
        given = (part.lower(), part)
        for kind, sql in _IDS_WITHIN.items():
            rows = self.connection.all(sql, (*given, limit - len(found), part + _BEYOND))
            found += [(row["benchmark"], row["id"], kind) for row in rows]
        return found

    # What is wanted

    def metrics(self, benchmark: str) -> list[tuple[Metric, Depends | None, str]]:
        """The newest of each id, with what it was made from and its source."""
        rows = self.metric_rows(benchmark)
        return [(row.metric, row.depends, row.source) for row in rows]

    def metric_rows(self, benchmark: str) -> list[MetricRow]:
        """The newest of each id."""
        return [read(MetricRow, row) for row in self._newest("metric", "metric_id", benchmark)]

    def scenarios(self, benchmark: str) -> list[ScenarioRow]:
        """Base scenarios and variants, the newest of each id, without those that were removed."""
        rows = self._newest("scenario", "scenario_id", benchmark)
        return [read(ScenarioRow, row) for row in rows if not row["removed"]]

    def removed_scenarios(self, benchmark: str) -> frozenset[str]:
        """Ids that a person took out of the file and that did not come back."""
        rows = self._newest("scenario", "scenario_id", benchmark)
        return frozenset(row["scenario_id"] for row in rows if row["removed"])

    def scenario_ids(self, benchmark: str) -> frozenset[str]:
        """Of all that ever were, those too that a person took out."""
        rows = self.connection.all(
            "SELECT DISTINCT scenario_id FROM scenario WHERE benchmark = ?", (benchmark,)
        )
        return frozenset(row[0] for row in rows)

    def stands(self, benchmark: str, scenario_id: str) -> bool:
        """Whether nobody took this scenario out of the file."""
        row = self.connection.first(
            "SELECT removed, max(seq) FROM scenario WHERE benchmark = ? AND scenario_id = ?",
            (benchmark, scenario_id),
        )
        return row is not None and not row["removed"]

    def lost_bases(self, benchmark: str) -> frozenset[str]:
        """Ids of base scenarios that a damaged store lost, though variants of them stand."""
        rows = self.connection.all(f"{LOST_BASES} AND s.benchmark = ?", (benchmark,))
        return frozenset(row[1] for row in rows)

    def gone_scenarios(self, benchmark: str) -> list[ScenarioRow]:
        """Those rows as they were, each the newest of its id."""
        rows = self._newest("scenario", "scenario_id", benchmark)
        return [read(ScenarioRow, row) for row in rows if row["removed"]]

    def scenario_of(self, take: StoredTake) -> Scenario | None:
        """What a take was played from, as it was then; None where no file and no model told."""
        row = self.connection.first("SELECT * FROM scenario WHERE seq = ?", (take.scenario_seq,))
        return None if row is None else read(ScenarioRow, row).scenario

    def turns_without_pressure(self, take_seq: int) -> list[int]:
        """When the landmarks of its scenario were planned, of a take whose user model was told of
        none of them (`stance: neutral`); nothing of any other."""
        row = self.connection.first(
            "SELECT s.* FROM take t JOIN scenario s ON s.seq = t.scenario "
            "WHERE t.seq = ? AND CASE WHEN json_valid(t.depends) "
            "THEN json_extract(t.depends, '$.stance') END = 'neutral'",
            (take_seq,),
        )
        if row is None:
            return []
        return [mark.turn for mark in read(ScenarioRow, row).scenario.landmarks]

    def scenario_history(self, benchmark: str) -> dict[int, ScenarioRow]:
        """Every scenario that ever was, by `seq`: what takes of earlier days were played from."""
        rows = self.connection.all("SELECT * FROM scenario WHERE benchmark = ?", (benchmark,))
        return {row["seq"]: read(ScenarioRow, row) for row in rows}

    def _newest(self, table: str, column: str, benchmark: str) -> list[Row]:
        return self.connection.all(
            f"SELECT *, max(seq) FROM {table} WHERE benchmark = ? GROUP BY {column} "
            f"ORDER BY {column}",
            (benchmark,),
        )

    # What was said

    def takes(
        self, benchmark: str, key: ConversationKey | None = None, *, target: str | None = None
    ) -> list[StoredTake]:
        """By scenario, target and sample, then in the order in which they were played; of all
        conversations, of one, or of one target's."""
        where, parameters = "t.benchmark = ?", [benchmark]
        if target is not None:
            where += " AND t.target = ?"
            parameters.append(target)
        return self._takes(where, parameters, key=key)

    def counting_take(self, benchmark: str, key: ConversationKey) -> StoredTake | None:
        """The newest that was played to its end."""
        finished = [take for take in self.takes(benchmark, key) if take.finished]
        return finished[-1] if finished else None

    def counting_takes(self, benchmark: str, target: str | None = None) -> list[StoredTake]:
        """Of each conversation the newest that was played to its end; of all targets or of one."""
        where = f"t.benchmark = ? AND e.finished = 1 AND NOT EXISTS ({NEWER_FINISHED})"
        parameters = [benchmark]
        if target is not None:
            where += " AND t.target = ?"
            parameters.append(target)
        return self._takes(where, parameters)

    def counting_among(self, take_seqs: Iterable[int]) -> set[int]:
        """Those of these takes that count: played to their end, and none after them was."""
        where = f"t.seq IN (SELECT value FROM json_each(?)) AND NOT EXISTS ({NEWER_FINISHED})"
        found = self._takes(where, [json.dumps(list(take_seqs))])
        return {take.seq for take in found if take.finished}

    def messages(self, take_seq: int) -> list[MessageRow]:
        """As they were spoken. Raises `StoreError` for one that is damaged."""
        return self.messages_of([take_seq])[take_seq]

    def messages_of(self, take_seqs: Iterable[int]) -> dict[int, list[MessageRow]]:
        """As `messages`, for many takes, by their `seq`."""
        order = "take, turn, speaker = 'assistant'"
        found = self._by_take(take_seqs, "message", order, _message)
        for messages in found.values():
            self._refuse_gap(messages)
        return found

    def _refuse_gap(self, messages: Sequence[MessageRow]) -> None:
        """Raises `DamagedError` where something of one take is missing."""
        for place, one in enumerate(messages):
            if one.turn != (place >> 1) + 1 or one.speaker is not _SPEAKERS[place & 1]:
                where = f"turn {one.turn}, {one.speaker}, of take {one.take}"
                how = f"what was said before {where} is missing"
                raise part_is_damaged(self.connection.path, how)

    def messages_by_others(self, benchmark: str) -> dict[tuple[int, Speaker], dict[str, int]]:
        """How many messages of each take and side came from which other model than was asked."""
        rows = self.connection.all(
            "SELECT m.take, m.speaker, m.served_by, count(*) AS messages FROM message m "
            "JOIN take t ON t.seq = m.take WHERE m.served_by IS NOT NULL AND t.benchmark = ? "
            "GROUP BY m.take, m.speaker, m.served_by",
            (benchmark,),
        )
        found: dict[tuple[int, Speaker], dict[str, int]] = {}
        for row in rows:
            side = found.setdefault((row["take"], Speaker(row["speaker"])), {})
            side[row["served_by"]] = row["messages"]
        return found

    def messages_said(self, take_seqs: Iterable[int], speaker: Speaker) -> int:
        """How many messages one side has in these takes."""
        return self.connection.number(
            "SELECT count(*) FROM message WHERE speaker = ?2 "
            "AND take IN (SELECT value FROM json_each(?1))",
            (json.dumps(list(take_seqs)), speaker.value),
        )

    def parts_played(self) -> dict[str, dict[str, bool]]:
        """By benchmark: which parts of what is stored scripts played."""
        found: dict[str, dict[str, bool]] = defaultdict(dict)
        for benchmark, target, user_model, model, scripted in self.connection.all(
            "SELECT DISTINCT benchmark, target, user_model, model, scripted FROM take"
        ):
            parts = played_by(user_model, model, scripted=bool(scripted))
            said = {USER: parts[USER], f"{TARGET} {target}": parts[TARGET]}
            for part, script in said.items():
                found[benchmark][part] = found[benchmark].get(part, False) or script
        for benchmark, judge in self.connection.all(
            "SELECT DISTINCT t.benchmark, v.judge FROM verdict v JOIN take t ON t.seq = v.take "
            "WHERE v.source IS NOT ?",
            (HUMAN,),
        ):
            found[benchmark][f"{EVALUATOR} {judge}"] = is_script(judge)
        for benchmark, parts in found.items():
            writers = self.connection.all(
                "SELECT DISTINCT model FROM attempt WHERE benchmark = ? AND stage IN (?, ?)",
                (benchmark, Stage.GEN_METRICS.value, Stage.GEN_SCENARIOS.value),
            )
            if any(is_script(row[0]) for row in writers):
                parts[GENERATOR] = True
        return dict(found)

    def turns_begun(self, benchmark: str) -> dict[int, int]:
        """Of each take the last turn in which anything was said, from an index: no text is read."""
        rows = self.connection.all(
            "SELECT t.seq, (SELECT max(turn) FROM message WHERE take = t.seq) FROM take t "
            "WHERE t.benchmark = ?",
            (benchmark,),
        )
        return {row[0]: row[1] or 0 for row in rows}

    def message_digests(self, take_seqs: Iterable[int]) -> dict[int, list[bytes]]:
        """What was said in each take, as digests in the order in which it was said."""
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
        self, take_seqs: Iterable[int], table: str, order: str, parse: Callable[[Row], _T]
    ) -> dict[int, list[_T]]:
        seqs = list(take_seqs)
        found: dict[int, list[_T]] = {seq: [] for seq in seqs}
        sql = f"SELECT * FROM {table} WHERE take IN ({{}}) ORDER BY {order}"
        for row in self.connection.of_each(sql, seqs):
            found[row["take"]].append(parse(row))
        return found

    # What was judged

    def verdicts(self, take_seq: int) -> list[Verdict]:
        """Every one on this take, oldest first."""
        return self.verdicts_of([take_seq])[take_seq]

    def verdicts_of(self, take_seqs: Iterable[int]) -> dict[int, list[Verdict]]:
        """As `verdicts`, for many takes, by their `seq`."""
        return self._by_take(take_seqs, "verdict", "take, seq", partial(read, Verdict))

    def counting_verdicts(
        self, benchmark: str, target: str | None = None
    ) -> list[tuple[StoredTake, list[Verdict]]]:
        """Each counting take with every verdict on it, oldest first; with none where it has not
        been judged yet."""
        takes = self.counting_takes(benchmark, target)
        found = self.verdicts_of(take.seq for take in takes)
        return [(take, found[take.seq]) for take in takes]

    def verdict_rows(
        self, benchmark: str | None = None, *, after: int = 0, limit: int | None = None
    ) -> list[VerdictRow]:
        """One for each conversation whose counting take has been judged, as its newest verdict
        beyond `after` left it, oldest first."""
        rows = self.connection.all(
            f"SELECT v.seq, v.metric_id, v.track, {outcome('x')},"
            "  x.judge, x.justification, x.quotes,"
            "  t.benchmark, t.scenario_id, t.target, t.sample, t.number AS take, e.stop_reason,"
            f"  {TURNS} AS turns "
            "FROM verdict v JOIN take t ON t.seq = v.take "
            "JOIN take_end e ON e.take = t.seq AND e.finished = 1 "
            f"JOIN verdict x ON x.seq = {SPEAKS} "
            "WHERE v.seq > ?1 AND (?2 IS NULL OR t.benchmark = ?2) "
            "AND NOT EXISTS (SELECT 1 FROM verdict w WHERE w.take = v.take AND w.seq > v.seq) "
            f"AND NOT EXISTS ({NEWER_FINISHED}) ORDER BY v.seq LIMIT ?3",
            (after, benchmark, -1 if limit is None else limit),
        )
        return read_all(VerdictRow, rows)

    def checks(self, benchmark: str) -> list[CheckRow]:
        """Every one of a benchmark, oldest first."""
        rows = self.connection.all(
            # they are few or none, so they lead
            "SELECT c.* FROM take_check c CROSS JOIN take t ON t.seq = c.take "
            "WHERE t.benchmark = ? ORDER BY c.seq",
            (benchmark,),
        )
        return [read(CheckRow, row) for row in rows]

    def checks_of(self, take_seqs: Iterable[int]) -> dict[int, list[CheckRow]]:
        """What checks say of each take, oldest first."""
        return self._by_take(take_seqs, "take_check", "take, seq", partial(read, CheckRow))

    def label_samples(self, benchmark: str, person: str | None = None) -> list[LabelSampleRow]:
        """What was drawn for people to label, or for one of them, oldest first."""
        rows = self.connection.all(
            "SELECT * FROM label_sample WHERE benchmark = ?1 AND (?2 IS NULL OR person = ?2) "
            "ORDER BY seq",
            (benchmark, person),
        )
        return [read(LabelSampleRow, row) for row in rows]

    def reviews(self, benchmark: str) -> list[ReviewRow]:
        """What people did with metrics and scenarios, oldest first."""
        rows = self.connection.all(
            "SELECT * FROM review WHERE benchmark = ? ORDER BY seq", (benchmark,)
        )
        return read_all(ReviewRow, rows)

    def begun_samples(self, benchmark: str, below: int) -> dict[tuple[str, str], int]:
        """How many conversations were begun of a scenario with a target, of so many samples."""
        sql = (
            "SELECT scenario_id, target, count(DISTINCT sample) FROM take "
            "WHERE benchmark = ? AND sample < ? GROUP BY scenario_id, target"
        )
        return {
            (str(scenario), str(target)): int(count)
            for scenario, target, count in self.connection.all(sql, (benchmark, below))
        }

    def reviewable_seqs(self) -> tuple[int, ...]:
        """Others after anything was written that can be reviewed, or was said of it."""
        tables = ("metric", "scenario", "review")
        sql = ", ".join(f"(SELECT max(seq) FROM {table})" for table in tables)
        return tuple(self.connection.first(f"SELECT {sql}") or ())

    def peoples_verdicts(self, benchmark: str) -> list[Verdict]:
        """Every verdict of a person, oldest first, whether its take counts or not."""
        rows = self.connection.all(
            "SELECT v.* FROM verdict v JOIN take t ON t.seq = v.take "
            "WHERE v.source = 'human' AND t.benchmark = ? ORDER BY v.seq",
            (benchmark,),
        )
        return [read(Verdict, row) for row in rows]

    # What was done, and what it took

    def units(self, benchmark: str, stage: Stage) -> dict[str, StateRow]:
        """Where each row of work stands, by its id."""
        rows = self.connection.all(
            "SELECT *, max(seq) FROM state WHERE benchmark = ? AND stage = ? GROUP BY unit",
            (benchmark, stage.value),
        )
        return {one.unit: one for one in read_all(StateRow, rows)}

    def failed_units(self) -> list[StateRow]:
        """Rows of work of all benchmarks that failed and were not done since, oldest first."""
        rows = self.connection.all(
            "SELECT * FROM state s WHERE state = 'failed' AND NOT EXISTS ("
            "  SELECT 1 FROM state n WHERE n.benchmark = s.benchmark AND n.stage = s.stage"
            "  AND n.unit = s.unit AND n.seq > s.seq) ORDER BY seq"
        )
        return read_all(StateRow, rows)

    def attempts_before(self, failed: StateRow, limit: int = 12) -> list[AttemptRow]:
        """The last attempts at the calls of a row before it failed, oldest first. They are looked
        for among what was written shortly before, as no index has them."""
        rows = self.connection.all(
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

    def usage(self, benchmark: str, stage: Stage, target: str | None = None) -> Usage:
        """What all calls of a stage used; with `target`, of those made on its behalf."""
        rows = self.connection.all(
            f"SELECT {USAGE} FROM attempt "
            "WHERE benchmark = ?1 AND stage = ?2 AND (?3 IS NULL OR target = ?3) "
            "GROUP BY benchmark, stage",
            (benchmark, stage.value, target),
        )
        return read(Usage, rows[0]) if rows else Usage()

    def cost_origins(
        self, benchmark: str, stage: Stage | None = None, target: str | None = None
    ) -> CostOrigins:
        """Of the calls of a benchmark, of one of its stages, or made on behalf of a target."""
        cost = plausible("cost_usd")
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
        """Under which names servers say that they answered, by the role and model that were asked
        for."""
        found: dict[tuple[Role, str], set[str]] = {}
        for row in self.connection.all(
            "SELECT DISTINCT role, model, served FROM attempt "
            "WHERE benchmark = ? AND served IS NOT NULL AND outcome = 'answer'",
            (benchmark,),
        ):
            with self.connection.readable():
                found.setdefault((Role(row["role"]), row["model"]), set()).add(row["served"])
        return found

    def unmetered(self, benchmark: str, stage: Stage, target: str | None = None) -> int:
        """How many failed attempts reported no usage: what they cost is in no sum."""
        return self.connection.number(
            "SELECT count(*) FROM attempt WHERE benchmark = ?1 AND stage = ?2 "
            "AND (?3 IS NULL OR target = ?3) AND outcome <> 'answer' AND input_tokens IS NULL",
            (benchmark, stage.value, target),
        )

    def used_calls(self) -> list[AttemptRow]:
        """The newest that were answered, of all benchmarks."""
        rows = self.connection.all(
            "SELECT * FROM attempt WHERE outcome = 'answer' ORDER BY seq DESC LIMIT ?",
            (USED_CALLS,),
        )
        return read_all(AttemptRow, rows)

    def faults(self) -> dict[str, float]:
        """By the label of the model, of the newest calls: how many ended in a fault for each that
        was answered."""
        rows = self.connection.all(
            "SELECT model, total(outcome NOT IN ('answer', 'cancelled')) AS faults,"
            " total(outcome = 'answer') AS answers FROM"
            " (SELECT model, outcome FROM attempt ORDER BY seq DESC LIMIT ?)"
            " GROUP BY model HAVING answers",
            (USED_CALLS,),
        )
        return {row["model"]: row["faults"] / row["answers"] for row in rows}

    def verdicts_since(self, seq: int) -> int:
        """How many models gave from this row on."""
        return self.connection.number(
            "SELECT count(*) FROM verdict WHERE seq >= ? AND source = 'model'", (seq,)
        )

    def spent_usd(self) -> float:
        """What all calls of the workspace cost, of those whose price is known."""
        row = self.connection.first(f"SELECT total({plausible('cost_usd')}) AS spent FROM attempt")
        return 0.0 if row is None else float(row["spent"])

    def spent_by_role(self) -> dict[Role, float]:
        """What that is made of: each role that was called."""
        spent = f"total({plausible('cost_usd')})"
        rows = self.connection.all(f"SELECT role, {spent} AS spent FROM attempt GROUP BY role")
        with self.connection.readable():
            return {Role(row["role"]): float(row["spent"]) for row in rows}

    def unpriced_calls(self) -> dict[str, int]:
        """By the label of the model: answers of which nobody knows what they cost."""
        rows = self.connection.all(
            "SELECT model, count(*) AS calls FROM attempt"
            " WHERE outcome = 'answer' AND cost_usd IS NULL GROUP BY model"
        )
        return {row["model"]: row["calls"] for row in rows}

    def usage_by_unit(self, benchmark: str, stage: Stage) -> dict[str, Usage]:
        """What all calls used that were made for each row of work, by its id."""
        rows = self.connection.all(
            f"SELECT unit, {USAGE} FROM attempt WHERE benchmark = ? AND stage = ? "
            "GROUP BY unit ORDER BY unit",
            (benchmark, stage.value),
        )
        return {row["unit"]: read(Usage, row) for row in rows}

    def usage_by_model(self, benchmark: str) -> dict[str, dict[tuple[Role, str], Usage]]:
        """What all calls used that were made to play and judge each conversation, by its id: by
        role and the label of the model."""
        rows = self.connection.all(
            f"SELECT unit, role, model, {USAGE} FROM attempt "
            "WHERE benchmark = ? AND stage IN (?, ?) GROUP BY unit, role, model",
            (benchmark, Stage.SIMULATE.value, Stage.EVALUATE.value),
        )
        found: dict[str, dict[tuple[Role, str], Usage]] = {}
        for row in rows:
            with self.connection.readable():
                key = Role(row["role"]), row["model"]
            found.setdefault(row["unit"], {})[key] = read(Usage, row)
        return found

    def learned(self) -> dict[str, tuple[str, frozenset[str]]]:
        """What each model turned out not to take: how an answer of a given shape is asked for, and
        the parameters that are left out."""
        rows = self.connection.all("SELECT *, max(seq) FROM learned GROUP BY model")
        found = [read(LearnedRow, row) for row in rows]
        return {row.model: (row.step, frozenset(row.dropped)) for row in found}

    def callers_of(
        self, benchmark: str, stage: Stage, target: str | None = None
    ) -> list[tuple[Role, str]]:
        """The roles in which models were called in a stage, with their labels; with `target`, on
        its behalf."""
        rows = self.connection.all(
            "SELECT DISTINCT role, model FROM attempt "
            "WHERE benchmark = ?1 AND stage = ?2 AND (?3 IS NULL OR target = ?3)",
            (benchmark, stage.value, target),
        )
        with self.connection.readable():
            return sorted((Role(row["role"]), row["model"]) for row in rows)

    def answered_by(self, benchmark: str, stage: Stage) -> dict[str, str]:
        """The label of the model that gave the last answer for each row of work, by its id."""
        rows = self.connection.all(
            "SELECT unit, model, max(seq) FROM attempt "
            "WHERE benchmark = ? AND stage = ? AND outcome = 'answer' GROUP BY unit",
            (benchmark, stage.value),
        )
        return {row["unit"]: row["model"] for row in rows}


def _message(row: Row) -> MessageRow:
    """Raises `DamagedError` where the text is not the one that was written."""
    if message_digest(row["speaker"], row["text"]) != row["digest"]:
        raise DamagedError(
            f"message {row['seq']} (take {row['take']}, turn {row['turn']}, {row['speaker']}) is "
            "damaged: its text is not the one that was stored; `crosswind repair` takes it out, so "
            "that the conversation is played on from there"
        )
    return read(MessageRow, row)


class EditedScenariosReader(Reader):
    """Answers as `reader` does, but for the scenarios of one benchmark."""

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
        found = super().scenarios(benchmark)
        if benchmark != self._benchmark:
            return found
        rows = {row.scenario.id: row for row in found} | dict(self._edited)
        return [rows[name] for name in sorted(rows) if name not in self._removed]

    def removed_scenarios(self, benchmark: str) -> frozenset[str]:
        found = super().removed_scenarios(benchmark)
        if benchmark != self._benchmark:
            return found
        return (found | self._removed) - self._edited.keys()
