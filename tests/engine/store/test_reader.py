"""The questions that the store answers."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

from engine.benchmark import Landmark, Metric, Stage, State, StopReason, Track, Usage
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
from engine.jury import NO_PRESSURE
from engine.store.connection import Connection, Parameter
from engine.store.database import Store
from engine.store.events import facts_after
from engine.store.mirror_content import BenchmarkHistory
from engine.store.open_reader import open_reader
from engine.store.reader import IDS
from engine.store.tables import MetricRow, TakeEndRow
from tests.engine.store.building import (
    BENCHMARK,
    FLATTERS,
    HOLDS,
    attempt,
    key,
    message,
    note,
    play,
    run,
    scenario,
    scenario_row,
    state,
    take,
    turns,
    verdict,
    write,
)

# Facts


def a_bit_of_everything(store: Store) -> int:
    seq = play(store)
    write(
        store,
        note(),
        MetricRow(benchmark=BENCHMARK, metric=HOLDS, source="model"),
        state("a", State.QUEUED),
        verdict(seq, passed=True),
        scenario_row(),
        attempt(),
    )
    return seq


def test_each_kind_of_row_becomes_its_fact(store: Store) -> None:
    a_bit_of_everything(store)
    assert [type(fact) for fact in store.reader.facts(0)] == [
        TakeStarted,
        MessageSpoken,
        MessageSpoken,
        TakeEnded,
        Noted,
        StateChanged,
        VerdictGiven,
        CallMade,
    ]


def test_pages_of_facts_leave_nothing_out_and_repeat_nothing(store: Store) -> None:
    for number in range(3):
        seq = play(store, key(sample=number))
        write(store, note(), state(str(number), State.DONE), verdict(seq, passed=True), attempt())
    for limit in (1, 2, 3, 5, 100):
        found: list[Fact] = []
        while page := store.reader.facts(found[-1].seq if found else 0, limit):
            assert len(page) <= limit
            found += page
        assert found == store.reader.facts(0)
        assert [fact.seq for fact in found] == list(range(1, store.reader.last_seq() + 1))


def test_a_watcher_beside_a_busy_writer_misses_no_fact(store: Store) -> None:
    async def write_and_watch() -> list[int]:
        writing = asyncio.gather(
            *(store.write(note(), state(str(n), State.DONE)) for n in range(600))
        )
        with closing(open_reader(store.path)) as watcher:
            seen: list[int] = []
            while not writing.done() or watcher.last_seq() > len(seen):
                page = await asyncio.to_thread(watcher.facts, seen[-1] if seen else 0, 37)
                seen += [fact.seq for fact in page]
        await writing
        return seen

    assert run(write_and_watch()) == list(range(1, 1201))


class Interrupted(Connection):
    """A connection between any two questions of which something is written."""

    def __init__(self, store: Store) -> None:
        opened = sqlite3.connect(store.path, isolation_level=None, check_same_thread=False)
        super().__init__(opened, store.path)
        self.store = store

    def all(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[sqlite3.Row]:
        answer = super().all(sql, parameters)
        write(self.store, note(), state("a", State.DONE))
        return answer


def test_what_is_written_between_two_tables_is_not_skipped(store: Store) -> None:
    write(store, note())
    with closing(Interrupted(store)) as connection:
        seen: list[int] = []
        for _ in range(3):
            seen += [fact.seq for fact in facts_after(connection, seen[-1] if seen else 0, 100)]
    assert len(seen) > 20
    assert seen == list(range(1, len(seen) + 1))


def test_the_data_version_changes_with_every_write_and_only_then(store: Store) -> None:
    with closing(open_reader(store.path)) as watcher:
        before = watcher.data_version()
        assert watcher.data_version() == before
        write(store, note())
        assert watcher.data_version() != before


# What is wanted


def test_a_scenario_comes_back_as_it_was_written(store: Store) -> None:
    made = scenario(
        persona="Zoë, 30 — «she»",
        landmarks=(Landmark(2, 'Say "no".'),),
        demographic={"age": "older", "gender": "woman"},
        target_system_prompt="Be brief.",
        extra={"title": "Moving", "tags": [1, None, {"a": True}]},
    )
    [seq] = write(store, scenario_row(made))
    [stored] = store.reader.scenarios(BENCHMARK)
    assert (stored.seq, stored.scenario, stored.source) == (seq, made, "model")
    write(store, take(scenario_seq=seq), take(number=1))
    first, second = store.reader.takes(BENCHMARK)
    assert store.reader.scenario_of(first) == made
    assert store.reader.scenario_of(second) is None


def test_the_newest_row_of_a_scenario_counts_and_a_removed_one_is_left_out(store: Store) -> None:
    first = scenario("m01_s001_v01")
    edited = scenario("m01_s001_v01", persona="Somebody else.")
    other = scenario("m01_s000_v01")
    [old, *_] = write(
        store,
        scenario_row(first),
        scenario_row(other),
        scenario_row(edited, source="file"),
    )
    assert [row.scenario for row in store.reader.scenarios(BENCHMARK)] == [other, edited]
    write(store, scenario_row(other, removed=True))
    assert [row.scenario for row in store.reader.scenarios(BENCHMARK)] == [edited]
    assert store.reader.removed_scenarios(BENCHMARK) == {"m01_s000_v01"}
    assert store.reader.scenario_history(BENCHMARK)[old].scenario == first
    write(store, scenario_row(other))
    assert store.reader.removed_scenarios(BENCHMARK) == frozenset()


def test_metrics_are_the_newest_of_each_id_and_the_old_ones_stay(store: Store) -> None:
    better = Metric("m01", "Holds firm", Track.POSITIVE, "The assistant holds firm.", ("a", "b"))
    write(
        store,
        MetricRow(benchmark=BENCHMARK, metric=HOLDS, source="file"),
        MetricRow(benchmark=BENCHMARK, metric=FLATTERS, source="model", depends={"x": "1"}),
        MetricRow(benchmark=BENCHMARK, metric=better, source="model", depends={"x": "2"}),
    )
    assert store.reader.metrics(BENCHMARK) == [
        (better, {"x": "2"}, "model"),
        (FLATTERS, {"x": "1"}, "model"),
    ]
    told = BenchmarkHistory(store.reader, BENCHMARK).metrics()
    history = [(one["metric"]["name"], one["source"]) for one in told]
    assert history == [
        ("Holds its line", "file"),
        ("Avoid flattery", "model"),
        ("Holds firm", "model"),
    ]


# What was said


def test_the_newest_take_that_was_played_to_its_end_counts(store: Store) -> None:
    finished = play(store, number=0)
    play(store, number=1, reason=StopReason.TARGET_FAILED)
    reader = store.reader
    counting = reader.counting_take(BENCHMARK, key())
    assert counting is not None
    assert (counting.seq, counting.number) == (finished, 0)
    newest = play(store, number=2)
    assert [one.seq for one in reader.counting_takes(BENCHMARK)] == [newest]
    assert [one.number for one in reader.takes(BENCHMARK, key())] == [0, 1, 2]


def test_a_take_that_failed_and_was_continued_counts(store: Store) -> None:
    reader = store.reader
    [seq] = write(store, take())
    write(store, *turns(seq, 1), TakeEndRow(take=seq, stop_reason=StopReason.TARGET_FAILED))
    [failed] = reader.takes(BENCHMARK, key())
    assert (failed.stop_reason, failed.finished) == (StopReason.TARGET_FAILED, False)
    write(store, message(seq, 2), TakeEndRow(take=seq, stop_reason=StopReason.TURN_LIMIT))
    [ended] = reader.counting_takes(BENCHMARK)
    assert (ended.stop_reason, ended.finished) == (StopReason.TURN_LIMIT, True)


# What was judged


def counted(store: Store) -> list[tuple[bool | None, bool | None]]:
    return [
        (fact.counted_before, fact.counted)
        for fact in store.reader.facts(0)
        if isinstance(fact, VerdictGiven)
    ]


def test_what_counts_is_the_majority_of_the_newest_of_each_judge_and_pass(store: Store) -> None:
    seq = play(store)
    write(store, verdict(seq, passed=True, judge="a"))
    write(store, verdict(seq, passed=False, judge="b"))
    write(store, verdict(seq, passed=False, judge="a", number=1))
    write(store, verdict(seq, passed=None, judge="b"))
    write(store, verdict(seq, passed=True, judge="b"))
    assert counted(store) == [
        (None, True),
        (True, None),
        (None, False),
        (False, False),
        (False, True),
    ]


def test_a_verdict_on_a_take_that_does_not_count_changes_nothing_else(store: Store) -> None:
    old = play(store, number=0)
    write(store, verdict(old, passed=True))
    new = play(store, number=1)
    write(store, verdict(new, passed=False))
    write(store, verdict(old, passed=True, judge="late"))
    assert counted(store) == [(None, True), (True, False), (False, False)]


def test_a_reason_of_earlier_words_is_read_in_todays(store: Store) -> None:
    before = "the second landmark was never delivered"
    take = play(store)
    write(store, replace(verdict(take, passed=None), unscored=before))
    [stored] = store.reader.verdicts(take)
    [row] = store.reader.verdict_rows()
    assert {stored.unscored, row.unscored} == {NO_PRESSURE}


def test_counting_takes_come_with_their_verdicts_or_with_none(store: Store) -> None:
    judged, waiting = play(store, key(sample=0)), play(store, key(sample=1))
    write(store, verdict(judged, passed=True), verdict(judged, passed=False, judge="b"))
    found = store.reader.counting_verdicts(BENCHMARK)
    assert [(one.seq, [v.judge for v in given]) for one, given in found] == [
        (judged, ["judge-x", "b"]),
        (waiting, []),
    ]
    assert store.reader.counting_verdicts(BENCHMARK, "nobody") == []


def test_the_verdict_table_has_one_row_for_each_judged_conversation(store: Store) -> None:
    first, second = play(store, key(sample=0)), play(store, key(sample=1))
    write(store, verdict(first, passed=True), verdict(second, passed=None))
    write(store, verdict(first, passed=False, judge="b", justification="No."))
    rows = store.reader.verdict_rows(BENCHMARK)
    assert [(row.key.sample, row.passed, row.unscored, row.turns) for row in rows] == [
        (1, None, "no usable answer", 1),
        (0, None, "judges are tied", 1),
    ]
    assert rows[1].justification == "No."
    assert store.reader.verdict_rows(after=rows[0].seq) == rows[1:]
    assert store.reader.verdict_rows(limit=1) == rows[:1]
    assert store.reader.verdict_rows("another") == []


def test_a_conversation_that_was_played_again_has_no_row_until_it_is_judged_again(
    store: Store,
) -> None:
    write(store, verdict(play(store, number=0), passed=True))
    again = play(store, number=1)
    assert store.reader.verdict_rows() == []
    write(store, verdict(again, passed=False))
    assert [(row.take, row.passed) for row in store.reader.verdict_rows()] == [(1, False)]


# What was done, and what it took


def test_the_newest_state_of_a_row_of_work_is_where_it_stands(store: Store) -> None:
    write(store, state("a", State.QUEUED), state("b", State.QUEUED), state("a", State.FAILED))
    write(store, state("a", State.DONE, Stage.EVALUATE))
    units = store.reader.units(BENCHMARK, Stage.SIMULATE)
    assert {unit: (one.state, one.reason) for unit, one in units.items()} == {
        "a": (State.FAILED, "it broke"),
        "b": (State.QUEUED, None),
    }


def test_usage_adds_up_and_one_unknown_makes_the_sum_unknown(store: Store) -> None:
    write(
        store,
        attempt("a", usage=Usage(1, 10, 1, 5, 0.5)),
        attempt("a", usage=Usage(1, 20, 2, 5, None)),
        attempt("b", usage=Usage(1, 30, 3, 5, 0.25), target="other"),
    )
    reader = store.reader
    assert reader.usage(BENCHMARK, Stage.SIMULATE, "steady") == Usage(2, 30, 3, 10, None)
    assert reader.usage(BENCHMARK, Stage.SIMULATE, "other") == Usage(1, 30, 3, 5, 0.25)
    assert reader.usage(BENCHMARK, Stage.SIMULATE) == Usage(3, 60, 6, 15, None)
    assert reader.usage(BENCHMARK, Stage.EVALUATE) == Usage()
    assert reader.usage_by_unit(BENCHMARK, Stage.SIMULATE)["b"].input_tokens == 30


FINDS: list[tuple[str, list[tuple[str, str]]]] = [
    ("m01_s001_v01__steady__", [("m01_s001_v01__steady__s1", "conversation")]),
    (
        "m01_s001",
        [
            ("m01_s001_v01", "scenario"),
            ("m01_s001_v01__steady", "conversation"),
            ("m01_s001_v01__steady__s1", "conversation"),
        ],
    ),
    ("m02", [("m02", "metric")]),
    ("%", []),
]


def test_ids_are_found_by_how_they_begin(store: Store) -> None:
    write(
        store,
        scenario_row(),
        scenario_row(scenario("m01_s002_v01")),
        *(scenario_row(scenario("m01_s001_v02"), removed=gone) for gone in (False, True)),
        MetricRow(benchmark=BENCHMARK, metric=FLATTERS, source="model"),
        take(key(sample=0)),
        take(key(sample=1)),
    )
    for prefix, expected in FINDS:
        found = store.reader.find_ids(prefix)
        assert found == [(BENCHMARK, name, kind) for name, kind in expected]


def test_ids_are_found_without_looking_at_every_row(store: Store) -> None:
    with closing(sqlite3.connect(store.path)) as connection:
        for question in IDS.values():
            rows = connection.execute(f"EXPLAIN QUERY PLAN {question}", ("m0", "m0~", 9))
            steps = [row[3] for row in rows]
            assert any("SEARCH" in step for step in steps)
            assert not [
                step for step in steps if re.match("SCAN (take|scenario|metric|s)\\b", step)
            ]


def test_ids_end_where_the_limit_is(store: Store) -> None:
    write(store, scenario_row(), take(key(sample=0)), take(key(sample=1)))
    every = store.reader.find_ids("", limit=-1)
    assert len(every) == 4
    for limit in range(5):
        assert store.reader.find_ids("", limit) == every[:limit]


def test_one_reader_serves_many_threads(store: Store) -> None:
    seq = play(store)

    async def ask_all() -> list[int]:
        asked = [asyncio.to_thread(store.reader.messages, seq) for _ in range(40)]
        return [len(said) for said in await asyncio.gather(*asked)]

    assert run(ask_all()) == [2] * 40
