"""The recording: a moving picture that is small, whole, and fetches nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pyte

from tests.approval import approve
from tools.manual.film import Frame, film, rows_of
from tools.manual.pages import PICTURES
from tools.recording import MOST_BYTES

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*screens: str) -> ET.Element:
    size = (12, 2)
    frames = []
    for shown in screens:
        screen = pyte.Screen(*size)
        pyte.Stream(screen).feed(shown)
        frames.append(Frame(0.5, rows_of(screen, fore="#ffffff", back="#000000")))
    return ET.fromstring(film(frames, size, back="#000000", title="two & more"))


def texts(found: ET.Element) -> Sequence[str]:
    return [one.text or "" for one in found.iter(f"{SVG}text")]


def test_a_line_that_stays_is_drawn_once_and_shown_in_each_frame() -> None:
    found = drawn("same\r\none", "same\r\ntwo")
    assert sorted(texts(found)) == ["one", "same", "two"]
    assert len(list(found.iter(f"{SVG}use"))) == 4
    [style] = [one.text or "" for one in found.iter(f"{SVG}style")]
    approve(style)
    assert re.findall(r"([\d.]+)% { transform: translateY\((\S+)px\)", style) == [
        ("0.000", "0"),
        ("50.000", "-36"),
    ]


def test_colours_and_wide_letters_keep_their_cells() -> None:
    found = drawn("\x1b[1;38;2;255;0;10mab\x1b[0m\x1b[7m c \x1b[0m漢x")
    bold, reversed_, rest = found.iter(f"{SVG}text")
    assert (bold.text, bold.get("fill"), bold.get("class")) == ("ab", "#ff000a", "b")
    assert (reversed_.text, reversed_.get("fill")) == (" c", "#000000")
    assert (rest.text, rest.get("x"), rest.get("textLength")) == ("漢x", "42", "25.2")
    [cells] = [one for one in found.iter(f"{SVG}rect") if one.get("width") == "25.2"]
    assert (cells.get("x"), cells.get("fill")) == ("16.8", "#ffffff")


def test_what_a_model_says_is_text_and_nothing_else() -> None:
    assert texts(drawn("</text>&<"))[0] == "</text>&<"


def test_the_recording_is_small_and_asks_nobody_for_anything() -> None:
    recorded = (PICTURES / "demo.svg").read_text("utf-8")
    assert len(recorded.encode()) < MOST_BYTES
    assert "<script" not in recorded
    assert "url(" not in recorded
    found = ET.fromstring(recorded)
    assert len(list(found.iter(f"{SVG}text"))) > 500
