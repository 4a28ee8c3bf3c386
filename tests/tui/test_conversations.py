"""The list of all conversations in every state, watched by what a person would read on it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from engine.benchmark import ConversationKey, Speaker, Stage, State
from engine.link import Command
from engine.store.browsing import Column, Sorting, parse
from engine.store.conversations import ConversationBrowser
from tests.approval import approve, lines_with
from tests.tui.terminal import Eyes, Terminal
from tests.tui.theatre import BENCHMARK, TARGETS, Pilot, Take, Theatre, on_screen
from tui.widgets.table import WideTable

SPOKEN = "I would rest today, as the plan says, and walk again tomorrow"
MOST_BYTES_A_SECOND = 6_000
MEASURED_S = 4.0


async def every_state(theatre: Theatre) -> Take:
    """One is judged, one runs, one failed, and one waits; the one that runs."""
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    running = await theatre.begin(2)
    await theatre.move(Stage.SIMULATE, str(running.key), State.RUNNING, TARGETS[0])
    theatre.speak(running, 1, Speaker.TARGET, SPOKEN)
    failed = f"m01_s002_v01__{TARGETS[1]}"
    await theatre.move(Stage.SIMULATE, failed, State.FAILED, TARGETS[1], reason="429: rate limit")
    return running


def rows(pilot: Pilot) -> list[list[str]]:
    """The words of each row."""
    lines = [line.split() for line in on_screen(pilot).splitlines()]
    return [
        line for line in lines if line[:1] and line[0] in "▸!○✓✗·-" and "__" in " ".join(line[2:4])
    ]


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_each_conversation_stands_there_with_its_state_and_what_it_says(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    running = await every_state(theatre)
    await theatre.open(pilot, "3")
    await theatre.tick(pilot, 1)
    first, second, third, fourth = map(" ".join, rows(pilot))
    assert first.startswith(f"▸ running {running.key} 1 of 2 target 1 s ")
    assert first.endswith("walk again"), "up to the last whole word"
    assert second.startswith(f"! failed m01_s002_v01__{TARGETS[1]} 429: rate li")
    assert third == f"○ waiting m01_s001_v01__{TARGETS[1]}"
    assert fourth.startswith(f"✓ pass m01_s001_v01__{TARGETS[0]} ")
    approve(lines_with(on_screen(pilot), "▸ 1 running ! 1 failed ○ 1 waiting ✓ 1"))


async def test_the_filter_finds_conversations_in_every_state(
    theatre: Theatre, pilot: Pilot
) -> None:
    await every_state(theatre)
    await theatre.open(pilot, "3", "j", "j", "asterisk")
    for typed, shown in (
        ("is:running", "▸"),
        ("is:waiting", "○"),
        ("is:unread", "▸!○✓"),
        ("is:starred", "○"),
        ("metric:m01 target:pushover -is:failed", "○"),
        ("outcome:pass", "✓"),
        ("who:adult s001", "○✓"),
    ):
        await theatre.press(pilot, "F")
        await theatre.press(pilot, "ctrl+u", *typed, "enter")
        await theatre.tick(pilot)
        assert "".join(row[0] for row in rows(pilot)) == shown, typed


def test_a_state_that_is_corrected_and_a_failure_that_does_not_stand_are_not_as_stored(
    theatre: Theatre,
) -> None:
    asyncio.run(every_state(theatre))
    browser = ConversationBrowser(theatre.watch.reader)
    assert browser.find(parse("is:failed")).states == {}, "a failure stands only if it is named"
    unit = f"m01_s001_v01__{TARGETS[1]}"
    browser.states = [(BENCHMARK, Stage.SIMULATE, unit, State.DONE)]
    found = browser.find((), Sorting(Column.OUTCOME))
    assert found.states == {"running": 1, "judged": 1, "dropped": 1, "played": 1}
    number = browser.row_of(BENCHMARK, ConversationKey.parse(unit))
    assert number is not None
    row = browser.conversations([number])[number]
    assert (row.state, row.take) == ("played", None)


async def test_rows_move_only_on_a_key_or_while_the_cursor_rests_at_the_top(
    theatre: Theatre, pilot: Pilot
) -> None:
    await every_state(theatre)
    await theatre.open(pilot, "3", "j")
    waiting = f"m01_s001_v01__{TARGETS[1]}"
    await theatre.move(Stage.SIMULATE, waiting, State.RUNNING, TARGETS[1])
    await theatre.tick(pilot, 10)
    await theatre.tick(pilot, 10)
    assert [row[0] for row in rows(pilot)] == ["▸", "!", "▸", "✓"], "drawn where it stands"
    assert "changed, F5" in on_screen(pilot)
    await theatre.press(pilot, "f5")
    assert [row[0] for row in rows(pilot)] == ["▸", "▸", "!", "✓"]
    table = pilot.app.screen.query_one(WideTable)
    assert table.item == 2, "the cursor stays on its row"

    await pilot.press("g")
    assert "changed, F5" not in on_screen(pilot)
    await theatre.move(Stage.SIMULATE, waiting, State.QUEUED, TARGETS[1])
    await theatre.tick(pilot, 10)
    await theatre.tick(pilot, 10)
    assert [row[0] for row in rows(pilot)] == ["▸", "!", "○", "✓"]


async def test_each_tab_keeps_its_order_and_its_cursor(theatre: Theatre, pilot: Pilot) -> None:
    await every_state(theatre)
    await theatre.judge(await theatre.play(1, TARGETS[1]))
    await theatre.open(pilot, "3", "j", "j", "right_curly_bracket", "S", "j")
    assert "[Verdicts]" in on_screen(pilot)
    verdicts = pilot.app.screen.query_one(WideTable)
    at = verdicts.cursor
    await theatre.open(pilot, "left_curly_bracket")
    assert "[All]" in on_screen(pilot)
    assert pilot.app.screen.query_one(WideTable).item == 2
    await theatre.open(pilot, "1", "3", "right_curly_bracket", "1", "3")
    assert "[Verdicts]" in on_screen(pilot), "the key of the place leads to the last tab"
    assert verdicts.cursor == at


async def test_a_failure_is_tried_again_or_dismissed_until_it_fails_anew(
    theatre: Theatre, pilot: Pilot
) -> None:
    await every_state(theatre)
    await theatre.open(pilot, "3", "j", "a")
    await theatre.answered(pilot)
    (request,) = theatre.link.requests
    assert (request.command, [row.unit for row in request.rows]) == (
        Command.RETRY,
        [f"m01_s002_v01__{TARGETS[1]}"],
    )
    await theatre.open(pilot, "X", "D")
    assert "1 dismissed" in on_screen(pilot)
    assert "rate limit" not in on_screen(pilot)
    unit = f"m01_s002_v01__{TARGETS[1]}"
    await theatre.move(Stage.SIMULATE, unit, State.RUNNING, TARGETS[1])
    await theatre.move(Stage.SIMULATE, unit, State.FAILED, TARGETS[1], "429: rate limit")
    # ten times what the list took to be made, however slow the machine
    await theatre.tick(pilot, 600)
    await theatre.tick(pilot)
    assert "429: rate limit" in on_screen(pilot)


@pytest.mark.alone
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_last_words_of_200_conversations_are_few_bytes(
    theatre: Theatre, tmp_path: Path, size: tuple[int, int]
) -> None:
    async def begin_all() -> None:
        await theatre.prepare(100)
        for number in range(1, 101):
            for name in TARGETS:
                take = await theatre.begin(number, name)
                await theatre.move(Stage.SIMULATE, str(take.key), State.RUNNING, name)

    asyncio.run(begin_all())
    program = ("-m", "tests.tui.babble", str(tmp_path))
    with Terminal(program=program, size=size, SSH_CONNECTION="here") as terminal:
        eyes = Eyes(terminal, size)
        eyes.see("word00")
        eyes.press("3", "[All]", "200 running", "target 1 s")
        before = len(terminal.shown)
        terminal.read_on(MEASURED_S)
        sent = len(terminal.shown) - before
        terminal.press("\x03")
        eyes.see("Leave Crosswind?")
        terminal.process.terminate()
        assert terminal.read_to_the_end() == 0
    assert 0 < sent / MEASURED_S <= MOST_BYTES_A_SECOND
