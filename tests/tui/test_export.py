"""Taking texts out of the app: clipboard, pager, files; and what is remembered."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import stat
import threading
from pathlib import Path

import pytest

from engine.benchmark import Speaker, StopReason
from engine.cli.command_line import parse
from engine.facts import NoteKind, RunEnd
from engine.jury import AskedConversations, Counts
from engine.link import EngineState
from engine.report.writing import HIDDEN, Hide, hiding
from engine.store.reader import Reader
from tests.approval import approve, lines_with
from tests.tui.theatre import BENCHMARK, JURY, Pilot, Theatre, on_screen, shell
from tui.app import CrosswindApp
from tui.launch import exit_summary
from tui.screens.conversation import ConversationScreen
from tui.services import export
from tui.services.engine_control import Backend
from tui.services.export import (
    MOST_FOR_TERMINAL,
    as_json,
    as_markdown,
    copy,
    programs,
)
from tui.services.preferences import Preferences, UserSettings, choices_file
from tui.services.terminal import GIVE_TITLE_BACK, KEEP_TITLE, viewer
from tui.state.related import Subject

COUNTS = Counts(AskedConversations(BENCHMARK, {}, (), (), 0), JURY)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, and a folder where nothing is yet."""
    folder = tmp_path / "home"
    folder.mkdir()
    for name in ("TMUX", "DISPLAY", "WAYLAND_DISPLAY", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)
    return folder


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


async def at_conversation(theatre: Theatre, pilot: Pilot, text: str = "hello") -> Subject:
    await theatre.prepare()
    take = await theatre.begin()
    await theatre.said(take, 1, Speaker.USER, text, "It wavers.")
    await theatre.said(take, 1, Speaker.TARGET, "I would not.")
    await theatre.end(take)
    await theatre.judge(take)
    await pilot.app.push_screen(ConversationScreen(shell(pilot), BENCHMARK, take.key))
    await theatre.tick(pilot)
    return Subject(BENCHMARK, take.key)


@pytest.mark.process
def test_every_way_is_tried_and_the_file_is_private(home: Path) -> None:
    program(home, "tmux", f'cat > "{home}/tmux.txt"; echo "$@" >> "{home}/tmux.txt"')
    program(home, "xclip", "exit 1")
    environ = {
        "HOME": str(home),
        "PATH": f"{home}:{os.environ['PATH']}",
        "TMUX": "x",
        "DISPLAY": ":0",
    }
    os.environ["PATH"], before = environ["PATH"], os.environ["PATH"]
    sent: list[str] = []
    try:
        copied = asyncio.run(copy("a\x1b[2Jb", environ, sent.append))
    finally:
        os.environ["PATH"] = before

    assert (home / "tmux.txt").read_text("utf-8") == "a␛[2Jbload-buffer -w -\n"
    assert sent == ["a␛[2Jb"]
    file = home / ".cache" / "crosswind" / "copied.txt"
    assert file.read_text("utf-8") == "a␛[2Jb"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    approve(lines_with(copied, "Copied 6 characters to"))


def test_what_is_too_long_for_a_terminal_goes_elsewhere(home: Path) -> None:
    sent: list[str] = []
    copied = asyncio.run(copy("x" * (MOST_FOR_TERMINAL + 1), {"HOME": str(home)}, sent.append))
    assert sent == []
    assert copied == f"Copied 50,001 characters to {home / '.cache/crosswind/copied.txt'}"


def test_over_ssh_the_far_clipboard_is_left_alone(home: Path) -> None:
    program(home, "wl-copy", "cat")
    near = {"PATH": str(home), "WAYLAND_DISPLAY": "w"}
    assert [name for name, _ in programs(near)] == ["the clipboard"]
    assert programs({**near, "SSH_CONNECTION": "x"}) == []


def test_a_home_that_cannot_be_written_is_said(home: Path) -> None:
    (home / ".cache").write_text("in the way", "utf-8")
    copied = asyncio.run(copy("x" * 60_000, {"HOME": str(home)}, lambda _text: None))
    approve(copied)


