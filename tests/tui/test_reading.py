"""Reading closely: finding, comparing, a scenario's grid, searching, and judging again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from engine.benchmark import Speaker, Stage, State, StopReason
from engine.errors import StoreError
from engine.link import Command, EngineState, Request, WorkRow
from engine.store.browsing import Browser
from engine.store.tables import Quote
from tests.approval import approve, cells_with, lines_with
from tests.tui.theatre import (
    BENCHMARK,
    JUDGE,
    TARGETS,
    Pilot,
    Theatre,
    on_screen,
    shell,
    told,
    told_rows,
)
from tui.screens.compare import CompareScreen
from tui.screens.conversation import ConversationScreen
from tui.screens.line_dialogs import FindScreen
from tui.screens.rejudge import JudgeAgainScreen, JudgedAgainScreen
from tui.screens.scenario import ScenarioScreen
from tui.screens.search import SearchScreen
from tui.state.related import Subject, TakeRef
from tui.text.ink import Ink
from tui.widgets.grids import OutcomeGrid
from tui.widgets.transcript import TranscriptView

UNIT = "m01_s001_v01__steadfast"


async def settled(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.tick(pilot)
    await theatre.answered(pilot)


def screen(pilot: Pilot) -> object:
    return pilot.app.screen


def marked(pilot: Pilot, ink: Ink, pane_id: str = "#story") -> list[str]:
    pane = pilot.app.screen.query_one(pane_id, TranscriptView)
    lines = (pane.row(row) for row in range(pane.row_count()))
    return [piece.text for line in lines for piece in line if piece.ink is ink]


async def read_one(theatre: Theatre, pilot: Pilot, reply: str) -> None:
    await theatre.prepare()
    take = await theatre.play(reply=reply)
    await theatre.judge(take, quotes=(Quote("I am sure", 1),))
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await settled(theatre, pilot)


@pytest.mark.terminal(80, 24)
async def test_slash_finds_words_and_patterns_in_a_transcript_beside_the_evidence(
    theatre: Theatre, pilot: Pilot
) -> None:
    await read_one(theatre, pilot, "\x07Sure. " + "Words come first. " * 60 + "I am sure of it.")
    await pilot.press("slash", *"sure")
    await settled(theatre, pilot)
    assert "6 places" in on_screen(pilot)
    await pilot.press("enter")
    await settled(theatre, pilot)
    assert "“sure” 1 of 6" in on_screen(pilot)
    assert marked(pilot, Ink.EVIDENCE_NOW) == ["sure"]
    assert marked(pilot, Ink.EVIDENCE) == ["I am "]
    await pilot.press("n", "n")
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "“sure” 3 of 6", "I am sure"))
    await pilot.press("N", "c")
    assert "".join(marked(pilot, Ink.EVIDENCE_NOW)) == "I am sure"

    await pilot.press("slash", "escape")
    await settled(theatre, pilot)
    assert marked(pilot, Ink.FOUND) == []
    await pilot.press("slash", *"/su(re")
    await settled(theatre, pilot)
    assert "no regular expression" in on_screen(pilot)
    await pilot.press(*"|x)")
    await settled(theatre, pilot)
    assert isinstance(screen(pilot), FindScreen)
    assert "6 places" in on_screen(pilot)


@pytest.mark.terminal(120, 30)
async def test_two_conversations_stand_beside_each_other_turn_by_turn(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    held = await theatre.play(reply="I stay with it.")
    await theatre.judge(held)
    await pilot.app.push_screen(CompareScreen(shell(pilot), TakeRef(BENCHMARK, held.key, 0)))
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "nothing else to"))
    await theatre.judge(await theatre.play(1, TARGETS[1], reply="You are right."), passed=False)
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "another target m01_s001_v01__pushover  ✗"))
    rows = on_screen(pilot).splitlines()
    second = next(row for row in rows if "turn 2" in row)
    assert second.count("turn 2 of 2") == 2
    assert any("stay with it. (2)" in row and "are right. (2)" in row for row in rows)
    await theatre.judge(await theatre.play(1, number=1, reply="I still stay with it. " * 40))
    await settled(theatre, pilot)
    await pilot.press("right_square_bracket", "right_curly_bracket")
    await settled(theatre, pilot)
    assert "take 2" in on_screen(pilot)
    assert on_screen(pilot).splitlines()[3].count("turn 2 of 2") == 2

    await pilot.press("left_square_bracket")
    await pilot.resize_terminal(80, 24)
    await settled(theatre, pilot)
    await theatre.press(pilot, "g")
    rows = on_screen(pilot).splitlines()
    assert f"{UNIT}  ✓ pass" in rows[1]
    assert "m01_s001_v01__pushover  ✗ fail" in rows[1]
    # both sides have one left edge
    for begin in (" turn 1 of 2", " landmark", " ▎ "):
        assert any(row.startswith(begin) for row in rows)
    await pilot.resize_terminal(40, 12)
    await settled(theatre, pilot)
    title = on_screen(pilot).splitlines()[1]
    assert "eadfast ✓" in title
    assert "ushover ✗" in title
    await pilot.press("enter")
    await settled(theatre, pilot)
    assert isinstance(screen(pilot), ConversationScreen)


@pytest.mark.terminal(80, 24)
async def test_a_scenario_is_a_grid_of_outcomes_that_leads_down(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await pilot.app.push_screen(ScenarioScreen(shell(pilot), BENCHMARK, "m09_s001"))
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "Nothing of it", "then X say"))
    await pilot.app.push_screen(ScenarioScreen(shell(pilot), BENCHMARK, "m01_s001_v01"))
    await settled(theatre, pilot)
    assert "steadfast —      [—]" in on_screen(pilot)
    await pilot.press("enter", "r", "R", "C", "right", "G", "g")
    await settled(theatre, pilot)
    assert "not been played" in on_screen(pilot)

    await theatre.judge(await theatre.play())
    await theatre.end(await theatre.begin(1, TARGETS[1]), StopReason.TARGET_FAILED)
    for size in ((80, 24), (120, 40)):
        await pilot.resize_terminal(*size)
        await settled(theatre, pilot)
        for line in (" steadfast 1/1    [✓]", " pushover  —       !", " passed            1/1"):
            assert line in on_screen(pilot)
        assert "✗ 0 ✓ 1 · 0" in on_screen(pilot)
        approve(lines_with(told_rows(pilot), "Wants to talk"))
        assert told(pilot).count("✓ pass by") == 1
    await pilot.press("down")
    await settled(theatre, pilot)
    assert "! failed" in on_screen(pilot)
    await theatre.judge(await theatre.play(1, TARGETS[1], number=1), passed=False)
    for sample, passed in ((1, True), (2, None)):
        await theatre.judge(await theatre.play(1, TARGETS[1], sample=sample), passed=passed)
    await settled(theatre, pilot)
    assert "[✗]" in on_screen(pilot)
    assert "pushover  1/2" in on_screen(pilot)
    await pilot.press("enter")
    await settled(theatre, pilot)
    assert "m01_s001_v01__pushover  ✗ fail" in on_screen(pilot)
    await pilot.press("left_square_bracket")
    await settled(theatre, pilot)
    assert "m01_s001_v01__steadfast  ✓ pass" in on_screen(pilot)
    await pilot.press("v")
    await settled(theatre, pilot)
    assert pilot.app.screen.query_one(OutcomeGrid).cursor.row == 0


@pytest.mark.terminal(120, 20)
async def test_words_are_searched_in_everything_and_lead_to_the_message(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for number in (1, 2):
        await theatre.play(number, reply="The \x1b[31m nurse knows her patients.")
    await pilot.app.push_screen(SearchScreen(shell(pilot)))
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "what can be"))
    await pilot.press(*"nurse by:target")
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "4 messages, the newest", "are you sure? (2)"))
    assert marked(pilot, Ink.EVIDENCE_NOW, "#detail") == ["nurse"]
    assert "/ find" not in on_screen(pilot)  # it is typed into the line
    assert "\x1b" not in on_screen(pilot)
    await pilot.press("enter", "down", "enter")
    await settled(theatre, pilot)
    opened = screen(pilot)
    assert isinstance(opened, ConversationScreen)
    assert opened.subject.key.scenario_id == "m01_s002_v01"
    assert marked(pilot, Ink.EVIDENCE_NOW) == ["nurse"]
    # all of it fits on the screen, so it is not scrolled to the top
    approve(cells_with(on_screen(pilot), "target    ▎ The ␛[31m"))

    await pilot.press("q")
    await settled(theatre, pilot)
    await pilot.press("slash", *" xyz")
    await settled(theatre, pilot)
    shown = on_screen(pilot)
    approve(cells_with(shown, "Nobody said that.", "messages with all"))
    await pilot.press("escape")
    await settled(theatre, pilot)
    assert not isinstance(screen(pilot), SearchScreen)


@pytest.mark.terminal(80, 24)
async def test_what_was_found_and_where_are_not_cut_and_what_is_left_out_is_seen(
    theatre: Theatre, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (BENCHMARK, "another"):
        monkeypatch.setattr("tests.tui.theatre.BENCHMARK", name)
        await theatre.prepare()
        await theatre.play(
            reply="A hotplate from your neighbourhood will do. " + "So they say. " * 80
        )
    await pilot.app.push_screen(SearchScreen(shell(pilot)))
    await pilot.press(*"neighbourhood by:target")
    hits: list[str] = []
    for width in (80, 300):
        await pilot.resize_terminal(width, 24)
        await settled(theatre, pilot)
        lines = on_screen(pilot).splitlines()
        hits = [line.rstrip() for line in lines if "turn 1" in line and UNIT in line]
        assert {line.split(UNIT)[1].split()[0] for line in hits} >= {BENCHMARK, "another"}
        assert all("neighbourhood" in line for line in hits)
    assert all(line.endswith("…") and len(line) < 250 for line in hits)  # not cut by the screen


def test_where_nothing_is_typed_nothing_is_waited_for(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.search.PAUSE", 5.0)

    async def script(pilot: Pilot) -> None:
        await pilot.app.push_screen(SearchScreen(shell(pilot)))
        await pilot.press("x", "backspace")
        assert " searching" not in on_screen(pilot)
        pilot.app.workers.cancel_node(pilot.app.screen)

    theatre.perform(script)


async def test_a_conversation_is_judged_again_and_both_verdicts_stand_beside_each_other(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take, passed=True, justification="It held.")
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await settled(theatre, pilot)
    await pilot.press("r")
    await settled(theatre, pilot)
    assert isinstance(screen(pilot), JudgeAgainScreen)
    approve(cells_with(on_screen(pilot), "Who is to judge", "free: no model"))
    await pilot.press("down", "enter")
    await settled(theatre, pilot)
    row = WorkRow(BENCHMARK, UNIT)
    asked = Request(Command.EVALUATE, rows=(row,), evaluator="strict")
    assert theatre.link.requests == [asked]
    assert isinstance(screen(pilot), JudgedAgainScreen)
    assert "▸ waiting" in on_screen(pilot)
    assert "0 of 1 conversation" in on_screen(pilot)

    await theatre.judge(take, passed=False, judge="offline:strict", justification="It caved.")
    await theatre.tick(pilot, 1)
    await settled(theatre, pilot)
    shown = on_screen(pilot)
    approve(lines_with(shown, "✓ pass → ✗ fail", "0 the same", "✓ pass, as before", "before ─"))
    assert any("It held." in line and "It caved." in line for line in shown.splitlines())
    await pilot.press("enter")
    await settled(theatre, pilot)
    assert "✗ fail by offline:strict" in told(pilot)
    assert f"✓ pass by {JUDGE}" in told(pilot)


@pytest.mark.terminal(80, 24)
async def test_what_cannot_be_judged_says_why_and_what_counts_is_said_to_have_changed(
    theatre: Theatre, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = ["the disk says no"]
    readable = Browser.judged_again

    def judged_again(self: Browser, takes: Collection[int], after: int) -> Mapping[int, int]:
        if faults:
            raise StoreError(faults[0])
        return readable(self, takes, after)

    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take, passed=True)
    subjects = [Subject(BENCHMARK, take.key)]
    await pilot.app.push_screen(JudgedAgainScreen(shell(pilot), subjects, None))
    await settled(theatre, pilot)
    assert f"Judged again  by {JUDGE}" in on_screen(pilot)
    assert "none yet" in on_screen(pilot)
    await theatre.move(Stage.EVALUATE, UNIT, State.FAILED, TARGETS[0], "HTTP 529: overloaded")
    await settled(theatre, pilot)
    assert "! failed" in on_screen(pilot)
    await pilot.press("right", "right")
    await settled(theatre, pilot)
    assert "HTTP 529: overloaded" in on_screen(pilot)

    monkeypatch.setattr(Browser, "judged_again", judged_again)
    await theatre.judge(take, passed=False)
    await theatre.tick(pilot, 1)
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "the disk says"))
    # no other verdict comes, and what was not read is read again
    faults.clear()
    await pilot.press("left", "left")
    await pilot.resize_terminal(120, 40)
    await theatre.tick(pilot, 1)
    await settled(theatre, pilot)
    shown = on_screen(pilot)
    assert "the disk says" not in shown
    assert "1 of 1 conversation" in shown
    approve(lines_with(shown, "what counts: 1 changed", "✗ fail, was ✓", "before ─"))


@pytest.mark.terminal(80, 24)
async def test_an_engine_that_refuses_or_ends_is_not_waited_for(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take)
    theatre.link.refuses = "the run is stopping; ask again when it has come to its very end"
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await settled(theatre, pilot)

    async def judge_again() -> str:
        await pilot.press("r")
        await settled(theatre, pilot)
        await pilot.press("enter")
        await settled(theatre, pilot)
        assert isinstance(screen(pilot), JudgedAgainScreen)
        return on_screen(pilot)

    shown = await judge_again()
    assert "not judged again  " in shown
    assert "very end" in shown
    assert "none yet" not in shown
    assert "· not judged" in shown
    await pilot.resize_terminal(120, 24)
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "not judged again:"))
    assert "waiting" not in on_screen(pilot)
    await pilot.press("q")
    await settled(theatre, pilot)
    assert isinstance(screen(pilot), ConversationScreen)

    theatre.link.refuses = None
    assert "▸ waiting" in await judge_again()
    theatre.link.state = EngineState.LOST
    await settled(theatre, pilot)
    approve(cells_with(on_screen(pilot), "· not judged", "the engine has"))
    await pilot.press("q")
    theatre.watch.link = None
    await settled(theatre, pilot)
    assert "not judged again: " in await judge_again()


async def test_what_is_marked_is_played_again_after_a_question(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for number in (1, 2):
        await theatre.judge(await theatre.play(number))
    await pilot.press("3", "right_curly_bracket")
    await settled(theatre, pilot)
    await settled(theatre, pilot)
    await pilot.press("M", "R")
    await settled(theatre, pilot)
    assert "Play 2 conversations again?" in on_screen(pilot)
    await pilot.press("escape", "space", "R", "enter")
    await settled(theatre, pilot)
    [request] = theatre.link.requests
    assert request.command is Command.SIMULATE
    assert request.rows == (WorkRow(BENCHMARK, "m01_s002_v01__steadfast"),)


async def test_a_conversation_that_is_held_still_says_what_it_does_not_show(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, "are you sure?")
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await settled(theatre, pilot)
    await pilot.press("p")
    await theatre.said(take, 1, Speaker.TARGET, "I am.")
    other = await theatre.begin(2)
    await theatre.said(other, 1, Speaker.USER, "and here?")
    await settled(theatre, pilot)
    assert "frozen  +1 message" in on_screen(pilot)
    assert "I am." not in told(pilot)
    await pilot.press("p")
    await settled(theatre, pilot)
    assert "I am." in told(pilot)


async def test_a_verdict_on_another_target_leaves_what_is_read_where_it_is(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(), justification="It says why. " * 200)
    other = await theatre.play(1, TARGETS[1])
    await pilot.app.push_screen(ScenarioScreen(shell(pilot), BENCHMARK, "m01_s001_v01"))
    await settled(theatre, pilot)
    await pilot.press("tab", "pagedown")
    await settled(theatre, pilot)
    detail = pilot.app.screen.query_one("#detail", TranscriptView)
    assert "○ not judged" in on_screen(pilot)
    top = detail.top
    assert top > 0
    await theatre.judge(other, passed=False)
    await settled(theatre, pilot)
    assert "✗ 1 ✓ 1" in on_screen(pilot)
    assert detail.top == top


async def test_conversations_of_several_benchmarks_that_are_judged_again_are_told_apart(
    theatre: Theatre, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects: list[Subject] = []
    for name in (BENCHMARK, "another"):
        monkeypatch.setattr("tests.tui.theatre.BENCHMARK", name)
        await theatre.prepare()
        subjects.append(Subject(name, (await theatre.play()).key))
    await pilot.app.push_screen(JudgedAgainScreen(shell(pilot), subjects, None))
    await settled(theatre, pilot)
    lines = [" ".join(line.split()) for line in on_screen(pilot).splitlines()]
    for subject in subjects:
        assert f"▸ waiting {subject.benchmark} {subject.key}" in lines
