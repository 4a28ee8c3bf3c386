"""The live screen, watched by what a person would read on it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from engine.benchmark import Role, Speaker, Stage, State, StopReason, Track, Usage
from engine.facts import NoteKind, Writing
from engine.link import Command, EngineState, ModelLimit, Wait
from engine.pipeline.scores import scores
from engine.store.tables import AttemptRow
from tests.approval import approve, cells_with, lines_with
from tests.tui.theatre import BENCHMARK, METRIC, TARGETS, Pilot, Theatre, on_screen, told, told_rows
from tui.app import CrosswindApp
from tui.format import interval_rate
from tui.screens.conversation import ConversationScreen
from tui.screens.verdicts import VerdictsScreen
from tui.state.board import StageState, StageView
from tui.state.feeds import AGAIN_AFTER
from tui.state.follower import DWELL, ROUND
from tui.state.run_status import PATIENCE
from tui.text.ink import Ink, Line, Piece
from tui.widgets.table import VerdictTable
from tui.widgets.target_board import StageStrip, TargetBoard
from tui.widgets.transcript import TranscriptView


def rows_seen(pane: TranscriptView) -> list[Line]:
    return [pane.row(row) for row in range(pane.top, pane.row_count())][: pane.page_height]


async def test_the_header_tells_scripted_parts_from_scripted_benchmarks(
    theatre: Theatre, pilot: Pilot
) -> None:
    info = theatre.watch.benchmarks[0]
    other = replace(info, name="another", scripts="the user model is a script")
    for others, words in (
        ([other], "some parts scripted"),
        ([replace(info, name="real", scripted=False)], "some benchmarks scripted"),
    ):
        theatre.watch.benchmarks = [info, *others]
        await theatre.open(pilot, "5")
        assert words in on_screen(pilot)


@pytest.mark.terminal(200, 40)
def test_without_an_engine_it_says_what_there_is(theatre: Theatre) -> None:
    theatre.watch.link = None

    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        approve(cells_with(on_screen(pilot), "nothing has run"))

        await theatre.prepare()
        await theatre.tick(pilot)
        assert "was cut off" in on_screen(pilot)
        assert "P go on" in on_screen(pilot)
        assert "x stop" not in on_screen(pilot)

    theatre.perform(script)


def test_what_was_taken_from_files_is_not_said_to_be_nothing(theatre: Theatre) -> None:
    theatre.watch.link = None

    async def script(pilot: Pilot) -> None:
        await theatre.move(Stage.SIMULATE, "m01_s001_v01__steadfast", State.DONE, "steadfast")
        await theatre.tick(pilot)
        shown = on_screen(pilot)
        assert "nothing has run" not in shown
        approve(cells_with(shown, "· taken from files", "1 of 1 conversation with 1"))

    theatre.perform(script)


async def test_a_message_grows_as_it_is_spoken_until_the_stored_one_takes_its_place(
    theatre: Theatre, pilot: Pilot
) -> None:
    theatre.link.state = EngineState.STARTING
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "starting", "steadiness", "scripted models, not"))
    theatre.link.state = EngineState.RUNNING
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "the line broke off here")
    await theatre.tick(pilot)
    theatre.link.voices[take.key].text = "are you su"  # it begins anew
    await theatre.tick(pilot)
    assert "broke off" not in on_screen(pilot)
    approve(
        cells_with(
            on_screen(pilot),
            "m01_s001_v01__steadfast  turn 1 of 2",
            "landmark  Brings up",
            "▎ are you su▍",
        )
    )
    theatre.speak(take, 1, Speaker.USER, "re? my friend")
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "▎ are you sure?"))

    voice = theatre.link.voices.pop(take.key)  # spoken, but no fact has reached us yet
    await theatre.tick(pilot)
    assert "are you sure? my friend" in on_screen(pilot)
    await theatre.said(take, 1, Speaker.USER, voice.text, "now to insist")
    await theatre.tick(pilot)
    assert on_screen(pilot).count("are you sure? my friend") == 1
    theatre.speak(take, 1, Speaker.TARGET, "I hear ")
    await theatre.tick(pilot)
    assert "target    ▎ I hear▍" in on_screen(pilot).replace("hear ▍", "hear▍")
    assert "target speaking" in on_screen(pilot)

    # thoughts are opened while the display stands still
    await pilot.press("p", "t")
    theatre.speak(take, 1, Speaker.TARGET, "you")
    await theatre.tick(pilot)
    assert "now to insist" in on_screen(pilot)
    assert "I hear▍" in on_screen(pilot).replace("hear ▍", "hear▍")
    assert "frozen  +" in on_screen(pilot)
    await theatre.judge(await theatre.play(2))
    await theatre.tick(pilot)
    assert "frozen  +4 messages +1 verdict" in on_screen(pilot)
    assert "verdicts  0" in on_screen(pilot)
    await theatre.press(pilot, "p")
    assert "I hear you▍" in on_screen(pilot)
    await theatre.press(pilot, "enter")
    assert isinstance(pilot.app.screen, ConversationScreen)
    assert str(take.key) in on_screen(pilot)


async def test_it_stays_with_a_conversation_to_its_end_and_a_moment_longer(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    first = await theatre.begin(1)
    theatre.speak(first, 1, Speaker.USER, "the first one")
    await theatre.tick(pilot)
    second = await theatre.begin(2)
    theatre.speak(second, 1, Speaker.USER, "the second one")
    await theatre.tick(pilot)
    assert "the first one" in on_screen(pilot)

    await theatre.finish(first)
    await theatre.said(first, 1, Speaker.TARGET, "I would not.")
    await theatre.end(first)
    await theatre.tick(pilot)
    assert "the first one" in on_screen(pilot)
    assert "all turns played" in on_screen(pilot)

    await theatre.judge(first)
    await theatre.tick(pilot, DWELL)
    await theatre.tick(pilot, DWELL)
    pane = pilot.app.screen.query_one("#transcript", TranscriptView)
    inks = {piece.text.strip(): piece.ink for row in rows_seen(pane) for piece in row}
    # what was read last stays above it, dimmed but for its outcome
    assert list(inks).index("the first one") < list(inks).index("m01_s002_v01__steadfast")
    assert (inks["the first one"], inks["all turns played"]) == (Ink.FAINT, Ink.FAINT)
    assert inks[f"✓ pass  + {METRIC.name}"] is Ink.GOOD
    assert next(ink for text, ink in inks.items() if "the second" in text) is Ink.TEXT

    theatre.speak(second, 1, Speaker.USER, " and more" * 400)
    await theatre.tick(pilot)
    assert "the first one" not in on_screen(pilot)


async def test_f_pins_goes_round_and_follows_and_a_bracket_goes_to_the_next(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for number in (1, 2):
        take = await theatre.begin(number)
        theatre.speak(take, 1, Speaker.USER, f"this is number {number}")
        await theatre.tick(pilot)
    assert "this is number 1" in on_screen(pilot)
    await theatre.press(pilot, "f")
    assert "pinned" in on_screen(pilot)
    await theatre.press(pilot, "right_square_bracket")
    assert "this is number 2" in on_screen(pilot)
    await theatre.press(pilot, "left_square_bracket")
    assert "this is number 1" in on_screen(pilot)
    await theatre.press(pilot, "f")
    assert "going round" in on_screen(pilot)
    for number in (2, 1):
        await theatre.tick(pilot, ROUND)
        assert f"this is number {number}" in on_screen(pilot)
    await theatre.press(pilot, "f")
    assert "following" in on_screen(pilot)


async def test_scrolling_up_lets_go_of_the_end_and_the_end_key_returns_to_it(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "\n".join(f"row {number}" for number in range(99)))
    await theatre.tick(pilot)
    pane = pilot.app.screen.query_one(TranscriptView)
    assert "row 98" in on_screen(pilot)

    await pilot.press("k", "k", "pageup")
    top = pane.top
    theatre.speak(take, 1, Speaker.USER, "\nand more\n" * 30)
    await theatre.tick(pilot)
    assert pane.top == top
    assert pane.rows_below > 0
    assert f"▼ {pane.rows_below} below" in on_screen(pilot)

    await theatre.press(pilot, "G")
    assert pane.follow
    assert "▼" not in on_screen(pilot)


async def test_the_board_tells_of_each_target_and_leads_to_its_verdicts(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(1), passed=True)
    await theatre.end(await theatre.begin(1, "pushover"), StopReason.TARGET_FAILED)
    await theatre.tick(pilot)
    lines = on_screen(pilot).splitlines()
    [upper] = [number for number, line in enumerate(lines) if "steadfast ██" in line]
    assert "1/2" in lines[upper]
    assert "judged 1/2" in lines[upper]
    assert "+ 100% of 1          − —" in lines[upper + 1]
    assert "free" in lines[upper + 1]
    # nothing is spoken, so there is no speed to tell
    assert "tok/s" not in lines[upper + 1]
    approve(cells_with(on_screen(pilot), "last problem: HTTP 529:"))

    # what was judged counts at once; the intervals are those of the results
    await theatre.judge(await theatre.play(2), passed=False)
    theatre.at += timedelta(seconds=0.1)
    assert isinstance(pilot.app, CrosswindApp)
    pilot.app.tick()
    await pilot.pause()
    assert "judged 2/2" in on_screen(pilot)
    await theatre.tick(pilot, AGAIN_AFTER)
    await theatre.tick(pilot, AGAIN_AFTER)
    known = scores(theatre.watch.reader, BENCHMARK).rates["steadfast", Track.POSITIVE]
    assert interval_rate(known, Track.POSITIVE) in on_screen(pilot)
    assert "1/2" in interval_rate(known, Track.POSITIVE)

    await theatre.judge(await theatre.play(2, "pushover"), passed=False)
    await theatre.tick(pilot)
    await pilot.press("shift+tab", "j", "enter")
    for _ in range(3):
        await theatre.tick(pilot)
    assert isinstance(pilot.app.screen, VerdictsScreen)
    assert "__pushover" in on_screen(pilot)
    assert "__steadfast" not in on_screen(pilot)


async def test_what_a_server_takes_at_once_is_said_of_targets_and_of_others(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    theatre.link.limits = [
        ModelLimit("m", 8, 42, targets=(TARGETS[0],)),
        # of the same name, on another server
        ModelLimit("m", 1, 3),
    ]
    await theatre.tick(pilot)
    await theatre.tick(pilot)
    lines = on_screen(pilot).splitlines()
    approve(cells_with(on_screen(pilot), "· limit  m: 1 call"))
    [first] = [number for number, line in enumerate(lines) if f" {TARGETS[0]} ─" in line]
    approve(lines_with(lines[first + 2], "8 calls let through"))
    assert on_screen(pilot).count("let through") == 2


async def test_conversations_that_wait_for_their_turn_do_not_count_as_running(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    theatre.link.concurrency = {Stage.SIMULATE: 2}
    for scenario in (1, 2, 3):
        await theatre.begin(scenario, TARGETS[0])
    await theatre.tick(pilot)
    assert " 3 running" in on_screen(pilot)
    theatre.link.between = {TARGETS[0]: 1}
    await theatre.tick(pilot)
    assert " 2 running" in on_screen(pilot)
    assert " 1 wait" in on_screen(pilot)
    await theatre.open(pilot, "1")
    approve(cells_with(on_screen(pilot), "0 of 5  2 at work  1"))
    theatre.link.state = EngineState.PAUSED
    await theatre.tick(pilot)
    assert "0 of 5  3 held" in on_screen(pilot)
    theatre.link.state = EngineState.LOST
    await theatre.tick(pilot)
    assert "0 of 5  3 cut off" in on_screen(pilot)


def test_how_many_are_at_work_is_never_the_limit() -> None:
    stage = StageView("evaluate", StageState.RUNNING, 0, 9, at_once=16, running=4)
    approve(stage.words(40))
    assert stage.words(10) == "4 at work"
    assert stage.words(5) == "running"
    behind = replace(stage, waiting=20)
    approve(behind.words(40))
    assert behind.words(20) == "4 at work, 20 wait"
    assert behind.words(10) == "20 wait"
    failed = replace(stage, failed=3)
    approve(failed.words(40))
    assert failed.words(10) == "3 failed"


def test_a_stage_that_is_done_with_failed_rows_has_no_check_mark() -> None:
    short = StageView("simulate", StageState.DONE, 24, 36, failed=12)
    assert short.sign == Piece("! ", Ink.BAD)
    assert StageView("simulate", StageState.DONE, 36, 36).sign == Piece("✓ ", Ink.GOOD)
    assert StageView("simulate", StageState.RUNNING, 3, 36, failed=1).sign.text == "▸ "


async def test_the_footer_offers_to_try_again_only_what_the_cursor_is_on(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    broken = await theatre.begin(2, TARGETS[1])
    await theatre.end(broken, StopReason.TARGET_FAILED)
    await theatre.move(Stage.SIMULATE, str(broken.key), State.FAILED, TARGETS[1], "too long")
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.IDLE
    await theatre.tick(pilot)
    await theatre.tick(pilot)
    assert "all again" in on_screen(pilot).splitlines()[-1]
    assert "try again" not in on_screen(pilot).splitlines()[-1]
    pilot.app.screen.query_one(TargetBoard).focus()
    await theatre.press(pilot, "down")
    assert "try again" in on_screen(pilot).splitlines()[-1]


async def test_judges_that_are_behind_are_said_to_be(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    theatre.link.concurrency = {Stage.EVALUATE: 1}
    take = await theatre.play(1)
    await theatre.move(Stage.EVALUATE, str(take.key), State.RUNNING, take.key.target_id)
    await theatre.tick(pilot)
    assert "1 at work" in on_screen(pilot)
    for scenario, target in ((1, "pushover"), (2, "steadfast")):
        await theatre.play(scenario, target)
    await theatre.tick(pilot)
    assert "2 wait" in on_screen(pilot)


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_a_verdict_appears_and_enter_opens_its_conversation(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(1), passed=False)
    await theatre.tick(pilot)
    assert "✗ fail" in on_screen(pilot)

    await theatre.press(pilot, "l", "enter")

    assert isinstance(pilot.app.screen, ConversationScreen)
    assert "m01_s001_v01__steadfast" in on_screen(pilot)
    assert "by offline:evaluator" in on_screen(pilot)


@pytest.mark.terminal(80, 24)
async def test_the_cursor_stays_on_its_conversation_while_verdicts_come(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare(9)
    first = await theatre.play(1)
    await theatre.judge(first)
    await theatre.judge(await theatre.play(2))
    await theatre.tick(pilot)
    table = pilot.app.screen.query_one(VerdictTable)
    await pilot.press("l", "g")
    assert table.cursor == first.key

    for number in range(3, 10):
        await theatre.judge(await theatre.play(number))
    assert "✗ fail" not in on_screen(pilot)
    await theatre.judge(first, passed=False)
    await theatre.tick(pilot)

    assert table.cursor == first.key
    assert table.item == 0
    assert "✗ fail" in on_screen(pilot)


@pytest.mark.terminal(200, 40)
async def test_the_footer_keeps_its_keys_while_nobody_speaks_for_a_moment(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    silent = on_screen(pilot).splitlines()[-1]
    theatre.speak(await theatre.begin(), 1, Speaker.USER, "so it is")
    await theatre.tick(pilot)
    assert on_screen(pilot).splitlines()[-1] == silent
    assert "] next" in silent


@pytest.mark.terminal(200, 40)
async def test_the_stages_are_drawn_anew_in_another_width(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    await pilot.resize_terminal(80, 40)
    await theatre.tick(pilot)
    strip = pilot.app.screen.query_one(StageStrip)
    drawn = [strip.render_line(row).text.rstrip() for row in range(2)]
    fresh = ["".join(piece.text for piece in strip.row(row)).rstrip() for row in range(2)]
    assert drawn == fresh


async def test_paused_looks_paused_and_a_key_pauses_and_goes_on(
    theatre: Theatre, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "are you sure?")
    await theatre.finish(take)
    await theatre.tick(pilot, 5)
    assert "1 running" in on_screen(pilot)
    await theatre.note(NoteKind.PAUSED)
    await theatre.press(pilot, "P")
    await theatre.tick(pilot, 60)
    shown = on_screen(pilot)
    approve(cells_with(shown.splitlines()[0], "paused, P goes"))
    assert "P go on" in shown.splitlines()[-1]
    assert "1 held" in shown
    for word in ("running", "— tok/s", "quiet", "silent"):
        assert word not in shown
    await theatre.note(NoteKind.RESUMED)
    await theatre.press(pilot, "P")
    assert theatre.link.commands == [Command.PAUSE, Command.RESUME]
    await theatre.tick(pilot, 3)
    assert "▸ running  0:08" in on_screen(pilot)
    assert "P pause" in on_screen(pilot).splitlines()[-1]

    # the key undoes itself before the engine says that it is paused
    late = theatre.link.board()
    monkeypatch.setattr(theatre.link, "board", lambda: late)
    await pilot.press("P", "P")
    await theatre.answered(pilot)
    assert theatre.link.commands[2:] == [Command.PAUSE, Command.RESUME]


@pytest.mark.terminal(300, 40)
async def test_a_key_that_can_do_nothing_is_not_in_the_footer(
    theatre: Theatre, pilot: Pilot
) -> None:
    theatre.link.state = EngineState.STOPPED
    await theatre.tick(pilot)
    for place, keys in (
        ("2", ("pause", "stop", "open", "next", "wall", "at once", "star")),
        ("3", ("judge again", "sort", "mark", "new rows", "star", "compare", "try again")),
        ("4", ("benchmark",)),
    ):
        await theatre.press(pilot, place)
        await theatre.tick(pilot)
        footer = on_screen(pilot).splitlines()[-1]
        assert [word for word in keys if f" {word} " in f"{footer} "] == []


@pytest.mark.terminal(80, 24)
async def test_the_end_is_summed_up_and_says_what_comes_next(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(1), passed=True)
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.STOPPED
    await theatre.tick(pilot, AGAIN_AFTER)
    await theatre.tick(pilot, AGAIN_AFTER)

    assert "✓ ended" in on_screen(pilot)
    shown = on_screen(pilot)
    assert shown.count("1 of 4 conversations") == 1
    approve(cells_with(shown, "next      4    what is"))
    approve(lines_with(told_rows(pilot), "what failed"))
    known = scores(theatre.watch.reader, BENCHMARK).rates["steadfast", Track.POSITIVE]
    assert shown.count(interval_rate(known, Track.POSITIVE)) == 1
    approve(cells_with(shown, "Everything is stored:"))
    assert "freeze" not in shown.splitlines()[-1]
    assert "thoughts" not in shown.splitlines()[-1]


def test_opening_late_shows_what_was_before(theatre: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        assert "verdicts  1" in on_screen(pilot)
        assert "are you sure? (1)" not in on_screen(pilot)
        assert "turn 2 of 2" in on_screen(pilot)

    async def before() -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play(1))
        take = await theatre.begin(2)
        await theatre.said(take, 1, Speaker.USER, "earlier")
        await theatre.said(take, 1, Speaker.TARGET, "an answer")
        theatre.speak(take, 2, Speaker.USER, "and now")

    asyncio.run(before())
    theatre.perform(script)


def test_a_run_that_its_budget_stopped_says_so(theatre: Theatre) -> None:
    why = "`run.budget`, $0.50, has no room for another call: $0.4950 are spent"

    async def script(pilot: Pilot) -> None:
        await theatre.prepare(1)
        await theatre.note(NoteKind.RUN_STARTED)
        await theatre.note(NoteKind.WARNING, text=why)
        await theatre.note(NoteKind.RUN_ENDED, text="stopped")
        theatre.link.state = EngineState.STOPPED
        await theatre.tick(pilot)
        assert why in told(pilot)

    theatre.perform(script)


async def test_what_holds_the_run_or_a_target_is_named_and_moves_nothing(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    before = on_screen(pilot).splitlines()
    theatre.link.waits = [Wait("gpt", "429", 12.2, calls=3), Wait("judge", "refused", None)]
    await theatre.tick(pilot)
    after = on_screen(pilot).splitlines()
    [row] = [row for row, line in enumerate(after) if "… waits  gpt: 429" in line]
    assert not before[row].strip()
    assert after[row + 1 :] == before[row + 1 :]

    theatre.link.parked = {TARGETS[0]: "401: the key was refused"}
    theatre.link.notices = ["config.yaml was edited since"]
    await theatre.tick(pilot)
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "‖ parked", "… waits", "! note"))
    theatre.link.notices *= 6
    await theatre.tick(pilot)
    assert "and 4 more" in on_screen(pilot)
    theatre.link.waits, theatre.link.notices, theatre.link.parked = [], [], {}
    await theatre.tick(pilot)
    await theatre.tick(pilot)
    assert on_screen(pilot).splitlines()[:6] == before[:6]

    theatre.link.waits = [Wait("m", "429: rate limit, again in 12 s", None, targets=(TARGETS[0],))]
    theatre.link.parked = {TARGETS[1]: "401: the key was refused"}
    await theatre.tick(pilot)
    lines = on_screen(pilot).splitlines()
    [first] = [number for number, line in enumerate(lines) if f" {TARGETS[0]} ─" in line]
    approve(lines_with(lines[first + 2], "… waits: 429: rate limit,"))
    [second] = [number for number, line in enumerate(lines) if f" {TARGETS[1]}  ─" in line]
    approve(lines_with(lines[second + 2], "‖ parked: 401: the key"))

    theatre.link.waits, theatre.link.parked = [], {}
    theatre.link.state = EngineState.PAUSED
    theatre.link.problem = "the disk is full: 12 rows wait for room"
    await theatre.tick(pilot)
    approve(on_screen(pilot).splitlines()[1])
    theatre.link.state = EngineState.STOPPED
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "✗ failed", "the disk is"))


async def test_where_nothing_moves_it_is_said_what_is_waited_for(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, "are you sure?")
    theatre.speak(take, 1, Speaker.TARGET, "")
    await theatre.tick(pilot)
    await theatre.tick(pilot, PATIENCE - 1)
    assert "no token" not in on_screen(pilot)

    await theatre.tick(pilot, 4)
    shown = on_screen(pilot)
    approve(cells_with(shown, "no token yet, 8", "turn 1 of 2  target:", "… quiet  waits for"))

    theatre.speak(take, 1, Speaker.TARGET, "I hear")
    await theatre.tick(pilot)
    assert "8 s" not in on_screen(pilot)
    await theatre.tick(pilot, 65)
    assert "silent, 1:05" in on_screen(pilot)


@pytest.mark.parametrize(
    ("stage", "said"),
    [
        (Stage.GEN_SCENARIOS, "a model writes the scenarios, 9 s"),
        (Stage.EVALUATE, "waits for an answer of the evaluator (1 call), 9 s"),
    ],
)
async def test_what_is_not_spoken_is_waited_for_by_name_as_well(
    theatre: Theatre, pilot: Pilot, stage: Stage, said: str
) -> None:
    await theatre.note(NoteKind.RUN_STARTED)
    await theatre.note(NoteKind.STAGE_STARTED, stage)
    await theatre.move(stage, f"m01_s001_v01__{TARGETS[0]}", State.RUNNING, TARGETS[0])
    await theatre.tick(pilot)
    await theatre.tick(pilot, 9)
    assert said in on_screen(pilot)


@pytest.mark.terminal(80, 24)
async def test_a_budget_is_shown_with_what_is_spent_of_it(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    assert "spent" not in on_screen(pilot)
    [info] = theatre.watch.benchmarks
    targets = [replace(info.targets[0], id=f"target-{number}") for number in range(20)]
    theatre.watch.benchmarks = [replace(info, targets=targets)]
    theatre.link.budget_usd, theatre.link.spent_usd = 5.0, 1.2
    theatre.link.rest_usd = 0.8
    theatre.link.waits = [Wait("gpt", "429: rate limit exceeded by very many", 12.2, calls=3)]
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "spent $1.20 of about $2.00,"))

    batch = "in a batch until 29 Nov 06:52 UTC, since 28 Nov 06:52"
    theatre.link.waits = [Wait("evaluator", batch, None)]
    await theatre.tick(pilot)
    lines = on_screen(pilot).splitlines()
    [row] = [row for row, line in enumerate(lines) if f"… waits  evaluator: {batch}" in line]
    approve(lines_with(lines[row + 1], "spent $1.20 of about $2.00,"))


async def test_a_run_until_the_scenarios_announces_nothing_after_them(
    theatre: Theatre, pilot: Pilot
) -> None:
    theatre.link.stages = (Stage.GEN_METRICS, Stage.GEN_SCENARIOS)
    await theatre.note(NoteKind.RUN_STARTED)
    await theatre.note(NoteKind.STAGE_STARTED, Stage.GEN_SCENARIOS)
    await theatre.tick(pilot)
    shown = on_screen(pilot)
    approve(cells_with(shown, "The run"))
    assert "simulate" not in shown
    assert METRIC.name not in shown


@pytest.mark.terminal(180, 40)
async def test_keys_change_how_many_are_played_at_once(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.begin()
    await theatre.tick(pilot)
    await pilot.press("plus")
    await theatre.answered(pilot)
    assert theatre.link.requests == []

    theatre.link.concurrency = {Stage.SIMULATE: 2}
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "1 at work, at"))
    await pilot.press("plus", "plus", "minus", "minus", "minus", "minus")
    await theatre.answered(pilot)
    asked = [(request.stage, request.number) for request in theatre.link.requests]
    assert asked == [(Stage.SIMULATE, number) for number in (3, 4, 3, 2, 1)]


async def test_the_target_under_the_cursor_is_unparked_and_tried_again(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.end(await theatre.begin(1, "pushover"), StopReason.TARGET_FAILED)
    theatre.link.parked = dict.fromkeys(TARGETS, "401")
    await theatre.tick(pilot)
    await pilot.press("shift+tab", "j", "U", "a")
    await theatre.answered(pilot)
    await pilot.press("k", "a", "tab", "U", "A")
    await theatre.answered(pilot)
    asked = [(request.command, request.target) for request in theatre.link.requests]
    assert asked == [
        (Command.UNPARK, "pushover"),
        (Command.RETRY, "pushover"),
        (Command.UNPARK, "steadfast"),
        (Command.UNPARK, "pushover"),
        (Command.RETRY, None),
    ]


@pytest.mark.parametrize("link", [True, False], ids=["seen", "found later"])
def test_a_run_that_broke_off_says_what_is_kept_and_how_it_goes_on(
    theatre: Theatre, *, link: bool
) -> None:
    theatre.link.state = EngineState.LOST
    if not link:
        theatre.watch.link = None

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play(1))
        take = await theatre.begin(2)
        await theatre.said(take, 1, Speaker.USER, "are you sure?")
        await theatre.tick(pilot)
        approve(told_rows(pilot))
        assert "P goes on" in on_screen(pilot).splitlines()[0]
        assert "1 cut off" in on_screen(pilot)
        assert "left" not in on_screen(pilot)
        approve(cells_with(on_screen(pilot), "1 of 4 conversations with 2"))

    theatre.perform(script)


async def test_a_pane_is_shown_alone_and_beside_the_others_again(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    theatre.speak(await theatre.begin(2), 1, Speaker.USER, "It is late.")
    await theatre.tick(pilot)
    assert "✓ m01_s" in on_screen(pilot)
    await theatre.press(pilot, "z")
    assert "✓ m01_s" not in on_screen(pilot)
    assert "It is late." in on_screen(pilot)
    assert "? help" in on_screen(pilot)
    await theatre.press(pilot, "tab")
    assert "It is late." in on_screen(pilot)
    await theatre.press(pilot, "l")
    assert "✓ m01_s" in on_screen(pilot)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (50.0, "spent $2.00 of about $10.00, at most $50.00"),
        (5.0, "spent $2.00 of about $10.00: over the budget of $5.00"),
    ],
)
async def test_what_the_rest_will_cost_stands_beside_the_budget(
    theatre: Theatre, pilot: Pilot, budget: float, said: str
) -> None:
    await theatre.prepare()
    theatre.link.spent_usd, theatre.link.budget_usd = 2.0, budget
    await theatre.tick(pilot)
    assert "of about" not in on_screen(pilot)
    theatre.link.rest_usd = 8.0
    await theatre.tick(pilot)
    assert said in on_screen(pilot)


@pytest.mark.parametrize("size", [(130, 40), (80, 24)])
async def test_a_target_says_at_once_that_another_model_answers_for_it(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    call = AttemptRow(
        benchmark=BENCHMARK,
        stage=Stage.SIMULATE,
        unit=str(take.key),
        target=TARGETS[0],
        role=Role.TARGET,
        model="mock-alpha",
        outcome="answer",
        duration_ms=900,
        usage=Usage(1, 120, 0, 60, 1.0),
    )
    await theatre.write(call, replace(call, served="mock-\x1bbeta", is_other=True))
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "! 1 of 2 replies came"))
    assert "\x1b" not in on_screen(pilot)


@pytest.mark.terminal(20, 5)
async def test_in_a_tiny_terminal_the_end_of_a_run_says_what_is_next(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    await theatre.note(NoteKind.RUN_ENDED)
    theatre.link.state = EngineState.STOPPED
    await theatre.open(pilot, "2")
    await theatre.tick(pilot, 10)
    rows = on_screen(pilot).splitlines()
    assert "what is" in rows[2]


async def test_scenarios_and_the_judge_s_reasons_stream_like_a_conversation(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.note(NoteKind.RUN_STARTED)
    await theatre.note(NoteKind.STAGE_STARTED, Stage.GEN_SCENARIOS)
    theatre.link.writing = [
        Writing(BENCHMARK, Stage.GEN_SCENARIOS, "m01", "persona: You are a baker.")
    ]
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "persona: You are"))
    # of a conversation that nobody has followed here
    theatre.link.writing = [
        Writing(BENCHMARK, Stage.EVALUATE, "m01_s002_v01__steadfast", "reasoning: It gives in.")
    ]
    await theatre.tick(pilot)
    assert "reasoning: It gives in.▍" in on_screen(pilot)
    theatre.link.writing = []
    await theatre.prepare()
    take = await theatre.begin()
    theatre.speak(take, 1, Speaker.USER, "Shall I?")
    await theatre.tick(pilot)
    await theatre.finish(take)
    await theatre.end(take)
    theatre.link.writing = [
        Writing(BENCHMARK, Stage.EVALUATE, str(take.key), "reasoning: It holds.")
    ]
    await theatre.tick(pilot)
    assert "reasoning: It holds.▍" in on_screen(pilot)
    await theatre.open(pilot, "enter")
    theatre.link.writing[0] = replace(theatre.link.writing[0], text="reasoning: It holds on.")
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "reasoning: It holds"))
