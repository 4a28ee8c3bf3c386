"""What all dialogs have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tui
from engine.cli.piloting import PilotPage
from engine.link import Command, WorkRow
from engine.watch import EvaluatorInfo
from tests.approval import approve, cells_with
from tests.tui.theatre import BENCHMARK, METRIC, Pilot, Theatre, on_screen, shell
from tui.screens.cards import HelpScreen, definition_card, messages_card, pilot_card
from tui.screens.dialogs import (
    ChoiceOption,
    ChoiceScreen,
    DialogFooter,
    LineQuestion,
    LineScreen,
    Overlay,
    TypingScreen,
    ask_how_to_leave,
    ask_how_to_stop,
    ask_name,
)
from tui.screens.line_dialogs import CommandScreen, FindScreen, ask_filter
from tui.screens.rejudge import JudgeAgainScreen
from tui.text.ink import length
from tui.widgets.lines import ChoiceList

SOURCES = Path(tui.__file__).parent


async def _find(_typed: str) -> int:
    return 0


def every_dialog(theatre: Theatre, pilot: Pilot) -> Iterator[Overlay[Any]]:
    board = theatre.link.board()
    row = WorkRow(BENCHMARK, "m01_s001_v01__steadfast")
    yield from (
        definition_card(METRIC),
        HelpScreen(pilot.app.screen),
        messages_card(()),
        pilot_card(PilotPage(("a pilot", "a table"), ("It says something.",))),
        ChoiceScreen("Which?", (ChoiceOption("y", "yes", "it is done"),)),
        ask_name(()),
        LineScreen(LineQuestion("Why?", "why", "Enter saves it", 80), "Ann"),
        CommandScreen(None, ()),
        ask_filter("", (), lambda _wanted: None),
        FindScreen("", _find),
        ask_how_to_leave(board, print, own=True)[0],
        ask_how_to_stop(board, print, own=True)[0],
        ask_how_to_stop(board, print, own=False)[0],
        JudgeAgainScreen(shell(pilot), Command.EVALUATE, (row,)),
    )


def kinds(of: type[Overlay[Any]] = Overlay) -> Iterator[type[Overlay[Any]]]:
    for kind in of.__subclasses__():
        if kind.__module__.startswith("tui."):
            yield kind
            yield from kinds(kind)


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
async def test_every_dialog_says_in_the_same_corner_that_esc_closes_it(
    theatre: Theatre, pilot: Pilot, size: tuple[int, int]
) -> None:
    await theatre.prepare()
    await theatre.play()
    await theatre.tick(pilot)
    seen = set[type]()
    for dialog in every_dialog(theatre, pilot):
        seen.add(type(dialog))
        await pilot.app.push_screen(dialog)
        await pilot.pause()
        footer = dialog.query_one(DialogFooter)
        card = dialog.query_one(".card")
        line = "".join(piece.text for piece in footer.row(0))
        assert line.rstrip().endswith("Esc closes"), dialog
        assert footer.region.height == 1, dialog
        assert footer.region.bottom == card.content_region.bottom, dialog
        assert footer.region.bottom <= size[1], dialog
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.screen is not dialog, dialog
    for path in SOURCES.rglob("*.py"):
        import_module(".".join(path.relative_to(SOURCES.parent).with_suffix("").parts))
    bases = {kind for kind in kinds() if kind.__subclasses__() and kind not in seen}
    assert set(kinds()) - seen == bases
    assert TypingScreen in bases


@pytest.mark.terminal(80, 24)
async def test_playing_again_says_whole_what_it_does_and_costs(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    row = WorkRow(BENCHMARK, str(take.key))
    dialog = JudgeAgainScreen(shell(pilot), Command.SIMULATE, (row,))
    await pilot.app.push_screen(dialog)
    await theatre.tick(pilot)
    shown = on_screen(pilot)
    approve(cells_with(shown, "what was played", "free: no model", "Enter plays and"))


@pytest.mark.terminal(80, 24)
async def test_what_can_be_typed_is_said_whole(theatre: Theatre, pilot: Pilot) -> None:
    for dialog in every_dialog(theatre, pilot):
        await pilot.app.push_screen(dialog)
        await pilot.pause()
        line = "".join(piece.text for piece in dialog.query_one(DialogFooter).row(0))
        assert "… Esc" not in line, dialog
        await pilot.press("escape")
        await pilot.pause()


@pytest.mark.parametrize("width", [80, 120])
def test_a_judge_to_choose_is_named_whole(theatre: Theatre, width: int) -> None:
    judge = EvaluatorInfo("strict-reader", "offline:evaluator-strict", scripted=True)
    theatre.watch.benchmarks = [replace(theatre.watch.benchmarks[0], evaluators=[judge])]

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        row = WorkRow(BENCHMARK, str((await theatre.play()).key))
        await pilot.app.push_screen(JudgeAgainScreen(shell(pilot), Command.EVALUATE, (row,)))
        await theatre.tick(pilot)
        line = "strict-reader  offline:evaluator-strict  does not count, a script"
        assert line in on_screen(pilot)

    theatre.perform(script, (width, 24))


@pytest.mark.terminal(80, 24)
async def test_what_each_way_to_leave_means_is_said_whole(theatre: Theatre, pilot: Pilot) -> None:
    dialog, _ = ask_how_to_leave(theatre.link.board(), print, own=True)
    await pilot.app.push_screen(dialog)
    await pilot.pause()
    choices = pilot.app.screen.query_one(ChoiceList)
    for number in range(choices.row_count()):
        assert length(choices.row(number)) <= choices.line_width


def test_a_question_in_chinese_is_shown_whole(theatre: Theatre) -> None:
    question = "".join(chr(0x4E00 + number) for number in range(125))

    async def script(pilot: Pilot) -> None:
        offers = (ChoiceOption("y", "yes", "it is done"),)
        await pilot.app.push_screen(ChoiceScreen(question, offers))
        await pilot.pause()
        assert [each for each in question if each not in on_screen(pilot)] == []

    theatre.perform(script, (80, 24))
