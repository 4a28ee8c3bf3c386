"""The display boundary: nothing that is shown acts on a terminal, and no script is harmed."""

from __future__ import annotations

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from engine.display import clean, display_text, one_line, plural
from tui.services.terminal import ControlCodeFilter

BLACK = Color(0, 0, 0)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2J", "␛[2J"),
        ("\x1b]52;c;cHduZWQ=\x07", "␛]52;c;cHduZWQ=␇"),
        ("a\x00b\x7fc\r", "a␀b␡c␍"),
        ("\x9b31m", "\ufffd31m"),
        ("user\u202eemit", "user\ufffdemit"),
        ("\u2066x\u2069 \u200e \u061c", "\ufffdx\ufffd \ufffd \ufffd"),
        ("line\u2028line", "line\ufffdline"),
        ("\U000e0041\U000e007f", "\ufffd\ufffd"),
        ("zero\u200bwidth\ufeff\u2060\u00ad\ufff9", "zerowidth"),
        ("half \ud800", "half \ufffd"),
        ("Z" + "\u0301" * 40, "Z" + "\u0301" * 4),
        ("new\nline\ttab", "new\nline\ttab"),
    ],
)
def test_what_acts_on_a_terminal_becomes_something_to_see(raw: str, shown: str) -> None:
    assert clean(raw) == shown


@pytest.mark.parametrize(
    "text",
    ["مرحبا بالعالم", "שָׁלוֹם", "नमस्ते दुनिया", "สวัสดีที่นี่", "👩‍👩‍👧‍👦 👍🏽 ☺️", "Tiếng Việt", "中文。"],
)
def test_scripts_and_joined_emoji_survive(text: str) -> None:
    assert clean(text) == text


def test_tabs_are_blanks_in_a_view_and_a_cell_has_one_line() -> None:
    assert display_text("a\tb") == "a    b"
    assert one_line("a\n  b\t\x1bc") == "a b ␛c"


def test_the_last_filter_takes_out_what_slipped_through_and_keeps_the_width() -> None:
    style = Style(bold=True, link="https://example.org", meta={"@click": "x"})
    line = [Segment("safe ", Style(bold=True)), Segment("a\x1b]0;t\x07b\u202ec\x85\n", style)]

    drawn_line = ControlCodeFilter().apply(line, BLACK)

    assert [segment.text for segment in drawn_line] == ["safe ", "a]0;tbc"]
    assert drawn_line[1].style is not None
    assert drawn_line[1].style.link is None


def test_the_last_filter_leaves_clean_lines_alone() -> None:
    line = [Segment("— ✓ pass 但是", Style(bold=True))]

    assert ControlCodeFilter().apply(line, BLACK) is line


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (1_200, ("row",), "1,200 rows"),
        (1, ("try", "tries"), "1 try"),
        (30_240, ("try", "tries"), "30,240 tries"),
    ],
)
def test_an_amount_agrees_with_its_noun_and_is_read_in_thousands(
    number: int, words: tuple[str, ...], said: str
) -> None:
    assert plural(number, *words) == said
