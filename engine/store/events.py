"""What a watcher reads: facts in order, and a snapshot of what all facts up to now add up to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, Final

from engine.benchmark import MOST_TOKENS, Stage, State, StopReason, Track, Usage
from engine.facts import (
    CallMade,
    Fact,
    MessageSpoken,
    Noted,
    StateChanged,
    TakeEnded,
    TakeStarted,
    VerdictGiven,
)
from engine.identity import BATCH_ROUTE
from engine.progress import RATE_WINDOW, Progress, StateCounts, TargetProgress, TrackScore
from engine.store.codec import UNREADABLE, read
from engine.store.connection import Connection
from engine.store.rowcheck import COLUMNS, plausible_value
from engine.store.schema import CONV_ID, LAST_SEQ
from engine.store.tables import utc_datetime

KEEP = "INSERT OR REPLACE INTO summary (one, seq, progress) VALUES (1, ?, ?)"


def kept_summary(connection: Connection, last: int) -> Progress:
    """Return the stored sums; empty ones if there are none, if they cannot be read, or if they
    include rows beyond `last`, the last row that is visible."""
    # as bytes: for damaged text SQLite would only report that it cannot be decoded
    row = connection.first(
        "SELECT seq, CAST(progress AS BLOB) AS progress FROM summary WHERE seq <= ?", (last,)
    )
    try:
        summary = (
            Progress() if row is None else _parse_progress(row["seq"], json.loads(row["progress"]))
        )
        # discarded as a whole: adding up all rows takes longer but is right
        return summary if all(map(_is_plausible, summary.targets.values())) else Progress()
    except UNREADABLE:
        return Progress()


def _is_plausible(target: TargetProgress) -> bool:
    """Whether the sums are possible: older versions stored implausible amounts, too."""
    used = target.usage
    tokens = max(used.input_tokens or 0, used.output_tokens or 0)
    return tokens <= MOST_TOKENS * max(used.calls, 1)


def summary_row(progress: Progress) -> tuple[int, str]:
    """Return the sums as they are stored: `seq`, and text for `kept_summary`."""
    stages = [
        [benchmark, stage.value, *astuple(tally)]
        for (benchmark, stage), tally in progress.stages.items()
    ]
    targets = [[*name, *_of_target(target)] for name, target in progress.targets.items()]
    text = json.dumps({"stages": stages, "targets": targets}, separators=(",", ":"))
    return progress.seq, text


def _of_target(target: TargetProgress) -> Sequence[Any]:
    used = target.usage
    return (
        astuple(target.simulate),
        astuple(target.evaluate),
        {track.value: astuple(score) for track, score in target.scores.items()},
        (used.calls, used.input_tokens, used.output_tokens, used.cost_usd),
        target.last_problem,
        target.replies,
        target.others,
    )


def _parse_progress(seq: int, summary: dict[str, Any]) -> Progress:
    progress = Progress(seq=seq)
    for benchmark, stage, *counts in summary["stages"]:
        progress.stages[benchmark, Stage(stage)] = StateCounts(*counts)
    for benchmark, name, *rest in summary["targets"]:
        simulate, evaluate, scores, used, problem, replies, others = rest
        calls, input_tokens, output_tokens, cost = used
        progress.targets[benchmark, name] = TargetProgress(
            simulate=StateCounts(*simulate),
            evaluate=StateCounts(*evaluate),
            scores={Track(track): TrackScore(*score) for track, score in scores.items()},
            usage=Usage(calls, input_tokens, 0, output_tokens, cost),
            last_problem=problem,
            replies=replies,
            others=others,
        )
    return progress


_KEY: Final = "t.benchmark, t.scenario_id, t.target, t.sample, t.number AS take"
_CALL: Final = "x.seq, x.at, x.benchmark, x.stage, x.target, x.role, x.model, x.outcome"

_TOOK: Final = f"CASE WHEN route = '{BATCH_ROUTE}' THEN NULL ELSE duration_ms END"

_FACTS: Final[Mapping[type[Fact], str]] = {
    Noted: "SELECT x.* FROM note x",
    StateChanged: "SELECT x.* FROM state x",
    TakeStarted: f"SELECT x.seq, x.at, {_KEY} FROM take t JOIN take x ON x.seq = t.seq",
    TakeEnded: f"SELECT x.seq, x.at, x.stop_reason, {_KEY} "
    "FROM take_end x JOIN take t ON t.seq = x.take",
    MessageSpoken: f"SELECT x.seq, x.at, x.turn, x.speaker, {_KEY} "
    "FROM message x JOIN take t ON t.seq = x.take",
    VerdictGiven: f"SELECT x.seq, x.at, x.metric_id, x.track, x.judge, x.number, x.present,"
    f" x.passed, x.unscored, x.counted_before, x.counted, {_KEY} "
    "FROM verdict x JOIN take t ON t.seq = x.take",
    CallMade: f"SELECT {_CALL}, {_TOOK} AS duration_ms,"
    f" {', '.join(f'{plausible_value(name)} AS {name}' for name in COLUMNS)},"
    " CASE WHEN other THEN coalesce(nullif(served, ''), 'another model') END AS other "
    "FROM attempt x",
}
"""The query for each kind of fact."""

_RECENT_ROWS: Final = 5000
"""At most so many rows of one kind are written within `RATE_WINDOW`."""
_RECENT_TAKES: Final = 1000
"""At most so many takes are played at once."""
_SECOND: Final = 1000
_SPOKEN: Final = f"coalesce({plausible_value('output_tokens')}, 0)"
_REPLIES: Final = "count(CASE WHEN role = 'target' AND outcome = 'answer' THEN 1 END)"


def last_seq(connection: Connection) -> int:
    """Return the last `seq` of all facts; 0 if there is none."""
    return connection.number(LAST_SEQ)


def facts_after(connection: Connection, after: int, limit: int) -> list[Fact]:
    """Return the first `limit` facts beyond `after`, without gaps.

    Each table is queried separately while rows may be added, so nothing beyond the last row at the
    start is included.
    """
    # first, as rows that are written between the queries are for the next call
    until = last_seq(connection)
    if until <= after:
        return []
    facts = [
        read(kind, row)
        for kind, select in _FACTS.items()
        for row in connection.all(
            f"{select} WHERE x.seq > ? AND x.seq <= ? ORDER BY x.seq LIMIT ?",
            (after, until, limit),
        )
    ]
    # each kind gave its first `limit`, so the first `limit` of all kinds are among them
    facts.sort(key=lambda fact: fact.seq)
    return facts[:limit]


def snapshot(connection: Connection) -> Progress:
    """Return what folding every fact would give: the stored sums, the rows since then, and the
    present rates, notes and open takes."""
    # one transaction: a row that is added between two queries would be counted by one of them
    with connection.read_transaction(), connection.reporting_damage():
        progress = progress_of_rows(connection)
        last, progress.seq = progress.seq, 0  # so that notes of any age are applied
        _add_notes(connection, progress)
        _add_rates(connection, progress)
        _add_lengths(connection, progress)
        # SQLite counts a table by its smallest index, without reading any text
        progress.messages = connection.number("SELECT count(*) FROM message")
        progress.seq = last
    return progress


def progress_of_rows(connection: Connection) -> Progress:
    """Add up all rows, except what `snapshot` can query directly. To be called in one
    transaction."""
    last = last_seq(connection)
    progress = kept_summary(connection, last)
    _add_states(connection, progress)
    _add_problems(connection, progress)
    _add_scores(connection, progress)
    _add_usage(connection, progress)
    _add_others(connection, progress)
    progress.seq = last
    return progress


def _add_notes(connection: Connection, progress: Progress) -> None:
    """Apply the last hundred notes, and the last of each kind, which the rest depends on."""
    for row in connection.all(
        "SELECT * FROM note WHERE seq IN (SELECT max(seq) FROM note GROUP BY kind, benchmark <> '')"
        " OR seq IN (SELECT seq FROM note ORDER BY seq DESC LIMIT 100) ORDER BY seq"
    ):
        progress.apply(read(Noted, row))


def keep_sums(connection: sqlite3.Connection, path: Path) -> None:
    """Store the sums of all rows. To be called in a transaction. Raises `StoreError` if a row
    cannot be read, and `sqlite3.Error`."""
    asked = Connection(connection, path)
    with asked.reporting_damage():
        row = summary_row(progress_of_rows(asked))
    connection.execute(KEEP, row)


# Without stored sums, the queries read the present state of each thing, so that they hold for a
# store whose rows were lost or pruned; with them, they read what each row since then changed.


def _add_states(connection: Connection, progress: Progress) -> None:
    everything = (
        "SELECT benchmark, stage, target, NULL AS was, state, count(*) AS units FROM ("
        "  SELECT benchmark, stage, target, state, max(seq) FROM state WHERE seq > ?"
        "  GROUP BY benchmark, stage, unit"
        ") GROUP BY benchmark, stage, target, state"
    )
    # NOT INDEXED: SQLite would walk through a whole index in the order of the groups, instead of
    # reading the few rows beyond a number
    changes = (
        "SELECT benchmark, stage, target, was, state, count(*) AS units FROM state NOT INDEXED "
        "WHERE seq > ? GROUP BY benchmark, stage, target, was, state"
    )
    for row in connection.all(changes if progress.seq else everything, (progress.seq,)):
        stage, state = Stage(row["stage"]), State(row["state"])
        was = None if row["was"] is None else State(row["was"])
        progress.stage_tally(row["benchmark"], stage).move(was, state, row["units"])
        if row["target"] is None:
            continue
        target = _target(progress, row)
        if stage is Stage.SIMULATE:
            target.simulate.move(was, state, row["units"])
        elif stage is Stage.EVALUATE:
            target.evaluate.move(was, state, row["units"])


def _add_problems(connection: Connection, progress: Progress) -> None:
    for row in connection.all(
        "SELECT benchmark, target, reason, max(seq) FROM state WHERE seq > ? "
        "AND state = 'failed' AND target IS NOT NULL GROUP BY benchmark, target",
        (progress.seq,),
    ):
        _target(progress, row).last_problem = row["reason"]


def _add_scores(connection: Connection, progress: Progress) -> None:
    everything = (
        "SELECT benchmark, target, track, coalesce(sum(counted), 0) AS passed,"
        "  count(counted) AS scored FROM ("
        "  SELECT t.benchmark, t.target, v.track, v.counted, max(v.seq)"
        "  FROM verdict v JOIN take t ON t.seq = v.take WHERE v.seq > ?"
        "  GROUP BY t.benchmark, t.scenario_id, t.target, t.sample, v.track"
        ") GROUP BY benchmark, target, track"
    )
    changes = (
        "SELECT t.benchmark, t.target, v.track,"
        "  coalesce(sum(v.counted), 0) - coalesce(sum(v.counted_before), 0) AS passed,"
        "  count(v.counted) - count(v.counted_before) AS scored "
        "FROM verdict v JOIN take t ON t.seq = v.take WHERE v.seq > ?"
        "  GROUP BY t.benchmark, t.target, v.track"
    )
    for row in connection.all(changes if progress.seq else everything, (progress.seq,)):
        score = _target(progress, row).scores[Track(row["track"])]
        score.passed += row["passed"]
        score.scored += row["scored"]


def _add_usage(connection: Connection, progress: Progress) -> None:
    """Cached tokens are not part of the progress."""
    # NOT INDEXED: as for states
    for row in connection.all(
        f"SELECT benchmark, target, {USAGE}, {_REPLIES} AS replies FROM attempt "
        "NOT INDEXED WHERE seq > ? AND target IS NOT NULL GROUP BY benchmark, target",
        (progress.seq,),
    ):
        used = read(Usage, row)
        _target(progress, row).replies += row["replies"]
        _target(progress, row).usage += Usage(
            used.calls, used.input_tokens, 0, used.output_tokens, used.cost_usd
        )


def _add_others(connection: Connection, progress: Progress) -> None:
    """Count replies of other models: they are few, and have an index."""
    for row in connection.all(
        "SELECT benchmark, target, served, count(*) AS replies FROM attempt "
        "WHERE other = 1 AND role = 'target' AND outcome = 'answer' AND target IS NOT NULL "
        "AND seq > ? GROUP BY benchmark, target, served",
        (progress.seq,),
    ):
        others = _target(progress, row).others
        others[row["served"]] = others.get(row["served"], 0) + row["replies"]


_SETTLED: Final = "state IN ('done', 'failed')"
_ANSWERED: Final = "stage = 'simulate' AND outcome = 'answer'"
_VERDICTS: Final = f"stage = 'evaluate' AND outcome = 'answer' AND {_TOOK} IS NOT NULL"
_RATES: Final = {
    "tokens": ("attempt", _SPOKEN, "1"),
    "settled": ("state", "1", f"stage = 'simulate' AND {_SETTLED}"),
    "judged": ("state", "1", f"stage = 'evaluate' AND {_SETTLED}"),
    "judge_ms": ("attempt", _TOOK, _VERDICTS),
    "calls": ("attempt", "1", _ANSWERED),
    "call_ms": ("attempt", "duration_ms", _ANSWERED),
}
"""By the rate of a `TargetProgress`: the table, the amount of a row, and which rows."""


def _add_rates(connection: Connection, progress: Progress) -> None:
    """Add the rates of the last minutes, so that a new watcher sees the present pace at once."""
    for rate, (table, amount, where) in _RATES.items():
        for name, at, more in _by_second(_recent(connection, table, amount, where)):
            getattr(progress.target(*name), rate).add(utc_datetime(at), more)


def _add_lengths(connection: Connection, progress: Progress) -> None:
    """Add the lengths of the newest takes, among which all open ones are."""
    # 2 * turn - 1 messages if the user spoke last, 2 * turn if the target did
    for row in connection.all(
        "SELECT benchmark, target, " + CONV_ID + " AS unit, "
        "(SELECT max(2 * turn - (speaker = 'user')) FROM message m WHERE m.take = t.seq) AS said, "
        "(SELECT stop_reason FROM take_end e WHERE e.take = t.seq ORDER BY seq DESC LIMIT 1) "
        "AS ended, (SELECT max(seq) FROM take_end e WHERE e.take = t.seq) AS place "
        "FROM (SELECT * FROM take ORDER BY seq DESC LIMIT ?) t ORDER BY coalesce(place, seq)",
        (_RECENT_TAKES,),
    ):
        target = _target(progress, row)
        target.open[row["unit"]] = row["said"] or 0
        if row["ended"] is not None:
            target.end(row["unit"], finished=StopReason(row["ended"]).finished)


def _target(progress: Progress, row: sqlite3.Row) -> TargetProgress:
    return progress.target(row["benchmark"], row["target"])


def _recent(
    connection: Connection, table: str, amount: str, where: str
) -> list[tuple[int, tuple[str, str], int]]:
    """The rows of the rates' window, oldest first: the time, (benchmark, target), the amount."""
    window = round(RATE_WINDOW.total_seconds() * 1000)
    rows = connection.all(
        f"SELECT at, benchmark, target, {amount} FROM {table} WHERE target IS NOT NULL AND {where}"
        f"  AND seq > (SELECT min(seq) - 1 FROM"
        f"    (SELECT seq FROM {table} ORDER BY seq DESC LIMIT ?))"
        f"  AND at >= (SELECT at FROM {table} ORDER BY seq DESC LIMIT 1) - ? ORDER BY seq",
        (_RECENT_ROWS, window),
    )
    return [(at, (benchmark, target), held) for at, benchmark, target, held in rows]


