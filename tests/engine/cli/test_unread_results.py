"""Where the store is gone and the files hold what it held, nothing is asked again unasked."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest

from engine.cli.main import main
from engine.store.database import open_store
from tests.approval import approve, lines_with
from tests.engine import commands
from tests.engine.commands import Crosswind, Somebody
from tests.engine.small_workspace import Place, small_workspace
from tests.tui.terminal import Eyes, Terminal

pytestmark = pytest.mark.run


@pytest.fixture
def place(played: Place) -> Place:
    """A workspace whose benchmark was run, and whose store is gone since."""
    for path in played.root.glob("crosswind.db*"):
        path.unlink()
    return played


@pytest.fixture
def crosswind(place: Place) -> Crosswind:
    return partial(commands.crosswind, place.root)


def calls(place: Place) -> int:
    with place.reader() as reader:
        return len(reader.used_calls())


@pytest.mark.parametrize("is_empty", [False, True])
def test_nothing_is_asked_until_a_repair_brings_it_back(
    place: Place, crosswind: Crosswind, is_empty: bool
) -> None:
    if is_empty:  # as a program makes one that finds none
        open_store(place.root / "crosswind.db").close()
    files = {path: path.read_bytes() for path in place.folder.rglob("*.json*")}
    code, out, err = crosswind("run", "--headless")
    assert (code, out) == (2, "")
    approve(err)
    assert {path: path.read_bytes() for path in place.folder.rglob("*.json*")} == files
    code, out, _ = crosswind("status")
    assert (code, "nothing has run" in out) == (0, False)
    approve(lines_with(out, "`crosswind repair` makes"))
    told = crosswind("status", "--json").json()
    assert "`crosswind repair`" in told["unread_results"]
    assert told["summary"] == out.splitlines()[0]
    code, _, err = crosswind("run", "--dry-run")
    assert (code, "note: " in err, "`crosswind repair`" in err) == (2, True, True)
    code, out, _ = crosswind("doctor")
    assert code == 1
    approve(lines_with(out, "hold what was"))

    # nobody has to agree where there is no store that could be replaced
    assert crosswind("repair", *(["--yes"] if is_empty else [])).code == 0
    code, out, _ = crosswind("status")
    assert (code, "nothing has run" in out) == (0, False)
    approve(out)
    before = calls(place)
    code, _, err = crosswind("run", "--headless")
    assert (code, "was run here" in err) == (0, False)
    assert calls(place) == before
    assert "is whole" in crosswind("repair").out


@pytest.mark.parametrize(
    ("command", "stream"), [(["status"], "stdout"), (["run", "--headless"], "stderr")]
)
def test_sentences_break_between_words_on_a_terminal(
    place: Place, command: list[str], stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = Somebody()
    monkeypatch.setattr(sys, stream, shown)
    main([*command, "--workspace", str(place.root)])
    lines = shown.getvalue().splitlines()
    words = "hold what was run here: `crosswind repair` makes the store again from them"
    assert words in " ".join(lines)
    # a word may be longer than a line, as a path is
    assert [line for line in lines if len(line) > 80 and " " in line] == []


def test_on_a_terminal_a_person_chooses_to_repair(
    place: Place, crosswind: Crosswind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Somebody("\n"))
    assert crosswind("run", "--headless").code == 2
    monkeypatch.setattr(sys, "stdin", Somebody("r\n"))
    code, _, err = crosswind("run", "--headless")
    approve(err)
    assert code == 0
    with place.reader() as reader:
        assert len(reader.takes("giving-in")) == 16


def test_a_person_may_begin_anew(place: Place, crosswind: Crosswind) -> None:
    assert crosswind("run", "--headless", "--anew", "--until", "simulate")[0] == 0
    assert calls(place)


def test_files_that_no_run_left_hold_nothing_up(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    (place.folder / "scenarios.json").write_text("[]")
    assert commands.crosswind(tmp_path, "run", "--headless", "--until", "gen_metrics").code == 0


def test_before_the_app_opens_a_person_chooses(place: Place) -> None:
    size = (120, 40)
    with Terminal(None, size, ["--workspace", str(place.root)]) as terminal:
        eyes = Eyes(terminal, size)
        shown = eyes.see("r rebuilds it from them · Enter opens the app without it [r/-]")
        words = "hold what was run here: `crosswind repair` makes the store again from them"
        assert words in " ".join(shown.split())  # lines end between words
        eyes.press("r\r", "Benchmarks", "q quit")
        eyes.leave("q", b"")
    assert calls(place)
