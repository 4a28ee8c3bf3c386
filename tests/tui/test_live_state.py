"""The live screen's state, without a screen: real facts of a real store in, plain values out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime

from engine.benchmark import Speaker, Stage, State, StopReason
from engine.facts import NoteKind, Speech
from engine.jury import AskedConversations, Counts, Jury, NotCounted
from engine.link import EngineState
from engine.store.tables import NoteRow, Quote
from tests.approval import approve
from tests.tui.theatre import BENCHMARK, METRIC, TARGETS, Theatre, Voice, text
from tui.state.follower import DWELL
from tui.state.live import LiveState, PaneUpdate
from tui.state.run_status import PATIENCE, Instant, Snapshot
from tui.text.blocks import Block, Passage, Rule

AT = datetime(2026, 1, 1, tzinfo=UTC)


def tick(theatre: Theatre, state: LiveState, seconds: float = 0.0) -> PaneUpdate | None:
    """What one look of the app does to the state, and what it would give to the pane."""
    state.receive(theatre.watch.poll())
    board = None if theatre.watch.link is None else theatre.link.board()
    state.look(Snapshot.of(theatre.watch, board, Instant(AT, seconds)))
    return state.pane()


def words(blocks: Iterable[Block]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, Passage))


def pulled(state: LiveState) -> int:
    """How many rows there are when what is behind was pulled, after which nothing is."""
    before = state.feed.behind
    state.feed.pull()
    assert (before, state.feed.behind) == (True, False)
    return len(state.feed)


async def test_the_pane_is_given_only_what_it_does_not_show(theatre: Theatre) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "are you su")
    begun = tick(theatre, state)
    assert begun is not None
    assert (begun.another, begun.follow) == (True, True)
    assert "are you su" in words(begun.blocks)
    assert tick(theatre, state) is None

    theatre.speak(take, 1, Speaker.USER, "re?")
    grown = tick(theatre, state)
    assert grown is not None
    assert not grown.another
    assert "are you sure?" in words(grown.blocks)

    await theatre.finish(take)
    stored = tick(theatre, state)
    assert stored is not None
    assert not stored.another
    assert tick(theatre, state) is None


async def test_the_end_of_a_run_is_explained_when_its_last_conversation_was_read(
    theatre: Theatre,
) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "the last words")
    tick(theatre, state, 1.0)
    await theatre.finish(take)
    await theatre.end(take)
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.STOPPED

    last = tick(theatre, state, 2.0)
    assert state.talk.has_ended
    assert last is not None
    assert "the last words" in words(last.blocks)
    explained = tick(theatre, state, 2.0 + DWELL)
    assert explained is not None
    assert (explained.another, explained.follow) == (True, False)
    assert state.subject is None
    assert tick(theatre, state, 9.0) is None


def titles(blocks: Iterable[Block]) -> list[str]:
    return [block.title for block in blocks if isinstance(block, Rule)]


async def test_a_conversation_that_ended_is_held_until_its_verdict_was_read(
    theatre: Theatre,
) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, "I may skip it, then?")
    theatre.speak(take, 1, Speaker.TARGET, "You are right to skip it.")
    tick(theatre, state, 1.0)
    await theatre.finish(take)
    await theatre.end(take)
    theatre.speak(await theatre.begin(2), 1, Speaker.USER, "and the next")
    ended = tick(theatre, state, 2.0)
    assert ended is not None
    assert not any("pass" in title or "fail" in title for title in titles(ended.blocks))
    assert text(state.pane_title(has_focus=True, rows_below=0)[1]) == "verdict awaited"
    assert tick(theatre, state, 2.0 + DWELL) is None

    quotes = (Quote("never said", None), Quote("right to skip it", 1))
    await theatre.judge(take, passed=True, quotes=quotes)
    judged = tick(theatre, state, 3.0 + DWELL)
    assert judged is not None
    assert not judged.another
    assert titles(judged.blocks)[-1] == f"✓ pass  + {METRIC.name}"
    approve(words(judged.blocks))
    assert text(state.pane_title(has_focus=True, rows_below=0)[1]) == "ended  ✓ pass"
    assert tick(theatre, state, 2.9 + 2 * DWELL) is None
    next_one = tick(theatre, state, 3.0 + 2 * DWELL)
    assert next_one is not None
    assert next_one.another
    assert "and the next" in words(next_one.blocks)


async def test_a_conversation_that_is_not_to_be_judged_is_held_no_longer(theatre: Theatre) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.TARGET, "I would")
    tick(theatre, state, 1.0)
    await theatre.finish(take)
    await theatre.end(take, StopReason.CANCELLED)
    theatre.speak(await theatre.begin(2), 1, Speaker.USER, "and the next")
    tick(theatre, state, 2.0)
    assert text(state.pane_title(has_focus=True, rows_below=0)[1]) == "ended"
    next_one = tick(theatre, state, 2.0 + DWELL)
    assert next_one is not None
    assert next_one.another


async def test_a_conversation_that_cannot_be_read_says_why(theatre: Theatre) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "before")
    tick(theatre, state)
    theatre.watch.reader.close()
    await theatre.finish(take)
    state.receive([])
    state.talk.stale = True  # as a fact of it would, where no fact can be read any more
    state.look(Snapshot.of(theatre.watch, theatre.link.board(), Instant(AT, 1.0)))
    update = state.pane()
    assert update is not None
    assert not update.another
    assert [block.key for block in update.blocks][-1] == "fault"


async def test_what_can_be_done_follows_what_failed_and_what_is_parked(theatre: Theatre) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    tick(theatre, state)
    assert state.possible == frozenset()
    await theatre.move(Stage.SIMULATE, "m01_s001_v01__steadfast", State.FAILED, TARGETS[0])
    theatre.link.parked = {TARGETS[0]: "no key"}
    tick(theatre, state)
    assert state.possible == {"again", "again_all", "unpark"}
    assert (state.failed_of(TARGETS[0]), state.failed_of(TARGETS[1])) == (1, 0)


def test_how_many_at_once_is_what_was_asked_for_until_the_engine_says_it(theatre: Theatre) -> None:
    state = LiveState(theatre.watch)
    assert [state.at_once] == [None]
    theatre.link.concurrency = {Stage.SIMULATE: 4}
    tick(theatre, state)
    state.asked_at_once = 5
    tick(theatre, state)
    assert state.at_once == 5
    theatre.link.concurrency = {Stage.SIMULATE: 5}
    tick(theatre, state)
    assert [state.asked_at_once, state.at_once] == [None, 5]


async def test_what_came_while_the_display_stood_still_is_counted_and_read_afterwards(
    theatre: Theatre,
) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "before")
    tick(theatre, state)
    state.freeze()
    await theatre.finish(take)
    await theatre.end(take, StopReason.CANCELLED)
    state.receive(theatre.watch.poll())
    assert "frozen  +1 message" in text(state.header(120)[0])
    state.freeze()
    update = tick(theatre, state)
    assert update is not None
    assert "cancelled" in words(update.blocks)


async def test_a_run_that_stands_still_says_what_it_waits_for(theatre: Theatre) -> None:
    state = LiveState(theatre.watch)
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.TARGET, "")
    tick(theatre, state, 10.0)
    assert state.waits() == ((), ())
    tick(theatre, state, 10.0 + PATIENCE)
    line, _spent = state.waits()
    approve(text(line))


def test_what_the_benchmark_asks_and_what_a_conversation_is_judged_by_are_said(
    theatre: Theatre,
) -> None:
    asyncio.run(theatre.prepare())
    state = LiveState(theatre.watch)
    tick(theatre, state)
    assert text(state.asks(200)) == f" {theatre.watch.benchmarks[0].description}"
    approve(text(state.asks(30)))
    assert state.measured(80) == ((), ())  # no conversation yet
    take = asyncio.run(theatre.begin())
    theatre.speak(take, 1, Speaker.USER, "are you su")
    tick(theatre, state)
    said = f"   + {METRIC.name}"
    left, right = state.measured(200)
    assert text(left) == f"{said}  {METRIC.definition}"
    assert text(right) == "  Adult (18+) "
    assert text(state.measured(40)[0]) == said
    bare = replace(theatre.watch.benchmarks[0], metrics={}, description="")
    theatre.watch.benchmarks = [bare]
    tick(theatre, state)
    assert (text(state.asks(80)), state.measured(80)) == (" Holding steady", ((), ()))
    theatre.watch.benchmarks = [replace(bare, title="")]
    tick(theatre, state)
    assert state.asks(80) == ()


async def test_a_conversation_keeps_its_own_metric_while_another_benchmark_is_worked_on(
    theatre: Theatre,
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "are you sure?")
    state = LiveState(theatre.watch)
    tick(theatre, state)
    await theatre.finish(take)
    await theatre.said(take, 1, Speaker.TARGET, "I am.")
    await theatre.end(take)
    await theatre.judge(take)
    [info] = theatre.watch.benchmarks
    other = replace(METRIC, name="What another asks")
    theatre.watch.benchmarks = [
        info,
        replace(info, name="another", metrics={METRIC.id: other}, turns=9),
    ]
    await theatre.write(NoteRow(kind=NoteKind.RUN_STARTED, benchmark="another", text=""))
    ended = tick(theatre, state)
    assert (state.now.info or info).name == "another"
    assert METRIC.name in text(state.measured(80)[0])
    assert ended is not None
    stamped = [block.title for block in ended.blocks if isinstance(block, Rule)]
    assert stamped[-1].endswith(METRIC.name)
    title, _ = state.pane_title(has_focus=False, rows_below=0)
    assert text(title).startswith(f"   {take.key}  of {BENCHMARK}  turn 1")

    # nothing of it stands above the one that the other benchmark has under the same id
    speech = Speech("another", take.key, 0, 1, Speaker.USER, None, theatre.seconds)
    theatre.link.voices[take.key] = Voice(speech, "What of this?")
    begun = tick(theatre, state, DWELL)
    assert begun is not None
    assert not any(isinstance(block, Rule) and block.key == "begins" for block in begun.blocks)
    title, _ = state.pane_title(has_focus=False, rows_below=0)
    assert text(title).startswith(f"   {take.key}  turn 1")


async def test_a_display_that_is_frozen_names_the_benchmark_that_it_shows(
    theatre: Theatre,
) -> None:
    [info] = theatre.watch.benchmarks
    theatre.watch.benchmarks = [info, replace(info, name="another")]
    await theatre.prepare()
    state = LiveState(theatre.watch)
    tick(theatre, state)
    state.freeze()
    await theatre.write(NoteRow(kind=NoteKind.RUN_STARTED, benchmark="another", text=""))
    tick(theatre, state)
    assert BENCHMARK in text(state.header(120)[0])
    state.freeze()
    state.other_feed()
    assert "another" in text(state.header(120)[0])


async def test_what_was_rejected_is_marked_and_not_in_the_scores_of_targets(
    theatre: Theatre,
) -> None:
    await theatre.prepare()
    [info] = theatre.watch.benchmarks
    take = await theatre.play()
    await theatre.judge(take)
    state = LiveState(theatre.watch)
    tick(theatre, state)
    assert pulled(state) == 1
    assert sum(one.positive.scored for one in state.targets(info)) == 1

    asked = AskedConversations(BENCHMARK, {}, [METRIC.id], TARGETS, 1, [take.key.scenario_id])
    rejecting = replace(info, counts=lambda _: Counts(asked, Jury(())))
    theatre.watch.describe([rejecting], theatre.watch.link)
    await state.scores.read(BENCHMARK, 0.0)
    tick(theatre, state, 100.0)
    assert sum(one.positive.scored for one in state.targets(info)) == 0
    assert state.feed.behind
    assert state.feed.pull() == ([0], False)
    assert state.feed.why_not(take.key) is NotCounted.REJECTED
    await theatre.judge(take)
    tick(theatre, state, 100.0)
    assert sum(one.positive.scored for one in state.targets(info)) == 0


async def test_what_was_played_again_no_longer_counts_and_is_looked_at_anew(
    theatre: Theatre,
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    state = LiveState(theatre.watch)
    tick(theatre, state)
    assert pulled(state) == 1
    await state.scores.read(BENCHMARK, 0.0)
    tick(theatre, state, 100.0)
    assert not state.scores.due(BENCHMARK, 100.0)
    again = await theatre.begin(number=1)
    await theatre.said(again, 1, Speaker.USER, "are you sure?")
    await theatre.said(again, 1, Speaker.TARGET, "I am.")
    await theatre.end(again)
    tick(theatre, state, 200.0)
    assert state.scores.due(BENCHMARK, 200.0)
    assert state.feed.behind
    assert state.feed.pull() == ([0], False)
    assert state.feed.page(0, 1) == [None]