def _by_second(
    rows: Iterable[tuple[int, tuple[str, str], int]],
) -> list[tuple[tuple[str, str], int, int]]:
    """Sum amounts by target and second: (benchmark, target), the first time, the amount. Thousands
    of single rows would be as many points of a rate."""
    begun: dict[tuple[str, str], tuple[int, int]] = {}
    states: list[tuple[tuple[str, str], int, int]] = []
    for at, name, more in rows:
        first, held = begun.get(name, (at, 0))
        if at - first >= _SECOND:
            states.append((name, first, held))
            first, held = at, 0
        begun[name] = first, held + more
    return [*states, *((name, first, held) for name, (first, held) in begun.items())]


def _sum(column: str) -> str:
    """Return SQL for a sum that is NULL if the amount of any answer is unknown. Failed attempts
    without usage add nothing; where the sum is published, their number is stated beside it."""
    value = plausible_value(column)
    answered = "count(CASE WHEN outcome = 'answer' THEN 1 END)"
    known = f"count(CASE WHEN outcome = 'answer' THEN {value} END)"
    return f"CASE WHEN {known} = {answered} THEN coalesce(sum({value}), 0) END AS {column}"


USAGE: Final = "count(*) AS calls, " + ", ".join(_sum(column) for column in COLUMNS)
"""Columns that sum up attempts, for any GROUP BY."""
