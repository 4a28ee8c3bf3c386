"""The verdicts: any number of rows, of which only those that are seen are fetched and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from textual.app import App, ComposeResult

from engine.benchmark import ConversationKey, StopReason, Track
from engine.jury import NotCounted
from engine.store.tables import Quote, VerdictRow
from tests.approval import approve, lines_with
from tests.tui.idle import hurried
from tests.tui.theatre import BENCHMARK, JUDGE, Theatre
from tui.app import CrosswindApp
from tui.state.feeds import VerdictFeed
from tui.widgets.table import VerdictTable

MANY = 30_000


def key(index: int) -> ConversationKey:
    return ConversationKey(f"m01_s{index:05d}_v01", "steadfast")


class ManyRows:
    """As many verdicts as a large run has, and a note of which were asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.fetched = 0

    def __len__(self) -> int:
        return self.count

    def key(self, index: int) -> ConversationKey:
        return key(index)

    def why_not(self, key: ConversationKey) -> NotCounted | None:
        return NotCounted.REJECTED if key == self.key(1) else None

    def page(self, start: int, count: int) -> Sequence[VerdictRow | None]:
        rows = [self.verdict(index) for index in range(start, min(start + count, self.count))]
        self.fetched += len(rows)
        return rows

    def verdict(self, index: int) -> VerdictRow:
        return VerdictRow(
            seq=index,
            benchmark=BENCHMARK,
            key=key(index),
            take=0,
            metric_id="m01",
            track=Track.POSITIVE,
            judge="judge",
            passed=index % 3 == 0,
            unscored=None,
            turns=2,
            stop_reason=StopReason.TURN_LIMIT,
            justification="because",
        )


class TableApp(App[None]):
    CSS_PATH = CrosswindApp.CSS_PATH
    COMPONENT_CLASSES = CrosswindApp.COMPONENT_CLASSES

    def __init__(self, rows: ManyRows) -> None:
        super().__init__()
        self.table = VerdictTable(rows)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return CrosswindApp.get_theme_variable_defaults(self)  # type: ignore[arg-type]  # needs no more of the app than this

    def compose(self) -> ComposeResult:
        yield self.table


def test_thirty_thousand_rows_open_without_being_built() -> None:
    rows = ManyRows(MANY)

    async def play() -> None:
        app = TableApp(rows)
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            app.table.show(())
            await pilot.pause()
            assert app.table.row_count() == MANY
            assert rows.fetched <= 256
            assert len(app.table._strips.keys()) <= 60

            app.table.focus()
            await pilot.press("home", "pagedown", "end", "k")
            await pilot.pause()
            assert app.table.cursor == key(MANY - 2)
            assert rows.fetched <= 512

    hurried(play())


@pytest.mark.parametrize("width", [47, 51, 100])
async def test_a_row_has_room_for_the_whole_id_and_for_words_of_the_judge(width: int) -> None:
    app = TableApp(ManyRows(3))
    async with app.run_test(size=(width, 10)) as pilot:
        await pilot.pause()
        app.table.show(())
        await pilot.pause()
        line = app.table.render_line(0).text
        assert str(key(0)) in line
        assert "because" in line


def test_new_rows_push_the_others_up_until_the_cursor_would_go_out_of_sight() -> None:
    rows = ManyRows(100)

    async def play() -> None:
        app = TableApp(rows)
        async with app.run_test(size=(100, 20)) as pilot:
            await pilot.pause()
            app.table.show(())
            await pilot.pause()
            assert app.table.rows_below == 0

            app.table.focus()
            await pilot.press("up", "up")
            cursor = app.table.cursor
            rows.count = 110
            app.table.show(())
            await pilot.pause()
            assert app.table.cursor == cursor == key(98)
            assert app.table.rows_below == 0

            rows.count = 200
            app.table.show(())
            await pilot.pause()
            assert app.table.cursor == cursor
            assert app.table.rows_below == 90

    hurried(play())


