"""The app as a whole: leaving, help, commands, sizes, and text that means harm."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.segment import Segments

from engine.benchmark import Speaker, Stage, State
from engine.cli.commands import COMMANDS
from engine.errors import StoreError
from engine.link import Command, EngineState
from engine.pipeline.order import Order
from engine.store.tables import Quote
from tests.approval import approve, cells_with, lines_with
from tests.tui.theatre import BENCHMARK, ENGINE, TARGETS, Pilot, Theatre, on_screen, shell, told
from tui.app import CrosswindApp
from tui.bindings import PaletteCommand, PaletteGroup, key_name, own_bindings
from tui.navigation import MAIN_SCREENS
from tui.screens.cards import HelpScreen
from tui.screens.compare import CompareScreen
from tui.screens.conversation import ConversationScreen
from tui.screens.live import LiveScreen
from tui.services.engine_control import Backend
from tui.services.palette import _OUTSIDE, commands, matching
from tui.widgets.key_line import KeyLine
from tui.widgets.table import VerdictTable
from tui.widgets.transcript import TranscriptView

HOSTILE = (
    "\x1b[2J\x1b[6n\x1b]0;title\x07\x1b]52;c;cHduZWQ=\x1b\\\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"
    "\x1bP+q\x1b\\\x9b31m\x9d0;t\x9c\x00\x08\x0e\x0f\x7f\r\u202e\u2066\u200e\u061c\u2028\u200b\ufeff"
    "\U000e0041\ud800\n[@click=app.quit]x[/]\n[red]m[/red] [/unbalanced" + "z" + "\u0301" * 99
)


async def open_conversation(theatre: Theatre, pilot: Pilot) -> None:
    take = await theatre.play()
    await theatre.judge(take)
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await theatre.tick(pilot)


def test_q_asks_while_the_run_goes_on_and_stops_in_good_order(theatre: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        for number in (1, 2):
            theatre.speak(await theatre.begin(number), 1, Speaker.USER, "and")
        theatre.link.waiting_messages = 1
        await theatre.tick(pilot)
        await pilot.press("x")
        said = "The run is not over: 1 message being spoken, 1 waits to be sent."
        assert said in on_screen(pilot)
        await pilot.press("escape", "q", "q")
        assert isinstance(pilot.app.screen, LiveScreen)
        assert theatre.link.commands == []
        await pilot.press("q")
        approve(cells_with(on_screen(pilot), "Leave Crosswind?", "stop after what"))

        await theatre.press(pilot, "j", "enter")
        assert theatre.link.commands == [Command.STOP]
        approve(cells_with(on_screen(pilot), "stopping: finishing what"))
        assert not pilot.app._exit
        theatre.link.state = EngineState.STOPPED
        await theatre.tick(pilot)
        assert pilot.app._exit

    assert theatre.perform(script).return_code == 0


async def test_one_can_stop_now(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    await pilot.press("q", "j", "j", "enter")
    await theatre.answered(pilot)
    assert theatre.link.commands == [Command.STOP_NOW]
    assert pilot.app._exit


@pytest.mark.parametrize(("first", "started"), [("ctrl+c", ENGINE), ("x", None)])
def test_ctrl_c_asks_and_the_second_one_leaves_and_stops_nothing(
    theatre: Theatre, capsys: pytest.CaptureFixture[str], first: str, started: int | None
) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        await pilot.press(first)
        approve(cells_with(on_screen(pilot), "The run is"))
        await pilot.press("ctrl+c")
        await theatre.answered(pilot)
        assert pilot.app._exit

    theatre.perform(script, app=app_on(theatre, started))
    assert theatre.link.commands == []
    assert "run goes on" in capsys.readouterr().err


def app_on(theatre: Theatre, started: int | None) -> CrosswindApp:
    return CrosswindApp(theatre.watch, moment=theatre.moment, started=started)


def test_a_run_that_was_started_elsewhere_is_stopped_by_a_word_and_no_key(
    theatre: Theatre,
) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        await pilot.press("q")
        assert "stop after" not in on_screen(pilot)
        approve(cells_with(on_screen(pilot), "only `x` stops"))
        await pilot.press("s", "n", "q")
        assert theatre.link.commands == []

        await pilot.press("x", "enter", "s", "n", "enter")
        approve(cells_with(on_screen(pilot), "Stop a run"))
        assert theatre.link.commands == []
        await pilot.press("ctrl+u", *"stop")
        approve(cells_with(on_screen(pilot), "Enter: stop after"))
        await pilot.press("enter")
        await theatre.answered(pilot)
        assert theatre.link.commands == [Command.STOP]
        assert not pilot.app._exit

        await pilot.press("x", *"stop", "space", *"now", "enter")
        await theatre.answered(pilot)
        assert theatre.link.commands == [Command.STOP, Command.STOP_NOW]

    theatre.perform(script, app=app_on(theatre, None))


def test_a_run_that_this_app_started_is_its_own(theatre: Theatre) -> None:
    link, theatre.watch.link = theatre.watch.link, None

    def start(order: Order | None) -> int:
        del order
        theatre.watch.link = link
        return ENGINE

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await pilot.press("P")
        await theatre.answered(pilot)
        await theatre.tick(pilot)
        await pilot.press("x", "s")
        await theatre.answered(pilot)
        assert theatre.link.commands == [Command.STOP]

    theatre.perform(
        script, app=CrosswindApp(theatre.watch, moment=theatre.moment, backend=Backend(start))
    )


@pytest.mark.parametrize("state", [EngineState.STOPPED, None])
def test_q_just_goes_when_no_run_is_on(theatre: Theatre, state: EngineState | None) -> None:
    if state is None:
        theatre.watch.link = None
    else:
        theatre.link.state = state

    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        await pilot.press("q")
        assert pilot.app._exit

    assert theatre.perform(script).return_code == 0


@pytest.mark.terminal(110, 40)
async def test_help_lists_every_binding_of_the_screen_it_was_called_from(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for opened in (LiveScreen, ConversationScreen):
        if opened is ConversationScreen:
            await open_conversation(theatre, pilot)
        screen = pilot.app.screen
        nodes = [screen, pilot.app, *screen.query(TranscriptView), *screen.query(VerdictTable)]
        wanted = [binding for node in nodes for binding in own_bindings(node)]
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        lines = ["".join(piece.text for piece in line) for line in pilot.app.screen.lines]
        keyed = [line[:22].split() for line in lines]
        told = " ".join(" ".join(lines).split())
        for binding in wanted:
            assert any(key_name(binding.key) in keys for keys in keyed), binding
            assert (binding.tooltip or binding.description) in told, binding
        await pilot.press("q")


def test_what_stops_a_run_and_what_goes_to_the_shell_stand_in_the_help_and_the_palette(
    theatre: Theatre,
) -> None:
    stops = "stop the run; asks how, and for a word if begun elsewhere"
    suspends = "go to the shell; `fg` comes back"

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        assert "x stop" in on_screen(pilot).splitlines()[-1]
        known = {each.name: (each.meaning, each.keys) for each in commands_here(pilot)}
        assert known["stop"] == (stops, "x")
        assert known["to the shell"] == (suspends, "Ctrl+Z")
        await pilot.press("question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        rows = ["".join(piece.text for piece in line) for line in pilot.app.screen.lines]
        assert max(map(cell_len, rows)) <= 110
        assert rows[0].startswith("On this screen")
        left, right = (
            [row[place].split() for row in rows] for place in (slice(55), slice(55, 110))
        )
        shown = " ".join(word for row in (*left, *right) for word in row)
        assert f" x {stops} " in shown
        assert f" Ctrl+Z {suspends}" in shown
        await pilot.press("tab")
        signs = on_screen(pilot)
        assert "Tab: keys" in signs
        assert "+ 91% [67–98] 29/32" in signs
        assert "On this screen" not in signs

    theatre.perform(script, size=(200, 50))


@pytest.mark.terminal(40, 12)
async def test_a_narrow_help_and_a_narrow_palette_cut_no_word(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    await pilot.press("question_mark", "tab")
    await pilot.pause()
    assert "    29 of 32 scored conversations" in on_screen(pilot)
    await pilot.press("escape", "colon", *"wall")
    await theatre.answered(pilot)
    [row] = [line for line in on_screen(pilot).splitlines() if "go    wall" in line]
    assert row.split() == ["go", "wall", "w"]
    await pilot.press("ctrl+u", *"pause", "enter")
    await theatre.answered(pilot)
    await theatre.answered(pilot)
    assert theatre.link.commands == [Command.PAUSE]


NAMES = {
    "quit": "quit",
    "comp": "compare",
    "export": "export",
    "results": "results",
    "wall": "wall",
    "help": "help",
    "dark": "theme dark",
    "pause": "pause",
    "exit": "quit",
    "resu": "results",
    "evalu": "judge again",
    "rejudge": "judge again",
    "failures": "failures",
    "resume": "pause",
    "status": "benchmarks",
    "save": "export",
    "watch": "live",
    "keys": "help",
    "themes": "theme",
}


def commands_here(pilot: Pilot) -> list[PaletteCommand]:
    return commands(pilot.app, pilot.app.screen)


async def test_every_command_is_found_by_its_name_and_stands_once(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    take = await theatre.play()
    await theatre.judge(take)
    await theatre.tick(pilot)
    for place in (*(each.key for each in MAIN_SCREENS), "conversation"):
        if place == "conversation":
            await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
        else:
            await pilot.press(place)
        await theatre.tick(pilot)
        known = commands_here(pilot)
        assert [each.name for each in known if each.keys == "|"] == ["pager"]
        names = [each.name for each in known]
        assert sorted(set(names)) == sorted(names)
        groups = [each.group for each in known]
        assert groups == sorted(groups, key=list(PaletteGroup).index)
        assert not {"down", "up", "first", "last", "page up", "next cell"} & set(names)
        for typed, name in NAMES.items():
            if place in {"3", "conversation"} or name not in {
                "compare",
                "judge again",
            }:
                assert matching(known, typed)[0].name == name, (place, typed)


async def test_a_command_of_the_conversation_is_done_from_where_it_is_shown(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    await theatre.tick(pilot)
    await theatre.press(pilot, "2", "tab")
    await theatre.tick(pilot)
    await pilot.press("colon", *"compa")
    await theatre.answered(pilot)
    listed = on_screen(pilot).splitlines()
    assert any(line.split()[1:3] == ["here", "compare"] for line in listed)
    await pilot.press("enter")
    await theatre.answered(pilot)
    await theatre.tick(pilot)
    assert isinstance(pilot.app.screen, CompareScreen)


@pytest.mark.terminal(20, 5)
async def test_the_footer_says_the_way_out_on_the_last_row_and_can_be_clicked_on(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    for key in "12345":
        await theatre.open(pilot, key)
        assert pilot.app.screen.query_one(KeyLine).region.bottom == 5, key
    await theatre.open(pilot, "2")
    for width in (20, 80, 120):
        await pilot.resize_terminal(width, 12)
        await theatre.tick(pilot)
        footer = on_screen(pilot).splitlines()[-1]
        assert "? help" in footer
        assert "q quit" in footer
    footer = on_screen(pilot).splitlines()[-1]
    await pilot.click("KeyLine", offset=(footer.index("P pause") + 2, 0))
    await theatre.answered(pilot)
    assert theatre.link.commands == [Command.PAUSE]


async def test_no_size_is_too_small_or_too_large(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play(1, reply="a rather long reply " * 50))
    take = await theatre.begin(2)
    theatre.speak(take, 1, Speaker.USER, "still speaking " * 20)
    for _ in range(2):
        for size in [(20, 5), (1, 1), (80, 24), (33, 60), (200, 60), (120, 40), (10, 3)]:
            await pilot.resize_terminal(*size)
            await theatre.tick(pilot)
            assert len(on_screen(pilot).split("\n")) == size[1]
        await pilot.press("l", "enter")


async def test_every_theme_can_be_chosen(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    seen = [pilot.app.theme]
    for _ in range(5):
        await theatre.press(pilot, "T")
        seen.append(pilot.app.theme)
    names = ["dark", "light", "contrast", "blue-orange", "terminal", "dark"]
    assert seen == [f"crosswind-{name}" for name in names]


def stands_still(text: str) -> bool:
    """Whether nothing in it acts on a terminal, or hides."""
    return all(
        char == "\n" or unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"} for char in text
    ) and not re.search(
        "[\u202a-\u202e\u2066-\u2069\u200b\u200e\u200f\u061c\ufeff\U000e0000-\U000e007f]", text
    )


@pytest.mark.terminal(130, 40)
async def test_text_that_means_harm_is_only_shown(theatre: Theatre, pilot: Pilot) -> None:
    assert isinstance(pilot.app, CrosswindApp)
    pilot.app.notify(HOSTILE, markup=False)  # as an answer of the engine
    await pilot.pause()
    assert stands_still(on_screen(pilot))
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, HOSTILE, thought=HOSTILE)
    await theatre.said(take, 1, Speaker.TARGET, f"x {HOSTILE} y")
    await theatre.end(take)
    quotes = (Quote(HOSTILE, None), Quote("x \x1b[2J", 1))
    await theatre.judge(take, quotes=quotes, justification=HOSTILE, judge=HOSTILE)
    await theatre.move(Stage.SIMULATE, "other", State.FAILED, TARGETS[0], HOSTILE)
    theatre.link.problem = HOSTILE
    live = await theatre.begin(2)
    theatre.speak(live, 1, Speaker.USER, HOSTILE)
    await theatre.tick(pilot)
    assert stands_still(on_screen(pilot))

    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await theatre.tick(pilot)
    for key in ("L", "t", "pagedown", "c", "end"):
        await theatre.press(pilot, key)
        assert stands_still(on_screen(pilot))
    assert "[@click=app.quit]x[/]" in told(pilot)
    await pilot.resize_terminal(40, 12)
    await theatre.tick(pilot)
    assert stands_still(on_screen(pilot))

    await pilot.press("q")
    theatre.link.state = EngineState.STOPPED
    await theatre.tick(pilot, 20)
    assert stands_still(on_screen(pilot))


def test_a_store_that_fails_ends_the_app_with_its_message(
    theatre: Theatre, capsys: pytest.CaptureFixture[str]
) -> None:
    async def script(pilot: Pilot) -> None:
        assert isinstance(pilot.app, CrosswindApp)
        pilot.app.leave_with(StoreError("crosswind.db is damaged: run `crosswind repair`"))

    app = theatre.perform(script)
    assert app.return_code == 2
    approve(lines_with(capsys.readouterr().err, "crosswind.db is damaged:"))


def test_a_fault_shows_where_it_happened_and_no_values(theatre: Theatre) -> None:
    def fail() -> None:
        secret = "what a model said"
        raise ZeroDivisionError(len(secret))

    shown = crash(theatre, fail)

    assert "in fail" in shown
    assert "ZeroDivisionError" in shown
    where_it_is_set = 'secret = "what a model said"'
    assert "secret =" not in shown.replace(where_it_is_set, "", 1)


def crash(theatre: Theatre, fail: Callable[[], None]) -> str:
    """What the app leaves behind when this fails within it."""
    app = theatre.app()
    try:
        fail()
    except ZeroDivisionError:
        app._running = True
        app._fatal_error()
    (printed,) = app._exit_renderables
    assert isinstance(printed, Segments)
    return "".join(segment.text for segment in printed.segments)


def test_a_terminal_that_lags_behind_gets_fewer_frames_and_then_a_whole_one(
    theatre: Theatre,
) -> None:
    async def script(pilot: Pilot) -> None:
        app = pilot.app
        assert isinstance(app, LaggingApp)
        app.waiting = 9
        app.refresh()
        await pilot.pause()
        assert app._batch_count == 1

        app.waiting = 0
        await pilot.pause(0.12)
        assert app._batch_count == 0

    theatre.perform(script, app=LaggingApp(theatre.watch, moment=theatre.moment))


class LaggingApp(CrosswindApp):
    """One whose terminal takes what it is sent when it is told to."""

    waiting = 0

    def backlog(self) -> int:
        return self.waiting


def test_what_the_palette_says_the_command_line_does_it_does() -> None:
    assert COMMANDS.keys() >= _OUTSIDE


@pytest.mark.terminal(80, 24)
async def test_where_no_command_matches_the_palette_says_what_would_do(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.prepare()
    await theatre.tick(pilot)
    await pilot.press("colon")
    for typed, words in (
        ("validate", "`crosswind validate` does this on the command line."),
        ("settings", "Settings are in config.yaml; `crosswind doctor` checks it."),
        ("resluts", "Nothing has that name. Nearest: results"),
        ("qqqq", "Nothing has that name."),
    ):
        await theatre.answered(pilot)
        await pilot.press("ctrl+u", *typed)
        await theatre.answered(pilot)
        assert words in on_screen(pilot)