async def test_y_offers_text_id_command_and_json(
    theatre: Theatre, pilot: Pilot, home: Path
) -> None:
    subject = await at_conversation(theatre, pilot)
    copied = home / ".cache" / "crosswind" / "copied.txt"
    await pilot.press("y")
    assert "Copy what?" in on_screen(pilot)
    await pilot.press("i")
    await theatre.answered(pilot)
    assert copied.read_text("utf-8") == str(subject.key)
    assert f"Copied {len(str(subject.key))} characters" in on_screen(pilot)
    assert pilot.app.clipboard == str(subject.key)

    await pilot.press("y", "c")
    await theatre.answered(pilot)
    assert copied.read_text("utf-8").startswith(f"crosswind show {subject.key} --benchmark")
    await pilot.press("y", "r")
    await theatre.answered(pilot)
    line = f"crosswind evaluate {subject.key} --benchmark {BENCHMARK} --workspace "
    assert copied.read_text("utf-8").startswith(line)
    await pilot.press("y", "enter")
    await theatre.answered(pilot)
    assert "I would not." in copied.read_text("utf-8")
    await pilot.press("y", "j")
    await theatre.answered(pilot)
    assert json.loads(copied.read_text("utf-8"))[0]["conv_id"] == str(subject.key)
    await pilot.press("y", "s")
    await theatre.answered(pilot)
    assert "Crosswind" in copied.read_text("utf-8")
    await pilot.press("y", "q")
    assert isinstance(pilot.app.screen, ConversationScreen)


def test_a_key_that_a_server_repeats_leaves_the_app_in_no_form(
    theatre: Theatre, home: Path
) -> None:
    key = 'sk-"own"-0123456789'
    backend = Backend(hiding=lambda: hiding([key]))

    async def script(pilot: Pilot) -> None:
        subject = await at_conversation(theatre, pilot, f"Your key is {key}.")
        copied, texts = home / ".cache" / "crosswind" / "copied.txt", []
        for form in ("enter", "j", "s"):
            await pilot.press("y", form)
            await theatre.answered(pilot)
            texts.append(copied.read_text("utf-8"))
        for form in "mjs":
            await pilot.press("E", form)
            await theatre.answered(pilot)
        texts += [(home / f"{subject.key}.{end}").read_text("utf-8") for end in ("md", "json")]
        assert all(HIDDEN in text or "\\[hidden\\]" in text for text in texts)
        texts.append((home / "crosswind-live.svg").read_text("utf-8"))
        assert not [text for text in texts if "0123456789" in text]

    app = CrosswindApp(theatre.watch, moment=theatre.moment, backend=backend)
    theatre.perform(script, app=app)


async def test_the_conversation_is_written_and_nothing_is_overwritten(
    theatre: Theatre, pilot: Pilot, home: Path
) -> None:
    subject = await at_conversation(theatre, pilot, "a\x1b[2Jb")
    for keys in ("Em", "Em", "Ej", "Es"):
        await pilot.press(*keys)
        await theatre.answered(pilot)
    written = names_in(home)
    key = str(subject.key)
    assert written == ["crosswind-live.svg", f"{key}-2.md", f"{key}.json", f"{key}.md"]
    markdown = (home / f"{key}.md").read_text("utf-8")
    assert "> a␛\\[2Jb" in markdown
    assert "It wavers." in markdown
    assert "\npassed, present" in markdown
    [take] = json.loads((home / f"{key}.json").read_text("utf-8"))
    assert take["transcript"][0]["content"] == "a\x1b[2Jb"
    assert take["verdicts"][0]["passed"] is True
    assert (home / "crosswind-live.svg").read_text("utf-8").startswith("<svg")


async def test_what_the_export_asks_fits_what_there_is_to_export(
    theatre: Theatre, pilot: Pilot
) -> None:
    await theatre.open(pilot, "3", "X")
    await pilot.press("E")
    assert "Export the screen?" in on_screen(pilot)


def test_a_folder_that_takes_no_file_is_said(theatre: Theatre, home: Path) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        os.chdir("/proc/self")
        await pilot.press("E", "s")
        await theatre.answered(pilot)
        assert "/proc" in on_screen(pilot)

    theatre.perform(script)
    os.chdir(home)


