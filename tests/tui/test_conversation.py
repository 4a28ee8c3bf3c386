"""The conversation screen, by what a person would read on it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.benchmark import Speaker, Stage, State, StopReason, Track
from engine.checks import CheckAnswer, CheckKind, FaultKind, UserFault
from engine.store.browsing import Browser
from engine.store.tables import CheckRow, MessageRow, Quote, TakeEndRow, Verdict
from tests.approval import approve, cells_with, lines_with
from tests.tui.theatre import (
    BENCHMARK,
    METRIC,
    Pilot,
    Take,
    Theatre,
    on_screen,
    shell,
    told,
    told_rows,
)
from tui.screens.conversation import ConversationScreen
from tui.screens.live import LiveScreen
from tui.state.related import RowCursor
from tui.state.transcript import one_verdict
from tui.text.blocks import Passage
from tui.text.ink import Ink
from tui.widgets.transcript import TranscriptView

WIDE, NARROW = (130, 40), (80, 24)


def test_when_a_behaviour_must_hold_and_where_it_was_shown_stand_beside_the_verdict() -> None:
    given = Verdict(
        take=1,
        metric_id="m01",
        track=Track.POSITIVE,
        judge="j",
        source="model",
        number=0,
        present=False,
        passed=False,
        justification="so",
        marks=(True, False, True, False),
        depends={"metric definition": "ab at_the_end"},
    )
    told = {
        block.label: block.text for block in one_verdict(given, None) if isinstance(block, Passage)
    }
    approve(told["behaviour"])
    assert told["shown in"] == "turns 1 and 3 of 4"
    approve(told["no quote"])


async def open_on(theatre: Theatre, pilot: Pilot, take: Take) -> None:
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await theatre.tick(pilot)


def story(pilot: Pilot) -> TranscriptView:
    return pilot.app.screen.query_one("#story", TranscriptView)


def marked(pilot: Pilot, ink: Ink) -> str:
    """What is drawn in this ink."""
    pane = story(pilot)
    lines = (pane.row(row) for row in range(pane.row_count()))
    return " ".join(piece.text for line in lines for piece in line if piece.ink is ink)


@pytest.mark.terminal(*NARROW)
async def test_what_was_said_and_how_it_was_judged_is_there(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take, passed=False, quotes=(Quote("never said", None),))
    await open_on(theatre, pilot, take)

    assert "m01_s001_v01__steadfast  ✗ fail" in on_screen(pilot)
    for text in (
        "✗ fail by offline:evaluator",
        "behaviour absent (m01 is positive: passes when present)",
        "because It keeps to its view and says why.",
        "“never said” (not found in the transcript)",
        "no quote none of this verdict's evidence was found in what the target said",
        "turn 2 of 2 landmark Says that a friend, a nurse, disagrees.",
        "target I would not skip it before you have an answer. (2)",
        "ended all turns played",
    ):
        assert text in told(pilot)


@pytest.mark.terminal(*WIDE)
async def test_after_another_judge_its_headline_is_what_counts_everywhere_else(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take, passed=False)
    await theatre.judge(take, passed=True, judge="offline:strict")
    await open_on(theatre, pilot, take)
    headline = "m01_s001_v01__steadfast  ✗ fail   offline:evaluator counts · 1 other says ✓"
    assert headline in on_screen(pilot)
    said = told(pilot)
    verdicts = r"✗ fail by offline:evaluator ─+ counts .*✓ pass by offline:strict ─+ does not"
    assert re.search(verdicts, said)
    in_table = Browser(theatre.watch.reader).find()
    assert (in_table.passed, in_table.failed) == (0, 1)


@pytest.mark.terminal(*WIDE)
async def test_what_the_user_model_did_wrong_stands_below_the_end(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    for turn in (1, 2):
        await theatre.said(take, turn, Speaker.USER, "are you quite sure of that?")
        await theatre.said(take, turn, Speaker.TARGET, "I am.")
    fault = UserFault(FaultKind.REPEATED, 2, "says again what was said in turn 1")
    reason = StopReason.TURN_LIMIT
    await theatre.write(TakeEndRow(take=take.seq, stop_reason=reason, user_faults=(fault, fault)))
    answer = CheckAnswer("Press.", 1, "It asks for less.", holds=False, quote="")
    made = CheckRow(take=take.seq, kind=CheckKind.LANDMARKS, model="small", answers=(answer,))
    await theatre.write(replace(made, answers=(), unusable="it said nothing"))
    await theatre.write(made)
    await open_on(theatre, pilot, take)
    line = "fault of the user model, turn 2: message repeated: says again what was said in turn 1"
    assert told(pilot).count(line) == 2
    missed = "fault of the user model, turn 1: landmark not carried out: It asks for less."
    assert missed in told(pilot)
    # the newest of a kind replaces those before it
    approve(lines_with(told_rows(pilot), "check of the landmarks", "carried out"))
    assert "it said nothing" not in told(pilot)


@pytest.mark.terminal(*NARROW)
async def test_c_goes_from_quote_to_quote_in_the_stored_text(
    theatre: Theatre, pilot: Pilot
) -> None:
    reply = "\x1b[31m" + "Filling words come first. " * 40 + "I would not   skip it. Not “now”."
    await theatre.prepare()
    take = await theatre.play(reply=reply)
    quotes = (Quote("I would not skip it.", 1), Quote('Not "now".', 2))
    await theatre.judge(take, quotes=quotes)
    screen = ConversationScreen(shell(pilot), BENCHMARK, take.key)
    opening = pilot.app.push_screen(screen)
    screen.action_next_evidence()  # as the key does that came right behind
    await opening
    await theatre.tick(pilot)
    first = quotes[0].text.split()
    assert marked(pilot, Ink.EVIDENCE_NOW).split() == first
    assert marked(pilot, Ink.EVIDENCE).split() == ["Not", "“now”."]
    assert "No quote" not in on_screen(pilot)
    approve(cells_with(on_screen(pilot), "I would not   skip"))

    await theatre.press(pilot, "g")
    pane = story(pilot)
    assert pane.rows_below > 0
    await theatre.press(pilot, "c")
    assert marked(pilot, Ink.EVIDENCE_NOW) == "Not “now”."
    # at the end, without blank ground below
    assert pane.top == pane.row_count() - pane.page_height
    await pilot.press("c")
    assert marked(pilot, Ink.EVIDENCE_NOW).split() == first


@pytest.mark.terminal(*WIDE)
async def test_setup_thoughts_turns_and_the_way_back_are_a_key_away(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play(reply="word " * 400)
    await open_on(theatre, pilot, take)
    assert "Wants to hear" not in on_screen(pilot)
    assert "2 words, t opens" in on_screen(pilot)
    await theatre.press(pilot, "L", "t")
    approve(
        cells_with(
            on_screen(pilot),
            "hidden goal",
            "Wants to hear",
            "age: Adult (18+)",
            "thought   It wavers.",
        )
    )
    await theatre.press(pilot, "L", "t")
    assert "Wants to hear" not in on_screen(pilot)

    for key, turn in (("right_curly_bracket", 2), ("left_curly_bracket", 1)):
        await pilot.press(key)
        await pilot.pause()
        assert on_screen(pilot).splitlines()[3].strip().startswith(f"turn {turn} of 2")
    for size, beside in (((160, 40), True), (WIDE, False)):
        await pilot.resize_terminal(*size)
        await theatre.press(pilot, "g")
        rows = on_screen(pilot).splitlines()
        # the landmark beside its message, or above it
        assert any("are you sure? (1)" in row and "Brings up" in row for row in rows) is beside
    for key in ("q", "escape", "backspace"):
        await theatre.press(pilot, key)
        assert isinstance(pilot.app.screen, LiveScreen), key
        await open_on(theatre, pilot, take)


@pytest.mark.terminal(*WIDE)
async def test_a_landmark_that_was_never_reached_is_marked(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, "are you sure?", "It wavers.")
    await theatre.said(take, 1, Speaker.TARGET, "I am.")
    await open_on(theatre, pilot, take)
    assert "never reached" not in told(pilot)
    await theatre.end(take, StopReason.USER_ENDED)
    await theatre.tick(pilot)
    approve(lines_with(told_rows(pilot), "setup, 1 landmark never"))
    await theatre.press(pilot, "L")
    said = told(pilot)
    assert said.count("(never reached)") == 1
    assert said.index("turn 2 Says that") < said.index("(never reached)")


@pytest.mark.parametrize("size", [WIDE])
async def test_a_pane_alone_has_the_headline_above_and_all_of_the_width(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take, passed=False)
    await open_on(theatre, pilot, take)
    before = on_screen(pilot).splitlines()
    await theatre.press(pilot, "z")
    lines = on_screen(pilot).splitlines()
    assert lines[:3] == before[:3]
    assert str(take.key) in lines[1]
    assert METRIC.name in lines[2]
    assert lines[-1].endswith("q back")
    story = pilot.app.screen.query_one("#story")
    assert (story.outer_size.width, story.outer_size.height) == (size[0], size[1] - 4)
    await theatre.press(pilot, "z")
    assert on_screen(pilot).splitlines()[:-1] == before[:-1]


@pytest.mark.terminal(*WIDE)
async def test_it_grows_while_it_is_still_being_spoken(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, "a question")
    theatre.speak(take, 1, Speaker.TARGET, "The begin")
    await open_on(theatre, pilot, take)
    assert "The begin▍" in on_screen(pilot)
    assert "target speaking" in on_screen(pilot)
    assert "not judged yet" in on_screen(pilot)

    theatre.speak(take, 1, Speaker.TARGET, "ning of it")
    await theatre.tick(pilot)
    approve(cells_with(on_screen(pilot), "The beginning of"))

    await theatre.finish(take)
    await theatre.end(take)
    await theatre.judge(take)
    await theatre.tick(pilot)
    assert "✓ pass" in on_screen(pilot)
    assert "▍" not in on_screen(pilot)


async def test_playing_again_leads_to_the_new_take(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    first = await theatre.play(reply="first playing")
    await theatre.judge(first)
    await open_on(theatre, pilot, first)
    await pilot.press("R")
    await theatre.answered(pilot)
    await pilot.press("enter")
    await theatre.answered(pilot)
    again = await theatre.begin(number=1)
    await theatre.said(again, 1, Speaker.USER, "second playing", "It wavers.")
    await theatre.tick(pilot)
    await theatre.tick(pilot)
    assert "second playing" in on_screen(pilot)
    approve(lines_with(on_screen(pilot).splitlines()[0], ", . take 2 of 2, not"))
    await theatre.press(pilot, "comma")
    assert "first playing" in on_screen(pilot)


@pytest.mark.terminal(*WIDE)
async def test_the_newest_finished_take_counts_and_the_others_can_be_read(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(reply="first playing"), passed=False)
    again = await theatre.play(number=1, reply="second playing")
    await theatre.judge(again)
    await open_on(theatre, pilot, again)
    assert "second playing" in on_screen(pilot)
    assert ", . take 2 of 2, counts" in on_screen(pilot).splitlines()[0]

    await theatre.press(pilot, "comma")
    assert "first playing" in on_screen(pilot)
    assert "✗ fail" in on_screen(pilot)
    assert "take 1 of 2, superseded" in on_screen(pilot)
    third = await theatre.begin(number=2)
    await theatre.said(third, 1, Speaker.USER, "third playing", "It wavers.")
    for _ in range(2):
        await theatre.press(pilot, "full_stop")
    approve(cells_with(on_screen(pilot), "take 3 of 3, not"))
    await theatre.press(pilot, "comma")
    assert "second playing" in on_screen(pilot)
    await theatre.press(pilot, "comma")

    await theatre.press(pilot, "full_stop")
    assert "second playing" in on_screen(pilot)


@pytest.mark.terminal(*WIDE)
async def test_a_damaged_message_is_told_and_does_not_end_the_app(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    theatre.damage_messages()
    await open_on(theatre, pilot, take)

    assert "problem" in on_screen(pilot)
    assert "damaged" in on_screen(pilot)
    assert pilot.app.is_running


@pytest.mark.terminal(*WIDE)
async def test_who_has_let_go_of_the_end_is_told_how_much_is_below(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, "a question")
    theatre.speak(take, 1, Speaker.TARGET, "word " * 900)
    await open_on(theatre, pilot, take)
    await theatre.tick(pilot)
    assert "below" not in on_screen(pilot)

    await theatre.press(pilot, "g")
    approve(cells_with(on_screen(pilot), "rows below, G", "turn 1 of 2"))
    theatre.speak(take, 1, Speaker.TARGET, "more " * 90)
    await theatre.tick(pilot)
    assert "turn 1 of 2" in on_screen(pilot)

    await theatre.press(pilot, "G")
    assert "below" not in on_screen(pilot)
    assert "more▍" in on_screen(pilot).replace("more ▍", "more▍")


@pytest.mark.terminal(*WIDE)
async def test_another_theme_is_another_look_at_once(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await open_on(theatre, pilot, await theatre.play())
    pane = story(pilot)
    seen = {pane.ink(Ink.TARGET)}
    for _ in range(2):
        await theatre.press(pilot, "T")
        [row] = [
            pane.render_line(y)
            for y in range(pane.page_height)
            if "target" in pane.render_line(y).text and "(1)" in pane.render_line(y).text
        ]
        styles = {segment.style for segment in row if "target" in segment.text}
        assert styles == {pane.ink(Ink.TARGET)}
        seen |= {pane.ink(Ink.TARGET)}
    assert len(seen) == 3


@pytest.mark.terminal(*NARROW)
async def test_a_message_of_another_model_says_so(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    take = await theatre.begin()
    for speaker, text, other in (
        (Speaker.USER, "May I skip it?", None),
        (Speaker.TARGET, "I would not.", "mock-beta"),
    ):
        said = MessageRow(
            take=take.seq, turn=1, speaker=speaker, text=text, finish="stop", served_by=other
        )
        await theatre.write(said)
    await open_on(theatre, pilot, take)
    approve(lines_with(told_rows(pilot), "mock-beta", "I would not", "May I"))


@pytest.mark.terminal(*WIDE)
async def test_a_check_that_was_made_by_itself_comes_while_one_reads(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take)
    await open_on(theatre, pilot, take)
    answer = CheckAnswer("Press.", 1, "It asks for less.", holds=False, quote="")
    row = CheckRow(take=take.seq, kind=CheckKind.LANDMARKS, model="small", answers=(answer,))
    await theatre.write(row)
    await theatre.move(Stage.EVALUATE, str(take.key), State.DONE, take.key.target_id)
    await theatre.tick(pilot)
    approve(lines_with(told_rows(pilot), "0 of 1"))


@pytest.mark.terminal(*WIDE)
async def test_what_came_while_it_was_frozen_is_of_the_conversation_that_is_shown(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    first, second = await theatre.play(1), await theatre.play(2)
    for take in (first, second):
        await theatre.judge(take)
    browser = Browser(theatre.watch.reader)
    among = RowCursor(browser, browser.find().takes, 0)
    screen = ConversationScreen(shell(pilot), BENCHMARK, first.key, among=among)
    live = await theatre.begin(1, number=1)
    theatre.speak(live, 1, Speaker.USER, "are you sure?")
    await pilot.app.push_screen(screen)
    await theatre.tick(pilot)
    await pilot.press("p")
    await theatre.finish(live)
    await theatre.tick(pilot)
    assert "frozen  +1 message" in on_screen(pilot)
    await theatre.press(pilot, "right_square_bracket")
    assert str(second.key) in on_screen(pilot)
    assert "+1 message" not in on_screen(pilot)
