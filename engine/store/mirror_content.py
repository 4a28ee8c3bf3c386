"""Reads the content of each mirrored file from the store, piece by piece: the documented rows, and
the history for which these have no field (times, inputs, calls, and the state of each row of work).
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from itertools import groupby, islice
from pathlib import Path
from sqlite3 import Row
from typing import Final

from engine.benchmark import ConversationKey, Role, Scenario, Speaker, Stage, State, base_id
from engine.files import read_regular
from engine.jury import Counts
from engine.scripted import CHECKER, EVALUATOR, GENERATOR, TARGET, USER, is_script
from engine.store.codec import read, reporting_damage
from engine.store.connection import Connection, Parameter
from engine.store.mirror_rows import (
    JsonObject,
    Metrics,
    PlayedTake,
    TargetName,
    conversation_id,
    conversation_row,
    cost_entry,
    is_scripted,
    metric_values,
    scenario_fields,
    scenario_row,
    score_row,
    take_row,
    without_unknown,
)
from engine.store.model_settings import ModelSettings
from engine.store.reader import Reader
from engine.store.schema import part_is_damaged
from engine.store.tables import (
    MetricRow,
    ReviewRow,
    ScenarioRow,
    StoredTake,
)

_SETTLED: Final = (State.DONE.value, State.FAILED.value, State.DROPPED.value)
"""States that are written. Queued and running work is only so for an engine that is running."""
_CALL: Final = (
    *("stage", "role", "model", "outcome", "status", "at", "duration_ms", "first_token_ms"),
    *("input_tokens", "cached_tokens", "output_tokens", "cost_usd", "detail"),
    *("served", "other", "route", "reported", "left_out"),
)

_ASKED: Final = {
    "take": ("target", "user model", "system prompt"),
    "verdict": ("evaluator",),
    "take_check": ("checker",),
}
"""The inputs of rows, by table, that are models or prompts."""


@dataclass(slots=True)
class Units:
    """What was done for each row of work. Attempts and states never change."""

    _store: Connection
    _calls: dict[str, str]
    """By unit: their numbers, as a JSON list."""
    _work: dict[str, str]

    def rows(self, units: Sequence[str]) -> list[JsonObject]:
        """Return for each of these what its files say of it. Each can be asked for once."""
        calls = self._read("attempt", _CALL, self._calls, units)
        work = self._read("state", ("stage", "state", "reason", "at"), self._work, units)
        return [
            {name: rows[unit] for name, rows in (("calls", calls), ("work", work)) if unit in rows}
            for unit in units
        ]

    def rest(self) -> Iterator[JsonObject]:
        """Yield the same for all that was not asked for: it belongs to no conversation."""
        left = iter(sorted({*self._calls, *self._work}))
        while some := list(islice(left, _AT_ONCE)):
            for unit, row in zip(some, self.rows(some), strict=True):
                yield {"unit": unit, **row}

    def _read(
        self, table: str, names: Sequence[str], seqs: dict[str, str], units: Sequence[str]
    ) -> dict[str, list[JsonObject]]:
        found = [seq for unit in units for seq in json.loads(seqs.pop(unit, "[]"))]
        by_unit: defaultdict[str, list[JsonObject]] = defaultdict(list)
        sql = f"SELECT * FROM {table} WHERE seq IN ({{}}) ORDER BY seq"
        for row in self._store.of_each(sql, sorted(found)):
            by_unit[row["unit"]].append(_known_values(row, names))
        return by_unit


class BenchmarkHistory:
    """The history of one benchmark. Times are milliseconds since 1970 (UTC), as in the store."""

    def __init__(self, reader: Reader, benchmark: str) -> None:
        self._store = reader.connection
        self._benchmark = benchmark

    def units(self, target: str | None) -> Units:
        """Return where the attempts and the last settled states of each row of work for a target,
        or for none, stand: the rows of all at once would be the most that an engine ever holds."""
        calls = self._store.all(
            "SELECT unit, json_group_array(seq) AS seqs FROM attempt "
            "WHERE benchmark = ? AND target IS ? GROUP BY unit",
            (self._benchmark, target),
        )
        work = self._store.all(
            "SELECT unit, json_group_array(seq) AS seqs FROM "
            "(SELECT unit, target, state, max(seq) AS seq FROM state WHERE benchmark = ? "
            f"GROUP BY stage, unit HAVING target IS ?) WHERE state IN {_SETTLED} GROUP BY unit",
            (self._benchmark, target),
        )
        return Units(
            self._store,
            {row["unit"]: row["seqs"] for row in calls},
            {row["unit"]: row["seqs"] for row in work},
        )

    def takes(self, seqs: Sequence[int]) -> dict[int, JsonObject]:
        """Return by take when its messages, end, verdicts and checks were stored, and from what
        inputs."""
        by_seq: dict[int, JsonObject] = {}
        sql = "SELECT seq, number, at, depends FROM take WHERE seq IN ({})"
        for row in self._store.of_each(sql, seqs):
            by_seq[row["seq"]] = {"take": row["number"], **_provenance_json(row), "messages": []}
        for row in self._of_takes("at", "message", "turn, speaker = 'assistant'", seqs):
            by_seq[row["take"]]["messages"].append(row["at"])
        for row in self._of_takes("at", "take_end", "seq", seqs):
            by_seq[row["take"]]["ended"] = row["at"]
        for row in self._of_takes("at, depends", "verdict", "seq", seqs):
            by_seq[row["take"]].setdefault("verdicts", []).append(_provenance_json(row))
        for row in self._of_takes("at, depends", "take_check", "seq", seqs):
            by_seq[row["take"]].setdefault("checks", []).append(_provenance_json(row))
        return by_seq

    def _of_takes(self, columns: str, table: str, order: str, seqs: Sequence[int]) -> Iterable[Row]:
        sql = f"SELECT take, {columns} FROM {table} WHERE take IN ({{}}) ORDER BY take, {order}"
        return self._store.of_each(sql, seqs)

    def scenarios(self) -> list[JsonObject]:
        """Return when each scenario was written and from what inputs; one that `scenarios.json` has
        not, as a person removed it or as it is a base without variants, also with its fields."""
        rows = self._store.all(
            "SELECT *, max(seq) FROM scenario WHERE benchmark = ? GROUP BY scenario_id "
            "ORDER BY scenario_id",
            self._parameters,
        )
        played_bases = {_base_id(row) for row in rows if not row["removed"] and _is_played(row)}
        return [_scenario(row, is_told=_base_id(row) in played_bases) for row in rows]

    def metrics(self) -> list[JsonObject]:
        """Return every metric that a model wrote, or that such a one replaced; oldest first."""
        rows = self._store.all(
            "SELECT * FROM metric WHERE benchmark = ? ORDER BY seq", self._parameters
        )
        return [_metric(row) for row in rows]

    def reviews(self) -> list[JsonObject]:
        """Return every review of metrics and scenarios, oldest first."""
        rows = self._store.all(
            "SELECT * FROM review WHERE benchmark = ? ORDER BY seq", self._parameters
        )
        return [_review(read(ReviewRow, row)) for row in rows]

    def settings(self) -> list[JsonObject]:
        """Return what digests of models and prompts stand for in rows of the benchmark."""
        known = self._store.all("SELECT digest, settings FROM model_settings ORDER BY digest")
        used = set().union(*map(self._digests, _ASKED))
        # the same digest may stand there twice: two engines may have begun at once
        by_digest = {row["digest"]: row["settings"] for row in known if row["digest"] in used}
        with self._store.reporting_damage():
            return [
                {"settings": digest, "values": json.loads(values)}
                for digest, values in by_digest.items()
            ]

    def _digests(self, table: str) -> set[str]:
        """The digests of all models and prompts that rows of this table depend on."""
        columns = ", ".join(f"depends ->> '$.\"{name}\"'" for name in _ASKED[table])
        where = "" if table == "take" else "JOIN take t ON t.seq = x.take"
        owner = "x" if table == "take" else "t"
        rows = self._store.all(
            f"SELECT DISTINCT {columns.replace('depends', 'x.depends')} FROM {table} x {where} "
            f"WHERE {owner}.benchmark = ? AND x.depends IS NOT NULL",
            self._parameters,
        )
        return {value for row in rows for value in row if value is not None}

    @property
    def _parameters(self) -> Sequence[Parameter]:
        return (self._benchmark,)


def _known_values(row: Row, names: Sequence[str]) -> JsonObject:
    """These columns without NULLs, and without numbers that JSON cannot hold."""
    known = {name: row[name] for name in names if row[name] is not None}
    return {
        name: value
        for name, value in known.items()
        if not isinstance(value, float) or math.isfinite(value)
    }


@reporting_damage
def _provenance_json(row: Row) -> JsonObject:
    fields: JsonObject = {"at": row["at"]}
    if row["depends"] is not None:
        fields["depends"] = json.loads(row["depends"])
    return fields


def _metric(row: Row) -> JsonObject:
    metric = read(MetricRow, row).metric
    return {"metric": metric_values(metric), "source": row["source"], **_provenance_json(row)}


def _review(row: ReviewRow) -> JsonObject:
    names = ("action", "person", "account", "reason")
    items = [without_unknown(asdict(item), "was") for item in row.items]
    review = {**{name: str(getattr(row, name)) for name in names}, "items": items}
    return {"review": review, "at": row.at}


def _base_id(row: Row) -> str:
    return base_id(row["scenario_id"])


def _is_played(row: Row) -> bool:
    """`ScenarioRow.played`, for a row that is not read as a whole."""
    return bool(row["source"] == "file" or _base_id(row) != row["scenario_id"])


def _scenario(row: Row, *, is_told: bool) -> JsonObject:
    entry = {"scenario": row["scenario_id"], **_provenance_json(row)}
    if row["removed"] or not is_told:
        kind = "removed" if row["removed"] else "base"
        fields = scenario_fields(read(ScenarioRow, row).scenario)
        entry |= {"source": row["source"], kind: fields}
    return entry


MOST_LINES: Final = 2000
"""Lines that are compared from the first difference on; more takes minutes, and nobody reads it."""

# as many as `diff -u` shows
_CONTEXT: Final = 3


def file_difference(there: Path, ours: Path, name: str) -> Iterator[str]:
    """Yield a unified diff from the file that is there to ours."""
    old, new = (read_regular(path).decode(errors="replace").split("\n") for path in (there, ours))
    pairs = enumerate(zip(old, new, strict=False))
    first = next((line for line, (a, b) in pairs if a != b), min(len(old), len(new)))
    # difflib may compare each line with every other one, so the common beginning is skipped
    begin, end = max(0, first - _CONTEXT), first + MOST_LINES + 1
    place = f" from line {begin + 1} on" if begin else ""
    head = (f"{name}, as it is{place}", f"{name}, as Crosswind would write it{place}")
    yield from unified_diff(old[begin:end], new[begin:end], *head, lineterm="")
    if max(len(old), len(new)) > end:
        yield f"(compared no further than {MOST_LINES} lines behind the first difference)"


_PARTS: Final = {
    Role.GENERATOR: GENERATOR,
    Role.USER: USER,
    Role.TARGET: TARGET,
    Role.EVALUATOR: EVALUATOR,
    Role.CHECKER: CHECKER,
}
_AT_ONCE: Final = 100
"""Conversations that are held in memory at a time while they are written."""


class MirrorContent:
    """The rows of one benchmark's files, in their order in the files.

    Conversations and scores are those of the scenarios that are in `scenarios.json` now.
    """

    def __init__(
        self,
        reader: Reader,
        benchmark: str,
        metrics: Metrics,
        counts: Counts | None = None,
    ) -> None:
        self._reader = reader
        self._counts = counts
        self._benchmark = benchmark
        self._metrics = metrics
        self._history = reader.scenario_history(benchmark)
        self._present = {row.scenario.id: row for row in reader.scenarios(benchmark)}
        self._usage = reader.usage_by_unit(benchmark, Stage.SIMULATE)
        self._written_by = reader.answered_by(benchmark, Stage.GEN_SCENARIOS)
        self._past = BenchmarkHistory(reader, benchmark)
        self._settings = ModelSettings.of(reader, benchmark)

    def scenarios(self) -> Iterator[JsonObject]:
        """Yield the scenarios that conversations are played from."""
        written: set[str] = set()
        for row in self._present.values():
            if row.played:
                base_id = row.scenario.base_id
                base = None if base_id in written else self._base(row)
                written.add(base_id)
                yield scenario_row(row, self._metrics, base=base, scripted=self._is_scripted(row))

    def _base(self, variant: ScenarioRow) -> Scenario | None:
        base = self._present.get(variant.scenario.base_id)
        return None if base is None or base.played else base.scenario

    def _is_scripted(self, row: ScenarioRow) -> bool:
        """Whether a script wrote it. A variant is written alone, a base scenario together with the
        others of its metric."""
        units = (row.scenario.id, row.scenario.metric_id)
        labels = (self._written_by[unit] for unit in units if unit in self._written_by)
        return row.source == "model" and is_scripted(labels)

    def conversations(self, target: TargetName) -> Iterator[JsonObject]:
        """Yield each conversation that was finished, by scenario and sample."""
        for takes, played in self._takes_of_target(target.id, self._has_row):
            counting = next(take for take in reversed(takes) if take.finished)
            scenario = self._scenario_of(counting)
            yield conversation_row(
                scenario.scenario,
                self._metrics,
                target,
                counting=played[counting.seq],
                others=[played[take.seq] for take in takes if take is not counting],
                usage=self._usage.get(str(counting.key)),
                scripted=self._is_scripted(scenario),
                settings=self._settings.of_take(counting),
            )

    def _takes_of_target(
        self, target: str, chosen: Callable[[list[StoredTake]], bool]
    ) -> Iterator[tuple[list[StoredTake], dict[int, PlayedTake]]]:
        """Yield all takes of each conversation, reading a few conversations at a time."""
        chosen_takes = filter(chosen, self._by_conversation(target))
        while some := list(islice(chosen_takes, _AT_ONCE)):
            played = self._played([take for takes in some for take in takes])
            for takes in some:
                yield takes, played

    def _played(self, takes: Sequence[StoredTake]) -> dict[int, PlayedTake]:
        """Return what was said and judged of takes. Raises `DamagedError` rather than overwrite a
        file that holds more."""
        seqs = [take.seq for take in takes]
        messages, verdicts = self._reader.messages_of(seqs), self._reader.verdicts_of(seqs)
        checks = self._reader.checks_of(seqs)
        for take in takes:
            ended, said = take.stop_reason, messages[take.seq]
            if ended and ended.after_reply and not (said and said[-1].speaker is Speaker.TARGET):
                how = f"what was said last in take {take.seq} is missing"
                raise part_is_damaged(self._reader.connection.path, how)
        return {
            seq: PlayedTake(take, messages[seq], verdicts[seq], checks[seq])
            for seq, take in zip(seqs, takes, strict=True)
        }

    def _by_conversation(self, target: str) -> Iterator[list[StoredTake]]:
        """Group the takes, which come sorted by conversation."""
        takes = self._reader.takes(self._benchmark, target=target)
        for _, conversation in groupby(takes, key=lambda take: take.key):
            yield list(conversation)

    def _has_row(self, takes: list[StoredTake]) -> bool:
        """Whether the conversation of these takes is in `conversations.json`."""
        return self._is_of_present_scenarios(takes[0].key) and any(take.finished for take in takes)

    def _is_of_present_scenarios(self, key: ConversationKey) -> bool:
        present = self._present.get(key.scenario_id)
        return present is not None and present.played

    def _scenario_of(self, take: StoredTake) -> ScenarioRow:
        """Return the scenario as it was when the take was played."""
        present = self._present[take.key.scenario_id]
        return self._history.get(take.scenario_seq or 0, present)

    def scores(self, target: TargetName) -> Iterator[JsonObject]:
        """Yield the score of each conversation that was judged, by scenario and sample."""
        for take, verdicts in self._reader.counting_verdicts(self._benchmark, target.id):
            if verdicts and self._is_of_present_scenarios(take.key):
                asked = {verdict.judge: self._settings.of_verdict(verdict) for verdict in verdicts}
                yield score_row(
                    take,
                    verdicts,
                    self._metrics,
                    scripted=self._is_scripted(self._scenario_of(take)),
                    counts=self._counts,
                    settings={judge: known for judge, known in asked.items() if known is not None},
                )

    def history(self) -> Iterator[JsonObject]:
        """Yield what models were asked with, and how metrics and scenarios came about: when each
        was written and from what inputs, what reviews said, and the calls and the state of each row
        of work."""
        yield from self._past.settings()
        yield from self._past.metrics()
        yield from self._past.scenarios()
        yield from self._past.reviews()
        yield from self._past.units(None).rest()

    def past_of(self, target: TargetName) -> Iterator[JsonObject]:
        """Yield the same for each conversation of a target. One that is not in
        `conversations.json`, as it is unfinished or its scenario is gone, comes with its takes."""
        # one transaction: a running engine adds takes and attempts between two queries
        with self._reader.connection.read_transaction():
            units = self._past.units(target.id)
            conversations = iter(list(self._by_conversation(target.id)))
        while some := list(islice(conversations, _AT_ONCE)):
            rows = units.rows([str(takes[0].key) for takes in some])
            past = self._past.takes([take.seq for takes in some for take in takes])
            for takes, of_unit in zip(some, rows, strict=True):
                row = {**conversation_id(takes[0].key), "takes": [past[take.seq] for take in takes]}
                row |= of_unit
                if not self._has_row(takes):
                    row["apart"] = [take_row(played) for played in self._played(takes).values()]
                yield row
        yield from units.rest()

    def generation_cost(self) -> JsonObject:
        """Return the cost of generating metrics and scenarios, by phase."""
        return self._cost((Stage.GEN_METRICS, Stage.GEN_SCENARIOS), None)

    def cost(self, target: TargetName) -> JsonObject:
        """Return the cost of playing and judging conversations of a target, by phase."""
        return self._cost((Stage.SIMULATE, Stage.EVALUATE), target.id)

    def _cost(self, stages: Iterable[Stage], target: str | None) -> JsonObject:
        """The stages in which no model was called are left out."""
        cost: JsonObject = {}
        for stage in stages:
            usage = self._reader.usage(self._benchmark, stage, target)
            if usage.calls:
                callers = self._reader.callers_of(self._benchmark, stage, target)
                parts: dict[str, bool] = {}
                for role, label in callers:
                    parts[_PARTS[role]] = parts.get(_PARTS[role], False) or is_script(label)
                cost[stage.value] = cost_entry(
                    stage.value,
                    usage,
                    parts=parts,
                    unmetered=self._reader.attempts_without_usage(self._benchmark, stage, target),
                    origins=self._reader.cost_origins(self._benchmark, stage, target),
                )
        return cost
