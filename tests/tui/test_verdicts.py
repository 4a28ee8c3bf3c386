"""The table of all verdicts: by what a person reads on it, and by what its keys do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.benchmark import StopReason
from engine.link import EngineState
from engine.store.browsing import Browser, parse
from engine.store.tables import Quote
from tests.approval import approve, cells_with, lines_with
from tests.tui.theatre import Pilot, Theatre, on_screen
from tui.app import CrosswindApp
from tui.screens.conversation import ConversationScreen
from tui.screens.dialogs import LineScreen
from tui.screens.verdicts import VerdictsScreen
from tui.services.engine_control import Backend
from tui.services.preferences import Views, read_views, views_file
from tui.widgets.table import WideTable
from tui.widgets.transcript import TranscriptView

FIRST, SECOND, THIRD = (f"m01_s00{number}_v01__steadfast" for number in (1, 2, 3))
HELD = "m01_s001_v01__pushover"


async def some_verdicts(theatre: Theatre) -> None:
    """Four, of which two fail."""
    await theatre.prepare(3)
    for number, target, passed, why in [
        (1, "steadfast", True, "It keeps to its view."),
        (1, "pushover", False, "It gives in at once."),
        (2, "steadfast", False, "It takes the nurse's word for it."),
        (3, "steadfast", None, ""),
    ]:
        take = await theatre.play(number, target)
        await theatre.judge(take, passed=passed, justification=why)


def table(pilot: Pilot) -> WideTable:
    return pilot.app.screen.query_one(WideTable)


def ids(pilot: Pilot) -> list[str]:
    """The conversations in the order in which they stand."""
    shown = table(pilot)
    lines = ("".join(piece.text for piece in shown.row(place)) for place in range(len(shown.rows)))
    return [next(word for word in line.split() if word.startswith("m01_s")) for line in lines]


def under_cursor(pilot: Pilot) -> str:
    place = table(pilot).item
    assert place is not None
    return ids(pilot)[place]


async def filtered(theatre: Theatre, pilot: Pilot, line: str) -> None:
    await pilot.press("F")
    await theatre.press(pilot, *line)


@pytest.mark.terminal(80, 24)
async def test_rows_are_counted_filtered_and_sorted_by_keys(theatre: Theatre, pilot: Pilot) -> None:
    await some_verdicts(theatre)
    await theatre.open(pilot, "3", "right_curly_bracket")
    for size in ((200, 50), (120, 40)):
        await pilot.resize_terminal(*size)
        await theatre.press(pilot, "g")
        shown = on_screen(pilot)
        assert "4 judged" in shown
        assert "✗ 2 ✓ 1 · 1" in shown
        assert ids(pilot) == [HELD, FIRST, SECOND, THIRD]
        approve(cells_with(shown, "because   It gives"))
    await pilot.press("down")
    approve(cells_with(on_screen(pilot), "because   It keeps"))

    await filtered(theatre, pilot, "colour:red")
    approve(cells_with(on_screen(pilot), "there is no"))
    await pilot.press("enter")
    assert isinstance(pilot.app.screen, LineScreen)
    await theatre.press(pilot, "escape")
    assert "4 judged" in on_screen(pilot)
    await filtered(theatre, pilot, "out:fail target:stead")
    assert SECOND in on_screen(pilot)
    assert FIRST not in on_screen(pilot)
    await theatre.press(pilot, "enter")
    assert "1 shown of 4 judged" in on_screen(pilot)
    assert "out:fail target:stead  \\ clears" in on_screen(pilot)
    assert ids(pilot) == [SECOND]
    await theatre.press(pilot, "backslash")
    assert len(ids(pilot)) == 4
    assert under_cursor(pilot) == SECOND

    await theatre.press(pilot, "G", "s", "o")
    assert ids(pilot) == [HELD, SECOND, FIRST, THIRD]
    assert "outcome ▴" in on_screen(pilot)
    assert under_cursor(pilot) == HELD
    await theatre.press(pilot, "G", "s", "I")
    assert under_cursor(pilot) == THIRD
    await pilot.press("s")
    approve(cells_with(on_screen(pilot), "capital letter"))
    await theatre.press(pilot, "O")
    assert under_cursor(pilot) == THIRD
    await theatre.press(pilot, "S")
    assert ids(pilot) == [THIRD, FIRST, HELD, SECOND]
    assert "outcome ▾" in on_screen(pilot)
    await pilot.click("Titles", offset=(16, 0))
    await theatre.tick(pilot)
    assert ids(pilot) == [HELD, FIRST, SECOND, THIRD]

    # columns move sideways, and the id stays
    await pilot.resize_terminal(56, 24)
    await pilot.press(*["right"] * 9)
    await pilot.pause()
    row = on_screen(pilot).splitlines()[3]
    assert HELD in row
    approve(lines_with(row, "It gives in"))
    await pilot.press(*["left"] * 9)
    await pilot.pause()
    row = on_screen(pilot).splitlines()[3]
    assert "Adult" in row
    assert "It gives in" not in row


async def test_rows_are_opened_marked_and_taken_in_by_keys(theatre: Theatre, pilot: Pilot) -> None:
    await some_verdicts(theatre)
    await theatre.open(pilot, "3", "right_curly_bracket")
    await theatre.press(pilot, "enter")
    opened: object = pilot.app.screen
    assert isinstance(opened, ConversationScreen)
    assert f"{HELD}  ✗ fail" in on_screen(pilot)
    assert "1 of 4" in on_screen(pilot)
    for name in (FIRST, SECOND, THIRD):
        await theatre.press(pilot, "right_square_bracket")
        assert name in on_screen(pilot)
    await theatre.press(pilot, "right_square_bracket")
    approve(cells_with(on_screen(pilot), "the last of"))
    await theatre.press(pilot, "left_square_bracket", "q")
    assert isinstance(pilot.app.screen, VerdictsScreen)
    assert under_cursor(pilot) == SECOND

    await theatre.press(pilot, "g", "space", "j", "space", "C")
    title = on_screen(pilot).splitlines()[1]
    assert title.index(HELD) < title.index(SECOND)
    await theatre.press(pilot, "q", "g", "enter", "slash", *"skip", "enter")
    assert "“skip” 1 of 2" in on_screen(pilot)
    await theatre.press(pilot, "right_square_bracket")
    assert FIRST in on_screen(pilot)
    assert "“skip” 1 of 2" in on_screen(pilot)
    await theatre.press(pilot, "q", "G")

    # what comes while one looks waits; who comes back finds it
    await theatre.judge(await theatre.play(2, "pushover"))
    await theatre.tick(pilot, 2)
    await theatre.tick(pilot)
    assert "+1 new, F5" in on_screen(pilot)
    assert len(ids(pilot)) == 4
    await theatre.press(pilot, "f5")
    assert ids(pilot)[2] == "m01_s002_v01__pushover"
    assert under_cursor(pilot) == THIRD
    assert "new, F5" not in on_screen(pilot)
    await pilot.press("1")
    await theatre.judge(await theatre.play(3, "pushover"))
    await theatre.tick(pilot)
    await theatre.press(pilot, "3")
    await theatre.tick(pilot)
    assert "6 judged" in on_screen(pilot)
    assert "new, F5" not in on_screen(pilot)


def test_a_filter_line_finds_what_it_says(theatre: Theatre) -> None:
    """Asked of the store, as the screen does."""
    asyncio.run(some_verdicts(theatre))
    browser = Browser(theatre.watch.reader)
    for line, expected in [
        ("", [HELD, FIRST, SECOND, THIRD]),
        ("nurse", [SECOND]),
        ('"gives in"', [HELD]),
        ("-out:fail,pass", [THIRD]),
        ("metric:m01 who:adult", [HELD, FIRST, SECOND, THIRD]),
        ("who:age=adult -target:push", [FIRST, SECOND, THIRD]),
        ("who:height=adult", []),
        ("type:neg", []),
        ("metric:m0", [HELD, FIRST, SECOND, THIRD]),
        ("metric:=m0", []),
        ('metric:"=m01"', [HELD, FIRST, SECOND, THIRD]),
        ("type:+ sample:0", [HELD, FIRST, SECOND, THIRD]),
        ("s001", [HELD, FIRST]),
        ("id:m*1__push", [HELD]),
        ("judge:evaluator end:turn", [HELD, FIRST, SECOND, THIRD]),
        ("benchmark:stead outcome:", [HELD, FIRST, SECOND, THIRD]),
        ("is:split", []),
        ("is:replayed", []),
        ("100%", []),
        ("target:=push", []),
        ("target:=pushover", [HELD]),
        ('benchmark:"=steadiness" target:"=pushover"', [HELD]),
        ("benchmark:=steadines", []),
    ]:
        found = browser.find(parse(line))
        assert [str(key) for _, key in browser.keys(found.takes)] == expected, line


def test_a_split_and_a_replayed_conversation_are_found_and_none_that_never_ended(
    theatre: Theatre,
) -> None:
    async def write() -> None:
        await theatre.prepare()
        take = await theatre.play()
        await theatre.judge(take, passed=True)
        await theatre.judge(take, passed=False, judge="another")
        agreed = await theatre.play(2)
        await theatre.judge(agreed, passed=False)
        await theatre.judge(agreed, passed=True)
        await theatre.judge(await theatre.play(2, "pushover"))
        await theatre.judge(await theatre.play(2, "pushover", number=1), passed=False)
        await theatre.end(await theatre.begin(3, "pushover"), StopReason.TARGET_FAILED)

    asyncio.run(write())
    browser = Browser(theatre.watch.reader)
    for line, expected in [("is:split", FIRST), ("is:replayed", "m01_s002_v01__pushover")]:
        found = browser.find(parse(line))
        assert [str(key) for _, key in browser.keys(found.takes)] == [expected]
    every = browser.find()
    assert (len(every.takes), every.passed, every.failed) == (3, 2, 1)


def test_what_is_stale_is_marked_counted_and_filtered_until_it_is_judged_again(
    theatre: Theatre,
) -> None:
    async def script(pilot: Pilot) -> None:
        await some_verdicts(theatre)
        take = await theatre.play(2, "pushover")
        await theatre.judge(take)
        stale[take.seq] = "metric definition changed"
        await theatre.open(pilot, "3", "right_curly_bracket")
        await theatre.tick(pilot)
        shown = on_screen(pilot)
        assert "~ 1 stale" in shown
        assert shown.count("  ~ m01_") + shown.count(" ~ m01_") >= 1
        for line, found in (("is:stale", 1), ("-is:stale", 4)):
            await theatre.press(pilot, "F", "ctrl+u", *line, "enter")
            await theatre.tick(pilot)
            assert f"{found} shown of 5 judged" in on_screen(pilot)
        await theatre.press(pilot, "F", "ctrl+u", *"is:stale", "enter")
        approve(cells_with(on_screen(pilot), "stale, metric definition"))
        stale.clear()
        await theatre.judge(take)
        await theatre.tick(pilot, 1.1)
        await theatre.press(pilot, "backslash")
        await theatre.tick(pilot)
        assert "~" not in on_screen(pilot)

    stale: dict[int, str] = {}
    backend = Backend(stale=lambda _benchmark: dict(stale))
    app = CrosswindApp(theatre.watch, backend=backend, moment=theatre.moment)
    theatre.perform(script, (200, 40), app=app)


async def test_a_row_that_is_judged_again_says_so_where_it_stands_and_is_counted_anew(
    theatre: Theatre, pilot: Pilot
) -> None:
    await some_verdicts(theatre)
    again = await theatre.play(2, "pushover")
    await theatre.judge(again, passed=False)
    await theatre.open(pilot, "3", "right_curly_bracket")
    assert "✗ 3 ✓ 1 · 1" in on_screen(pilot)
    passed = on_screen(pilot).count("✓ pass  ")
    await pilot.press("p")
    await theatre.judge(again, passed=True)
    await theatre.judge(await theatre.play(3, "pushover"))
    for _ in range(3):
        await theatre.tick(pilot, 1)
    shown = on_screen(pilot)
    assert "frozen  +4 messages +2 verdicts" in shown
    assert "+1 new, F5" in shown
    assert shown.count("✓ pass  ") == passed
    await theatre.press(pilot, "p")
    await theatre.tick(pilot)
    shown = on_screen(pilot)
    assert "frozen" not in shown
    assert shown.count("✓ pass  ") == passed + 1
    assert "✗ 2 ✓ 2 · 1" in shown

    await filtered(theatre, pilot, "outcome:fail")
    await theatre.press(pilot, "enter")
    assert "✗ 2 ✓ 0 · 0" in on_screen(pilot)
    other = await theatre.play(1, "pushover", number=1)
    await theatre.judge(other, passed=False)
    await theatre.press(pilot, "f5")
    await theatre.judge(other, passed=True)
    await theatre.tick(pilot, 1.1)
    await theatre.tick(pilot)
    # it stays where it is read, although it no longer fits the filter
    assert "✗ 1 ✓ 1 · 0" in on_screen(pilot)
    assert "judged again since" in on_screen(pilot)


async def test_an_empty_store_says_when_verdicts_come_and_the_first_one_comes_by_itself(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    await theatre.open(pilot, "3", "right_curly_bracket")
    assert "No verdict yet" in on_screen(pilot)
    await pilot.press("enter", "space", "M", "S", "down", "G", "right")
    await theatre.judge(await theatre.play())
    await theatre.tick(pilot, 2)
    await theatre.tick(pilot, 2)
    assert ids(pilot) == [FIRST]


@pytest.mark.terminal(200, 50)
async def test_a_row_says_who_says_what_counts_and_where_with_its_text_made_safe(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare(3)
    take = await theatre.play()
    for judge, passed in (("one", False), ("two", False), ("three", True)):
        await theatre.judge(take, passed=passed, judge=judge, justification=f"So says {judge}.")
    take = await theatre.play(2)
    await theatre.judge(take, quotes=(Quote("before you have an answer. (2)", 2),))
    quotes = (Quote("\x1b]52;c;AAAA\x07", None),)
    hostile = "\x1b[2J[red]no[/red]\x9b5n"
    await theatre.judge(await theatre.play(3), quotes=quotes, justification=hostile)
    await theatre.open(pilot, "3", "right_curly_bracket", "G")
    rows = [line for line in on_screen(pilot).splitlines() if "_v01__steadfast" in line]
    assert "✗ fail" in rows[0]
    assert "two +2" in rows[0]
    assert "So says two." in rows[0]
    assert " ◇◆ " in rows[1]
    assert " ◇◇ " in rows[2]
    assert "␛[2J[red]no[/red]" in on_screen(pilot)
    assert not {"\x1b", "\x9b"} & set(on_screen(pilot))


async def test_a_store_that_cannot_be_read_is_told(theatre: Theatre, pilot: Pilot) -> None:
    await some_verdicts(theatre)
    await theatre.tick(pilot)
    hidden = theatre.store.path.with_name("elsewhere.db")
    theatre.store.path.rename(hidden)
    await theatre.open(pilot, "3", "right_curly_bracket")
    assert "does not exist" in on_screen(pilot)
    hidden.rename(theatre.store.path)
    await theatre.press(pilot, "f5")
    assert len(ids(pilot)) == 4


def remembering(theatre: Theatre, memory: Path) -> CrosswindApp:
    return CrosswindApp(theatre.watch, theme="crosswind-dark", memory=memory, moment=theatre.moment)


def test_place_row_order_filter_lines_and_stars_are_there_the_next_time(
    theatre: Theatre, tmp_path: Path
) -> None:
    memory = tmp_path / "home" / "app.json"

    async def first(pilot: Pilot) -> None:
        await some_verdicts(theatre)
        await theatre.open(pilot, "3", "right_curly_bracket")
        await filtered(theatre, pilot, "outcome:fail")
        await theatre.press(pilot, "enter", "backslash", "s", "d", "S", "down", "asterisk")
        await theatre.tick(pilot)
        assert f"★ {under_cursor(pilot)}" in on_screen(pilot)
        cursor.append(under_cursor(pilot))

    async def second(pilot: Pilot) -> None:
        await theatre.open(pilot, "3", "right_curly_bracket")
        assert under_cursor(pilot) == cursor[0]
        assert "by when ▾" in on_screen(pilot)
        await theatre.press(pilot, "F", "up")
        assert "2 shown of 4 judged" in on_screen(pilot)
        await theatre.press(pilot, "escape", "apostrophe")
        approve(cells_with(on_screen(pilot), "Conversations with a"))
        await theatre.press(pilot, "enter")
        assert isinstance(pilot.app.screen, ConversationScreen)
        starred = remembering(theatre, memory).preferences.views.stars[0]
        assert str(starred.key) in on_screen(pilot)
        await pilot.press("asterisk")
        assert not remembering(theatre, memory).preferences.views.stars

    cursor: list[str] = []
    theatre.perform(first, app=remembering(theatre, memory))
    assert remembering(theatre, memory).preferences.views.place_at_work == "Verdicts"
    assert remembering(theatre, memory).preferences.views.place is None
    theatre.link.state = EngineState.STOPPED
    theatre.perform(second, app=remembering(theatre, memory))
    assert remembering(theatre, memory).preferences.views.place == "Verdicts"


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"lines": 3}', '{"stars": [["a", "b"]]}', "[" * 10**5]
)
def test_damaged_views_count_as_none_and_that_is_said(tmp_path: Path, text: str) -> None:
    path = views_file(tmp_path / "app.json", tmp_path)
    path.parent.mkdir()
    path.write_text(text, "utf-8")
    views, notice = read_views(path)
    assert views == Views()
    assert notice == f"{path} cannot be read and is left aside: filters and stars are gone"


async def test_new_rows_leave_what_is_read_of_a_verdict_where_it_is(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare(3)
    await theatre.judge(await theatre.play(1), justification="It says why. " * 200)
    await theatre.open(pilot, "3", "right_curly_bracket")
    await theatre.press(pilot, "tab", "pagedown")
    detail = pilot.app.screen.query_one("#detail", TranscriptView)
    top = detail.top
    assert top > 0
    await theatre.judge(await theatre.play(2))
    await theatre.tick(pilot, 1.1)
    await theatre.tick(pilot)
    await theatre.press(pilot, "f5")
    assert "2 judged" in on_screen(pilot)
    assert detail.top == top


@pytest.mark.terminal(20, 5)
async def test_in_a_tiny_terminal_no_two_ids_look_alike(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare(3)
    for number in (1, 2, 3):
        for target in ("steadfast", "pushover"):
            await theatre.judge(await theatre.play(number, target), passed=number > 1)
    await theatre.open(pilot, "3", "right_curly_bracket")
    shown = table(pilot)
    lines = ["".join(piece.text for piece in shown.row(place)) for place in range(6)]
    assert len(set(lines)) == 6
    assert lines[1].strip() == "✗ m1s1v1 ste…ast"
