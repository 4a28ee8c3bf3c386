"""Keys of a user's own: what a file of them may say, and that they do what is said."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.binding import Binding
from textual.screen import Screen

from engine.errors import InputError
from engine.link import Command
from tests.approval import approve
from tests.tui.theatre import Pilot, Theatre, on_screen
from tui.app import CrosswindApp
from tui.bindings import bindings_of, key_name, name_of
from tui.own_keys import bound_classes, built_in, key_of, keymap, own_keys
from tui.screens.cards import HelpScreen
from tui.screens.search import SearchScreen
from tui.services.palette import commands


def written(folder: Path, text: str) -> Path:
    path = folder / "keys.yaml"
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("f", "f"),
        ("F", "F"),
        ("§", "section_sign"),
        ("?", "question_mark"),
        ("+", "plus"),
        (",", "comma"),
        ("F2", "f2"),
        ("Ctrl+F", "ctrl+f"),
        ("ctrl+I", "tab"),
        ("PgUp", "pageup"),
        ("question_mark", "question_mark"),
        ("Shift+Tab", "shift+tab"),
        ("shift+x", None),
        ("meta+x", None),
        ("Ctrl+", None),
        ("F25", None),
        ("", None),
        ("two words", None),
        ("\u0301", None),
        ("\u00a0", None),
    ],
)
def test_keys_are_written_as_they_are_shown(text: str, key: str | None) -> None:
    assert key_of(text) == key


@pytest.mark.parametrize("text", ["F2", "Delete", "Insert", "Alt+X", "é", "✓", "?", "Esc"])
def test_what_is_shown_of_a_key_is_read_again(text: str) -> None:
    key = key_of(text)
    assert key is not None
    assert key_name(key) == text
    assert key_of(key_name(key)) == key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "copy: F9\npuase: F2",
            "keys.yaml:2:1: puase: no action has this name (did you mean `pause`?",
        ),
        ("pause: q", "keys.yaml:1:8: pause: `q` is already the key of `back` (everywhere)"),
        (
            "star: [F9, b]",
            "keys.yaml:1:12: star[1]: `b` is already the key of `begin` (Benchmarks)",
        ),
        ("mark: j", "`j` is already the key of `down` (lists and texts)"),
        ("mark: Ctrl+M", "`Enter` is already the key of"),
        ("pause: ctrl+c", "`Ctrl+C` is already the key of `quit`"),
        ("copy: F9\nexport: f9", "keys.yaml:2:9: export: `F9` is already the key of `copy`"),
        ("stop: shift+x", "expected a key, found `shift+x` (write `f`, `F`"),
        ("zoom: true", "zoom: expected a key, found true or false"),
        ("filter: []", "filter: expected one to 5 keys"),
        ("open: F2", "open: no action has this name"),
        ("pause: ?\nx", "keys.yaml:"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        own_keys(written(tmp_path, text))
    assert said in str(caught.value)


def test_a_key_may_be_used_where_no_two_actions_meet(tmp_path: Path) -> None:
    text = "filter: F9\nfind: [F9, Ctrl+F]\ngo_live: 9\nback: q\n"
    own = own_keys(written(tmp_path, text))
    assert own == {
        "filter": ("f9",),
        "find": ("f9", "ctrl+f"),
        "go_live": ("9",),
        "back": ("q",),
    }
    given = keymap(own)
    assert given["filter:F"] == "f9,F"
    assert given["back:q"] == "q"


def test_no_class_gives_one_key_to_two_names() -> None:
    """Textual takes a key that is given anew from all that a class does with it."""
    for kind in bound_classes():
        names: dict[str, set[str | None]] = {}
        own = Binding.make_bindings(kind.__dict__["BINDINGS"])
        for binding in own:
            names.setdefault(binding.key, set()).add(name_of(binding))
        assert all(len(found) == 1 for found in names.values()), kind


def test_every_key_of_a_screen_is_listed() -> None:
    listed = {(row.key, row.binding.action) for row in built_in()}
    for binding in bindings_of(CrosswindApp):
        assert (binding.key, binding.action) in listed


def shows(pilot: Pilot, kind: type[Screen[None]]) -> bool:
    return isinstance(pilot.app.screen, kind)


def help_text(pilot: Pilot) -> str:
    screen = pilot.app.screen
    assert isinstance(screen, HelpScreen)
    return "\n".join("".join(piece.text for piece in line) for line in screen.lines)


def app_with(theatre: Theatre, path: Path) -> CrosswindApp:
    return CrosswindApp(
        theatre.watch,
        theme="crosswind-dark",
        moment=theatre.moment,
        read_keys=lambda: keymap(own_keys(path)),
    )


def test_own_keys_act_and_are_shown_and_built_in_ones_stay(
    theatre: Theatre, tmp_path: Path
) -> None:
    path = written(tmp_path, "pause: Y\ngo_live: F6\nback: K\n")

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        footer = on_screen(pilot).splitlines()[-1]
        assert "Y pause" in footer
        assert "1 3-5 F6 screens" in footer
        assert "P pause" not in footer
        assert footer.endswith("K quit")
        assert {command.name: command.keys for command in commands(pilot.app, pilot.app.screen)}[
            "pause"
        ] == "Y P"
        await pilot.press("question_mark")
        assert "  Y  P " in help_text(pilot)
        await pilot.press("q", "Y")
        await theatre.answered(pilot)
        assert theatre.link.commands == [Command.PAUSE]
        await pilot.press("P")
        await theatre.answered(pilot)
        assert len(theatre.link.commands) == 2
        await theatre.press(pilot, "slash", "Y", "K")
        assert shows(pilot, SearchScreen)
        assert len(theatre.link.commands) == 2, "a letter is a letter where words are typed"
        footer = on_screen(pilot).splitlines()[-1]
        assert "Y pause" not in footer
        assert "K back" not in footer
        await theatre.press(pilot, "escape")
        assert not shows(pilot, SearchScreen)

    theatre.perform(script, app=app_with(theatre, path))


def test_with_a_faulty_file_the_built_in_keys_hold(theatre: Theatre, tmp_path: Path) -> None:
    path = written(tmp_path, "pause: Y\npuase: F2\ncopy: q\n")

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.tick(pilot)
        (notice,) = [toast.message for toast in pilot.app._notifications]
        approve(notice)
        assert "P pause" in on_screen(pilot).splitlines()[-1]
        await pilot.press("Y")
        await theatre.answered(pilot)
        assert theatre.link.commands == []

    theatre.perform(script, app=app_with(theatre, path))
