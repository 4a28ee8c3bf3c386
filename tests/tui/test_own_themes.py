"""Themes of a user's own: what a file of them may say, and that the app wears them."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.theme import Theme

from engine.errors import InputError
from tests.tui.theatre import Theatre, on_screen
from tui.__main__ import main
from tui.app import CrosswindApp
from tui.own_themes import LEAST_CONTRAST, contrast, own_themes, too_weak
from tui.services.preferences import PreferencesFile
from tui.themes import INKS, SIXTEEN, THEMES, OwnThemes

LEAST_OF_MARKS = 3.0
"""From WCAG 2.1, for signs that are not text."""
DUSK = """dusk:
  base: dark
  background: "#1b1b2f"
  text: "#e0def4"
paper:
  base: light
  muted: "#b0b0b0"
"""


def written(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "themes.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('dusk:\n  base: dark\n  acent: "#ffffff"', "themes.yaml:3:3: dusk.acent: no colour has"),
        ("dusk: {base: dark, accent: teal}", "expected a colour such as `#5fafaf`, found `teal`"),
        ("dusk:\n  base: dark\n  text: #ffffff", "themes.yaml:3:8: dusk.text: expected a colour"),
        ("dusk: {base: grey}", "expected `base: dark` or `base: light`"),
        ('dusk: {accent: "#ffffff"}', "themes.yaml:1:7: dusk.base: expected"),
        ("light: {base: dark}", "a built-in theme has this name"),
        ("Dusk!: {base: dark}", "expected a name of up to 24 small letters"),
        ("dusk: dark", "expected `base` and colours, found text"),
        ("dusk: [", "themes.yaml:"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        own_themes(written(tmp_path, text))
    assert said in str(caught.value)


def test_what_is_hard_to_read_is_measured_and_what_is_not_given_is_the_bases(
    tmp_path: Path,
) -> None:
    found = own_themes(written(tmp_path, DUSK))
    dusk, paper = found.themes
    assert (dusk.background, dusk.surface, dusk.dark) == ("#1b1b2f", "#1b1b2f", True)
    assert (paper.background, paper.dark) == ("#eeeeee", False)
    assert found.weak == {"crosswind-paper": "muted on background 1.9:1"}


def test_nothing_is_hard_to_read_in_the_built_in_ones() -> None:
    assert [list(too_weak(theme)) for theme in THEMES if theme is not SIXTEEN] == [[]] * 4


@pytest.mark.parametrize(
    "theme", [each for each in THEMES if each is not SIXTEEN], ids=lambda each: each.name
)
def test_every_text_is_readable_in_dialogs_and_under_the_cursor(theme: Theme) -> None:
    inks = {name: theme.variables[f"ink-{name}"] for name in INKS}
    grounds = {name: inks.pop(name) for name in ("cursor-back", "cursor-idle-back")}
    del inks["evidence-back"], inks["rule"]
    grounds["surface"] = theme.surface or ""
    found = {
        (name, ground): contrast(inks[name], grounds[ground]) for name in inks for ground in grounds
    }
    # under a cursor, faint text is drawn like muted text
    weak = {pair for pair, ratio in found.items() if ratio < LEAST_CONTRAST}
    assert weak <= {("faint", "cursor-back"), ("faint", "cursor-idle-back")}
    assert contrast(theme.variables["scrollbar"], theme.background) >= LEAST_OF_MARKS


def test_one_is_chosen_and_worn_the_next_time(theatre: Theatre, tmp_path: Path) -> None:
    themes = own_themes(written(tmp_path, DUSK))
    memory = PreferencesFile(tmp_path / "home" / "app.json")

    def app(themes: OwnThemes) -> CrosswindApp:
        return CrosswindApp(theatre.watch, memory=memory, themes=themes, moment=theatre.moment)

    async def choose(pilot: Pilot[None]) -> None:
        await theatre.tick(pilot)
        await pilot.press("colon", *"theme", "space", *"paper", "enter")
        await theatre.answered(pilot)
        assert "Hard to read, under 4.5:1: muted on background 1.9:1" in on_screen(pilot)
        await pilot.press("colon", *"theme", "space", *"dusk", "enter")
        await theatre.answered(pilot)
        assert "Theme: dusk" in on_screen(pilot)

    async def look(pilot: Pilot[None]) -> None:
        await theatre.tick(pilot)
        assert str(pilot.app.screen.styles.background.hex).lower() == "#1b1b2f"

    async def without(pilot: Pilot[None]) -> None:
        await theatre.tick(pilot)
        assert pilot.app.theme.startswith("crosswind-")
        assert "dusk.acent: no colour has this name" in " ".join(on_screen(pilot).split())

    theatre.perform(choose, app=app(themes))
    theatre.perform(look, app=app(themes))
    with pytest.raises(InputError) as caught:
        own_themes(written(tmp_path, 'dusk:\n  base: dark\n  acent: "#ffffff"'))
    theatre.perform(without, app=app(OwnThemes(fault=caught.value)))


def test_the_command_lists_them_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for text, code in [(None, 0), (DUSK, 0), ("dusk: dark", 2)]:
        if text is not None:
            written(tmp_path / "crosswind", text)
        with pytest.raises(SystemExit) as left:
            main(["themes"])
        assert left.value.code == code
    told = capsys.readouterr()
    assert "paper (own)  light  muted on background 1.9:1" in told.out
    assert "evidence-back" in told.out
    assert "themes.yaml:1:7: dusk: expected `base` and colours, found text" in told.err
