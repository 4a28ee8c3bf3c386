"""The built-in themes: every text can be read on what it stands on, and the choice is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.theme import Theme

from tests.tui.contrast import LEAST_CONTRAST, contrast
from tests.tui.theatre import Pilot, Theatre, on_screen
from tui.app import CrosswindApp
from tui.themes import INKS, SIXTEEN, THEMES

LEAST_OF_MARKS = 3.0
"""From WCAG 2.1, for signs that are not text."""
WITH_COLOURS = [theme for theme in THEMES if theme is not SIXTEEN]


@pytest.mark.parametrize("theme", WITH_COLOURS, ids=lambda each: each.name)
def test_every_text_is_readable_on_every_ground(theme: Theme) -> None:
    inks = {name: theme.variables[f"ink-{name}"] for name in INKS}
    cursors = {name: inks.pop(name) for name in ("cursor-back", "cursor-idle-back")}
    marked = inks.pop("evidence-back")
    del inks["rule"]  # rules say nothing
    texts = {**inks, "text": theme.foreground}
    grounds = {**cursors, "background": theme.background, "surface": theme.surface}
    pairs = {(text, ground): (texts[text], grounds[ground]) for text in texts for ground in grounds}
    pairs |= {
        ("evidence", "evidence-back"): (inks["evidence"], marked),
        ("text", "panel"): (theme.foreground, theme.panel),
    }
    weak = {pair for pair, colours in pairs.items() if contrast(*colours) < LEAST_CONTRAST}
    # under a cursor, faint text is drawn like muted text
    assert weak <= {("faint", "cursor-back"), ("faint", "cursor-idle-back")}
    assert contrast(theme.variables["scrollbar"], theme.background) >= LEAST_OF_MARKS


def test_one_is_chosen_and_worn_the_next_time(theatre: Theatre, tmp_path: Path) -> None:
    memory = tmp_path / "home" / "app.json"

    async def choose(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        await pilot.press("colon", *"theme", "space", *"contrast", "enter")
        await theatre.answered(pilot)
        assert "Theme: contrast" in on_screen(pilot)

    async def look(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        assert pilot.app.theme == "crosswind-contrast"

    for script in (choose, look):
        app = CrosswindApp(theatre.watch, memory=memory, moment=theatre.moment)
        theatre.perform(script, app=app)
