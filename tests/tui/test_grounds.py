"""Every cell of every screen stands on the theme's own ground, and can be read on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from textual.screen import ModalScreen

from tests.tui.contrast import LEAST_CONTRAST, contrast
from tests.tui.test_pictures import a_run, settle
from tests.tui.theatre import Pilot, Theatre
from tui.app import CrosswindApp
from tui.text.ink import Ink, Piece
from tui.themes import LIGHT, theme_for
from tui.widgets.base import LineView

KEYS = """1 o escape 3 F escape s escape m r escape enter c L t slash escape C q v q z q 4
right_curly_bracket right_curly_bracket right_curly_bracket 5 j 6 2 w q question_mark escape
colon escape i escape slash escape x escape y escape space q""".split()
"""Through every screen, and what lies over them."""
LEAST = 0.6
"""Of the brightest."""
SIZE = (80, 24)


def dark_grounds(pilot: Pilot) -> Iterator[str]:
    """Texts on a ground that is none, or a dark one, but for the cursor of an input."""
    for strip in pilot.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            back = None if style is None else style.color if style.reverse else style.bgcolor
            triplet = None if back is None else back.triplet
            if triplet is None or (sum(triplet) / 3 / 255 < LEAST and len(text) > 1):
                yield text


def weak_words(pilot: Pilot) -> Iterator[str]:
    """Words with too little contrast; none where a dialog dims what is beneath it."""
    strips = pilot.app.screen._compositor.render_strips()
    if isinstance(pilot.app.screen, ModalScreen):
        return
    for text, style, _ in (segment for strip in strips for segment in strip):
        if any(map(str.isalnum, text)):
            assert style is not None
            colours = [each and each.triplet for each in (style.color, style.bgcolor)]
            fore, back = (each and each.hex for each in colours)
            if contrast(fore, back) < LEAST_CONTRAST:
                yield text


def test_every_cell_of_the_light_theme_is_light(theatre: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await settle(theatre, pilot)
        for key in KEYS:
            await theatre.press(pilot, key)
            seen.append(type(pilot.app.screen).__name__)
            assert (key, seen[-1], list(dark_grounds(pilot))) == (key, seen[-1], [])
            assert (key, seen[-1], list(weak_words(pilot))) == (key, seen[-1], [])

    seen: list[str] = []
    asyncio.run(a_run(theatre))
    app = CrosswindApp(theatre.watch, theme=LIGHT.name, moment=theatre.moment)
    theatre.perform(script, SIZE, app)
    assert len(set(seen)) > 15


async def test_faint_text_is_readable_under_a_cursor(theatre: Theatre, pilot: Pilot) -> None:
    await theatre.tick(pilot)
    view = pilot.app.screen.query(LineView).first()
    for back in (Ink.CURSOR, Ink.CURSOR_IDLE):
        text, style, _ = next(iter(view.paint([Piece("little", Ink.FAINT)], back)))
        assert style is not None
        assert (text[:6], style.color) == ("little", view.ink(Ink.MUTED).color)


def test_a_cursor_in_the_terminals_own_colours_has_one_ground(theatre: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        view = pilot.app.screen.query(LineView).first()
        line = [Piece("✗", Ink.BAD), Piece(" a "), Piece("┊", Ink.RULE), Piece("b", Ink.ACCENT)]
        styles = [style for text, style, _ in view.paint(line, Ink.CURSOR) if text.strip()]
        assert {style and (style.reverse, style.color, style.dim) for style in styles} == {
            (True, view.ink(Ink.TEXT).color, None)
        }

    app = CrosswindApp(theatre.watch, theme=theme_for("standard"), moment=theatre.moment)
    theatre.perform(script, SIZE, app)