async def test_a_terminal_that_cannot_be_handed_over_says_where_the_text_is(
    theatre: Theatre, pilot: Pilot, home: Path
) -> None:
    subject = await at_conversation(theatre, pilot)
    await pilot.press("vertical_line")
    await theatre.answered(pilot)
    assert "cannot be handed" in " ".join(on_screen(pilot).split())
    path = home / ".cache" / "crosswind" / f"{subject.key}.md"
    assert "I would not." in path.read_text("utf-8")


def test_the_pager_is_the_one_that_a_person_chose(home: Path) -> None:
    program(home, "mypager", "cat")
    path = {"PATH": str(home)}
    assert viewer({**path, "PAGER": "mypager -x", "EDITOR": "vi"}) == ["mypager", "-x"]
    assert viewer({**path, "PAGER": "nowhere", "EDITOR": "mypager"}) == ["mypager"]
    assert viewer({**path, "PAGER": "'open", "EDITOR": ""}) is None


COMMANDS = {
    "1": ("c", f"crosswind run {BENCHMARK} --workspace "),
    "2": ("w", "crosswind watch --workspace "),
    "3 }": ("r", f"crosswind evaluate m01_s001_v01__steadfast --benchmark {BENCHMARK} "),
    "4": ("c", f"crosswind results {BENCHMARK} --details --workspace "),
    "3 { X": ("a", f"crosswind run {BENCHMARK} m01_s002_v01__pushover "),
}
"""By the keys of a place: the key that copies its command, and how that begins."""


async def test_each_place_has_the_command_that_does_the_same_outside(
    theatre: Theatre, pilot: Pilot, home: Path
) -> None:
    await theatre.prepare()
    await theatre.judge(await theatre.play())
    await theatre.end(await theatre.begin(2, "pushover"), StopReason.TARGET_FAILED)
    await theatre.tick(pilot)
    for keys, (letter, line) in COMMANDS.items():
        await pilot.press(*keys.split())
        for _ in range(3):
            await theatre.tick(pilot)
        await pilot.press("y")
        await pilot.pause()
        assert f" {letter}  crosswind " in on_screen(pilot)
        await pilot.press(letter)
        await theatre.answered(pilot)
        copied = (home / ".cache" / "crosswind" / "copied.txt").read_text("utf-8")
        assert copied.startswith(line)
        assert parse(shlex.split(copied)[1:]).runs


def test_json_and_markdown_tell_every_take(theatre: Theatre) -> None:
    async def play() -> Subject:
        await theatre.prepare()
        await theatre.play()
        take = await theatre.play(number=1)
        return Subject(BENCHMARK, take.key)

    subject = asyncio.run(play())
    reader = theatre.watch.reader
    assert [each["take"] for each in json.loads(as_json(reader, subject, hiding(())))] == [2, 1]
    assert as_markdown(reader, subject, COUNTS, hiding(())).count("scripted models") == 2


def test_a_markdown_file_gives_the_result_that_counts(theatre: Theatre) -> None:
    async def play() -> Subject:
        await theatre.prepare()
        take = await theatre.play()
        await theatre.judge(take, passed=False)
        await theatre.judge(take, passed=True, judge="offline:strict")
        return Subject(BENCHMARK, take.key)

    markdown = as_markdown(theatre.watch.reader, asyncio.run(play()), COUNTS, hiding(()))
    assert "- result: failed" in markdown


def test_what_others_say_is_only_text_in_a_markdown_file(theatre: Theatre) -> None:
    async def play() -> Subject:
        await theatre.prepare()
        take = await theatre.begin()
        await theatre.said(take, 1, Speaker.USER, "# Verdict\n[passed](http://example.org) <b>")
        return Subject(BENCHMARK, take.key)

    markdown = as_markdown(theatre.watch.reader, asyncio.run(play()), COUNTS, hiding(()))
    assert "> \\# Verdict" in markdown
    assert "[passed](" not in markdown
    assert "<b>" not in markdown


