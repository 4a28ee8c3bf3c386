"""Screens for a terminal that shows ASCII alone."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color

from engine.benchmark import Speaker
from engine.display import ASCII_VARIABLE, wants_ascii
from tests.tui.terminal import Terminal
from tests.tui.theatre import Pilot, Theatre
from tui.app import CrosswindApp
from tui.services.terminal import AsciiFilter, in_ascii


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "C.utf8"}, False),
        ({"LANG": "C"}, True),
        ({"LC_ALL": "POSIX", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_ALL": "", "LANG": "en_US.ISO-8859-1"}, True),
        ({"LC_ALL": "C", ASCII_VARIABLE: "0"}, False),
        ({"LC_ALL": "C.UTF-8", ASCII_VARIABLE: "1"}, True),
    ],
)
def test_the_locale_says_what_the_terminal_shows(environ: dict[str, str], *, wanted: bool) -> None:
    assert wants_ascii(environ) is wanted


def test_each_line_keeps_its_width_and_signs_that_stand_together_differ() -> None:
    text = "✓✗· +−  █▓▒░─ ▁▂▃▄▅▆▇█  ⠤⣀ 模型 é \U0001f600 \u05d0 a\u0301"
    [drawn] = AsciiFilter().apply([Segment(text)], Color(0, 0, 0))
    assert drawn.text.isascii()
    assert cell_len(drawn.text) == cell_len(text)
    for together in ("✓✗·", "+−", "█▓▒░─", "▁▂▃▄▅▆▇█", "◇◆·•", "○●"):
        assert len(set(in_ascii(together))) == len(together)
    assert in_ascii("é") == "e"


def test_every_main_screen_and_the_title_of_the_window_are_in_ascii(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(CrosswindApp, "to_terminal", lambda _app, text: told.append(text))
    monkeypatch.setenv(ASCII_VARIABLE, "1")

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play())
        theatre.speak(await theatre.begin(2), 1, Speaker.USER, "Güte, 模型 \U0001f600")
        for key in ("2", "1", "3", "right_curly_bracket", "enter", "v", "4", "5", "question_mark"):
            await theatre.press(pilot, key)
            picture = pilot.app.export_screenshot()
            assert {char for char in picture if not char.isascii()} <= {"\xa0"}
        await theatre.tick(pilot, 2)
        assert any("\x1b]0;crosswind 25% >" in text for text in told)
        assert "".join(told).isascii()

    theatre.perform(script, (80, 24))


def test_commands_write_ascii_to_a_terminal_whose_locale_is_ascii() -> None:
    variables = {"LC_CTYPE": "", ASCII_VARIABLE: "", "LC_ALL": "", "LANG": "C"}
    words = ("doctor", "--workspace", "/nowhere")
    with Terminal(None, (80, 24), words, **variables) as terminal:
        terminal.read_to_the_end()
    assert terminal.shown
    assert terminal.shown.isascii()