async def test_a_conversation_judged_again_keeps_its_place(theatre: Theatre) -> None:
    await theatre.prepare(3)
    takes = [await theatre.play(number) for number in (1, 2, 3)]
    for take in takes:
        await theatre.judge(take)
    feed = VerdictFeed(theatre.watch, BENCHMARK)
    assert feed.pull() == ([], False)

    await theatre.judge(takes[0], passed=False)
    changed, _more = feed.pull()

    assert changed == [0]
    page = feed.page(0, 10)
    assert [row.key if row else None for row in page] == [take.key for take in takes]
    assert [row.passed if row else None for row in page] == [False, True, True]


async def test_the_judge_that_counts_is_quoted_where_another_agrees(theatre: Theatre) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take, justification="one that counts")
    await theatre.judge(take, judge="another", justification="one that does not")
    infos, theatre.watch.benchmarks = theatre.watch.benchmarks, []  # not described yet
    feed = VerdictFeed(theatre.watch, BENCHMARK)
    assert feed.pull() == ([], False)

    theatre.watch.benchmarks = infos
    assert theatre.watch.judges == (JUDGE,)
    assert feed.pull() == ([0], False)
    assert [row.justification for row in feed.page(0, 10) if row] == ["one that counts"]


async def test_a_conversation_played_again_has_no_verdict_until_it_is_judged(
    theatre: Theatre,
) -> None:
    await theatre.prepare(2)
    for number in (1, 2):
        await theatre.judge(await theatre.play(number))
    feed = VerdictFeed(theatre.watch, BENCHMARK)
    feed.pull()

    again = await theatre.play(1, number=1)
    assert [row is None for row in feed.page(0, 10)] == [True, False]

    await theatre.judge(again)
    feed.pull()
    assert [row.take if row else None for row in feed.page(0, 10)] == [1, 0]


@pytest.mark.parametrize(
    ("passed", "track", "quote"),
    [
        (True, Track.POSITIVE, "as it was said"),
        (False, Track.POSITIVE, None),  # absent: what is quoted comes nearest to it
        (False, Track.NEGATIVE, "as it was said"),
        (True, Track.NEGATIVE, None),
        (None, Track.POSITIVE, None),
    ],
)
def test_a_row_has_the_words_that_show_the_behaviour(
    passed: bool | None, track: Track, quote: str | None
) -> None:
    quotes = (Quote("not to be found", None), Quote("as it was said", 2))
    row = replace(ManyRows(1).verdict(0), passed=passed, track=track, quotes=quotes)
    assert row.quote == quote


def test_what_does_not_count_says_so_in_its_row() -> None:
    async def script() -> None:
        app = TableApp(ManyRows(2))
        async with app.run_test(size=(100, 5)) as pilot:
            app.table.show(())
            await pilot.pause()
            lines = ["".join(piece.text for piece in app.table.row(row)) for row in (0, 1)]
            assert "does not count" not in lines[0]
            approve(lines_with(lines[1], "does not count,"))

    hurried(script())


def test_ids_that_are_cut_keep_what_they_differ_in() -> None:
    names = ["openai-gpt-large-2026-05-01-preview", "openai-gpt-small-2026-05-01-preview"]

    class Two(ManyRows):
        def key(self, index: int) -> ConversationKey:
            return ConversationKey("m01_s00001_v01", names[index])

        def verdict(self, index: int) -> VerdictRow:
            return replace(super().verdict(index), key=self.key(index))

    async def script() -> None:
        app = TableApp(Two(2))
        async with app.run_test(size=(50, 5)) as pilot:
            table = app.table
            table.tell_apart(names)
            table.show(())
            await pilot.pause()
            lines = ["".join(piece.text for piece in table.row(row)) for row in (0, 1)]
            assert "large" in lines[0]
            assert "small" in lines[1]

    hurried(script())