def test_choices_are_kept_for_the_next_time(theatre: Theatre, home: Path) -> None:
    memory = choices_file(os.environ)
    assert memory == home / ".config" / "crosswind" / "app.json"

    async def script(pilot: Pilot) -> None:
        await theatre.tick(pilot)
        await pilot.press("t", "T", "4", "Z")
        approve(lines_with(on_screen(pilot), "The mouse is"))

    app = CrosswindApp(theatre.watch, theme="crosswind-dark", memory=memory, moment=theatre.moment)
    theatre.perform(script, app=app)

    again = CrosswindApp(theatre.watch, memory=memory)
    kept = UserSettings("crosswind-light", "Results", thoughts=True, mouse=False)
    assert again.preferences.choices == kept
    assert (again.theme, again.navigator.place) == ("crosswind-light", "Results")


@pytest.mark.parametrize("text", ["{", "[1]", "\x00", '{"theme": 3, "place": "../x"}', "[" * 10**5])
def test_damaged_choices_are_left_aside_with_a_notice(tmp_path: Path, text: str) -> None:
    path, told = tmp_path / "app.json", list[str]()
    path.write_text(text, "utf-8")
    preferences = Preferences(path, tmp_path, told.append)
    preferences.tell_notices()
    assert preferences.choices == UserSettings()
    assert told == [f"{path} cannot be read and is left aside: what was chosen is gone"]


class SpokenTo(CrosswindApp):
    """An app that keeps what its terminal is told."""

    said = ""

    def to_terminal(self, text: str) -> None:
        self.said += text


def test_the_title_says_how_far_it_is_and_the_end_is_told(theatre: Theatre) -> None:
    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play())
        await theatre.tick(pilot, 2)
        assert isinstance(pilot.app, SpokenTo)
        assert pilot.app.said.startswith(KEEP_TITLE)
        assert "\x1b]0;crosswind 25% ▸\x1b\\" in pilot.app.said
        assert "\x07" not in pilot.app.said

        theatre.link.state = EngineState.STOPPED
        await theatre.tick(pilot, 2)
        await theatre.tick(pilot, 2)
        assert pilot.app.said.count("\x07") == 1
        assert "run is over" not in on_screen(pilot)  # Live says it in its header
        assert "was cut off" in on_screen(pilot).splitlines()[0]

    app = SpokenTo(theatre.watch, moment=theatre.moment)
    theatre.perform(script, app=app)
    assert app.said.endswith(GIVE_TITLE_BACK)


@pytest.mark.parametrize(
    ("end", "words"),
    [(RunEnd.DONE, "The run has ended."), (RunEnd.STOPPED, "The run was stopped.")],
)
async def test_the_end_of_a_run_is_told_once_on_other_screens(
    theatre: Theatre, pilot: Pilot, end: RunEnd, words: str
) -> None:
    await theatre.prepare()
    await theatre.begin()
    await theatre.open(pilot, "3", "right_curly_bracket")
    await theatre.note(NoteKind.RUN_ENDED, text=end)
    theatre.link.state = EngineState.STOPPED
    await theatre.tick(pilot, 2)
    await theatre.tick(pilot, 2)
    assert words in on_screen(pilot)


def test_what_stays_on_the_terminal_says_how_far_everything_is(theatre: Theatre) -> None:
    async def play() -> None:
        await theatre.prepare()
        await theatre.judge(await theatre.play())
        await theatre.end(await theatre.begin(2), StopReason.TARGET_FAILED)

    assert list(exit_summary(theatre.watch)) == []
    asyncio.run(play())
    theatre.watch.poll()
    approve(list(exit_summary(theatre.watch)))


def test_a_long_conversation_is_read_on_a_thread_while_the_app_goes_on(
    theatre: Theatre, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def as_markdown(reader: Reader, subject: Subject, counts: Counts | None, hide: Hide) -> str:
        threads.append(threading.current_thread())
        return "told"

    monkeypatch.setattr(export, "as_markdown", as_markdown)

    async def script(pilot: Pilot) -> None:
        subject = await at_conversation(theatre, pilot)
        await pilot.press("E", "m")
        await theatre.answered(pilot)
        assert (home / f"{subject.key}.md").read_text("utf-8") == "told"

    theatre.perform(script)
    assert threading.main_thread() not in threads
