"""Going from screen to screen by keys, and what the app asks of the engine on the way."""

from __future__ import annotations

import asyncio
from functools import partial
from threading import Event
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widgets import Input

from engine.benchmark import Speaker, Stage
from engine.link import Command, EngineState, Request
from tests.approval import approve, cells_with
from tests.tui.theatre import BENCHMARK, METRIC, TARGETS, Pilot, Theatre, on_screen, shell
from tests.waiting import PATIENCE_S, until
from tui.app import CrosswindApp
from tui.bindings import PaletteCommand, key_actions
from tui.navigation import MAIN_SCREENS, SCREENS, load
from tui.screens import line_dialogs
from tui.screens.base import WatchingScreen
from tui.screens.conversation import ConversationScreen
from tui.screens.conversations import AllScreen
from tui.screens.line_dialogs import CommandScreen
from tui.screens.live import LiveScreen
from tui.screens.scenario import ScenarioScreen
from tui.screens.search import SearchScreen
from tui.screens.verdicts import VerdictsScreen
from tui.services.palette import commands, matching
from tui.state.related import FoundId, find
from tui.widgets.lines import ChoiceList


def shows(pilot: Pilot, kind: type[Screen[Any]]) -> bool:
    return isinstance(pilot.app.screen, kind)


def where(pilot: Pilot) -> str:
    assert isinstance(pilot.app, CrosswindApp)
    return pilot.app.navigator.place


async def test_each_place_is_a_key_away_keeps_its_state_and_hears_what_happens(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    await theatre.tick(pilot)
    await theatre.press(pilot, "l", "enter")
    assert shows(pilot, ConversationScreen)

    for place in MAIN_SCREENS:
        await theatre.open(pilot, place.key)
        assert where(pilot) == place.name
        assert f"{MAIN_SCREENS[0].key}-{MAIN_SCREENS[-1].key} screens" in on_screen(pilot)
        assert "q quit" in on_screen(pilot)
        await theatre.press(pilot, "slash")
        assert shows(pilot, SearchScreen)
        await theatre.press(pilot, "escape")
    await theatre.judge(await theatre.play(2))
    await theatre.tick(pilot)
    await theatre.press(pilot, "2")
    assert shows(pilot, LiveScreen)
    assert "✓ m01_s002" in on_screen(pilot)

    await theatre.open(pilot, "3", "enter")
    assert "q back" in on_screen(pilot)
    await theatre.press(pilot, "q")
    assert where(pilot) == "Conversations"
    await pilot.press("escape", "backspace")
    assert not pilot.app._exit
    await pilot.press("q")
    assert "Leave Crosswind?" in on_screen(pilot)


def test_going_to_a_place_for_the_first_time_does_no_work_for_the_place_that_is_left(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    styled: list[object] = []
    read: list[object] = []
    apply, active = Stylesheet.apply, vars(Screen)["active_bindings"].fget

    def noted_apply(sheet: Stylesheet, node: DOMNode, **given: Any) -> None:
        styled.append(node)
        apply(sheet, node, **given)

    def noted_active(screen: Screen[Any]) -> Any:
        read.append(screen)
        return active(screen)

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        left = pilot.app.screen
        inside = set(left.walk_children(with_self=True))
        monkeypatch.setattr(Stylesheet, "apply", noted_apply)
        monkeypatch.setattr(Screen, "active_bindings", property(noted_active))
        await theatre.press(pilot, "3")
        assert shows(pilot, AllScreen)
        assert not inside & set(styled)
        # the footer: as it comes up, with its focus, and once for all that follows
        assert len(read) <= 4

    theatre.perform(script)


def test_a_place_is_drawn_at_once(theatre: Theatre, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    set_timer = CrosswindApp.set_timer

    def noted(app: CrosswindApp, delay: float, *given: Any, **named: Any) -> Any:
        if named.get("name") == "delay_update":
            waits.append(delay)
        return set_timer(app, delay, *given, **named)

    async def script(pilot: Pilot) -> None:
        monkeypatch.setattr(CrosswindApp, "set_timer", noted)
        await pilot.press("1")
        assert where(pilot) == "Benchmarks"

    theatre.perform(script)
    assert waits
    assert max(waits) < 0.01  # Textual's own delay is 0.05


def test_a_run_can_be_left_and_says_how_to_come_back(
    theatre: Theatre, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        await pilot.press("q")
        assert "leave it running" in on_screen(pilot)
        await pilot.press("enter")
        assert pilot.app._exit

    theatre.perform(script)
    assert theatre.link.commands == []
    assert "`crosswind watch --workspace" in capsys.readouterr().err


async def test_the_run_is_stopped_without_leaving(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    await pilot.press("x")
    assert "Stop the run?" in on_screen(pilot)
    await theatre.press(pilot, "q", "x", "s")
    assert theatre.link.commands == [Command.STOP]
    theatre.link.state = EngineState.STOPPED
    await theatre.tick(pilot)
    assert not pilot.app._exit
    await pilot.press("x")
    assert shows(pilot, LiveScreen)


def test_more_or_fewer_at_once_and_parked_targets_called_again(theatre: Theatre) -> None:
    theatre.link.concurrency = {Stage.SIMULATE: 1}
    theatre.link.parked = {TARGETS[0]: "HTTP 401"}

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        await pilot.press("minus", "plus", "U")
        await theatre.answered(pilot)
        assert theatre.link.requests == [
            Request(Command.CONCURRENCY, stage=Stage.SIMULATE, number=2),
            Request(Command.UNPARK, target=TARGETS[0]),
        ]

    theatre.perform(script)


async def test_a_conversation_a_scenario_and_a_metric_are_found_by_any_part_of_their_names(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.play(1)
    take = await theatre.play(2)
    await theatre.tick(pilot)
    named = f"metric of {BENCHMARK}: {METRIC.name}"

    async def typed(text: str) -> str:
        await pilot.press("i", *("space" if letter == " " else letter for letter in text))
        await theatre.answered(pilot)
        return on_screen(pilot)

    for text in ("m01_s002", "S002_V01__STEAD"):
        shown = await typed(text)
        assert str(take.key) in shown
        assert "m01_s001_v01__" not in shown
        await pilot.press("escape")
    await typed("nowhere")
    await pilot.press("enter")
    await theatre.answered(pilot)
    assert "Nothing has that name." in on_screen(pilot)
    await pilot.press("escape")
    assert shows(pilot, LiveScreen)

    for text, line in (("M01", "m01"), ("TO what", named)):
        assert line in await typed(text)
        await pilot.press("enter")
        await theatre.open(pilot)
        assert "metric:m01" in on_screen(pilot)
        await pilot.press("escape")
    for text, screen in (("m01_s002_v01", ScenarioScreen), (str(take.key), ConversationScreen)):
        for key in "i", "colon":
            await pilot.press(key, *text, "enter")
            await theatre.open(pilot)
            assert shows(pilot, screen)
            await pilot.press("escape")


async def test_a_command_for_a_conversation_leads_to_the_verdicts_where_none_is_shown(
    theatre: Theatre,
    pilot: Pilot,
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    await theatre.open(pilot, "1")
    for name in ("compare", "definition"):
        await pilot.press("colon", *name)
        await theatre.answered(pilot)
        approve(cells_with(on_screen(pilot), "for a conversation,"))
        await theatre.press(pilot, "enter")
        assert shows(pilot, VerdictsScreen)
        await theatre.press(pilot, "1")
    await pilot.press("colon")
    await pilot.pause()
    assert "which you choose" not in on_screen(pilot)


async def test_a_key_after_enter_does_not_take_the_choice_back(
    theatre: Theatre, pilot: Pilot, monkeypatch: pytest.MonkeyPatch
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.tick(pilot)
    await pilot.press("i", *str(take.key)[:-1])
    await theatre.answered(pilot)
    found = Event()

    def find_late(*given: Any) -> list[FoundId]:
        assert found.wait(PATIENCE_S)
        return find(*given)

    monkeypatch.setattr(line_dialogs, "find", find_late)
    line = pilot.app.screen.query_one(Input)
    for key in (str(take.key)[-1], "enter", "5"):
        pilot.app.simulate_key(key)
    await asyncio.to_thread(until, lambda: line.value.endswith("5"))
    found.set()
    await theatre.answered(pilot)
    assert shows(pilot, ConversationScreen)


async def test_the_palette_knows_benchmarks_and_themes(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    await theatre.tick(pilot)
    for typed, shown in (
        ("theme blue", "Theme: blue-orange"),
        (f"verdicts of {BENCHMARK}", f'"={BENCHMARK}"'),
    ):
        await pilot.press("colon")
        await theatre.answered(pilot)
        await pilot.press(*("space" if char == " " else char for char in typed))
        await theatre.answered(pilot)
        await pilot.press("enter")
        await theatre.answered(pilot)
        await theatre.tick(pilot)
        assert shown in on_screen(pilot)


@pytest.mark.terminal(80, 40)
async def test_whatever_a_key_does_has_a_name_in_the_palette_that_says_it_whole(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(), passed=False)
    theatre.speak(await theatre.begin(2), 1, Speaker.USER, "are you sure?")
    known = dict[str, PaletteCommand]()
    for keys in (*(place.key for place in MAIN_SCREENS), "3 enter", "3 r", "2 w"):
        await theatre.press(pilot, *keys.split())
        assert_keys_have_names(pilot)
        known |= {each.meaning: each for each in commands(pilot.app, pilot.app.screen)}
        await pilot.press("escape")
    screen = CommandScreen(None, list(known.values()))
    await pilot.app.push_screen(screen)
    for place, each in enumerate(matching(list(known.values()), "")):
        screen.query_one(ChoiceList).move_to(place)
        await pilot.pause()
        assert each.meaning in on_screen(pilot), each


def assert_keys_have_names(pilot: Pilot) -> None:
    """Whatever a key of the screen does is found in the palette by a name of its own."""
    known = commands(pilot.app, pilot.app.screen)
    for deed in key_actions([pilot.app.screen, pilot.app]):
        action = deed.action.partition("(")[0]
        can = deed.node.check_action(action, ()) and deed.meaning != deed.description
        if can and action not in WITHOUT_A_NAME:
            act = next((one for one in known if leads_to(one) == deed.action), None)
            assert act is not None, (pilot.app.screen, deed)
            assert matching(known, act.name)[0] == act


WITHOUT_A_NAME = {"command_palette", "focus_next", "focus_previous", "leave_root", "open"}
"""What is a key's matter alone, or leads to the palette."""


def leads_to(command: PaletteCommand) -> object:
    return command.act.args[0] if isinstance(command.act, partial) and command.act.args else None


def test_each_screen_of_the_registry_is_there() -> None:
    assert all(issubclass(load(place.screen), WatchingScreen) for place in MAIN_SCREENS)
    assert all(callable(load(where)) for where in SCREENS.values())


@pytest.mark.terminal(80, 24)
async def test_notices_are_short_two_at_most_and_read_whole_behind_a_key(
    theatre: Theatre, pilot: Pilot
) -> None:
    tell = shell(pilot).tell
    await theatre.tick(pilot)

    async def lines(word: str) -> list[str]:
        await pilot.pause()
        await pilot.pause()
        return [line.strip("▌ ") for line in on_screen(pilot).splitlines() if word in line]

    tell("It failed: " + "why it did, in words. " * 20 + "The end.", bad=True)
    shown = await lines("in words")
    assert len(shown) == 2
    assert shown[1].endswith("! shows all")
    for place in "5", "2":
        await pilot.press(place)
        assert await lines("in words") == []
    for word in ("first", "second", "third"):
        tell(f"a notice {word}")
    assert set(await lines("a notice")) == {"a notice second", "a notice third"}
    tell("a notice third")

    await theatre.press(pilot, "5", "exclamation_mark")
    assert "Last notices" in on_screen(pilot)
    assert "The end." in on_screen(pilot)
    assert (await lines("a notice")).count("a notice third") == 1
    await theatre.press(pilot, "q")
    assert "Last notices" not in on_screen(pilot)
