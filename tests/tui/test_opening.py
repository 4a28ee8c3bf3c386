"""How the app opens: what is stored is shown at once, and the configuration is read after that."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_utils import Database

from engine.cli.commands.typed import CliCommand
from engine.cli.commands.upkeep import DemoCommand
from engine.errors import InputError, Problem
from engine.link import EngineLink
from engine.store.migrations import MIGRATIONS
from engine.store.open_reader import empty_reader, is_older, open_reader
from engine.watch import BenchmarkInfo, Watch, named_only
from tests.approval import approve, cells_with
from tests.engine.small_workspace import BENCHMARK, CONFIG
from tests.tui.idle import Gate
from tests.tui.terminal import Terminal
from tests.tui.theatre import Pilot, Theatre, on_screen
from tui.__main__ import main
from tui.app import CrosswindApp
from tui.format import READING


class Described:
    """A configuration that is read when the test lets it."""

    def __init__(self, theatre: Theatre) -> None:
        self.may_be_read = Gate()
        self.problem: InputError | None = None
        self.theatre = theatre
        self.told = list(theatre.watch.benchmarks), theatre.link
        theatre.watch.benchmarks = named_only([info.name for info in theatre.watch.benchmarks])
        theatre.watch.described, theatre.watch.link = False, None

    def app(self, place: str = "Benchmarks") -> CrosswindApp:
        moment = self.theatre.moment
        return CrosswindApp(self.theatre.watch, place=place, moment=moment, describe=self.read)

    def read(self) -> tuple[Sequence[BenchmarkInfo], EngineLink]:
        self.may_be_read.wait()
        if self.problem is not None:
            raise self.problem
        return self.told

    async def go_on(self, pilot: Pilot) -> None:
        self.may_be_read.set()
        await self.theatre.answered(pilot)
        await self.theatre.answered(pilot)


def app_of(pilot: Pilot) -> CrosswindApp:
    assert isinstance(pilot.app, CrosswindApp)
    return pilot.app


def test_what_is_stored_is_shown_before_the_configuration_is_read(theatre: Theatre) -> None:
    described = Described(theatre)

    async def script(pilot: Pilot) -> None:
        await theatre.prepare()
        app_of(pilot).tick()
        await pilot.pause()
        shown = on_screen(pilot)
        assert "steadiness" in shown
        assert shown.count(READING) == 2
        assert "nothing to do" not in shown
        assert "Holding steady" not in shown
        assert "steadfast" not in shown

        await described.go_on(pilot)
        shown = on_screen(pilot)
        assert READING not in shown
        approve(cells_with(shown, "Holding steady", "steadfast", "scripted models, not"))
        assert theatre.watch.link is theatre.link

    theatre.perform(script, app=described.app())


def test_other_screens_are_loaded_behind_the_first_frame(
    theatre: Theatre, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = Described(theatre)
    begun: list[str] = []

    async def scene(pilot: Pilot) -> None:
        await theatre.prepare()
        assert begun == []
        await described.go_on(pilot)
        await pilot.pause()
        assert begun == ["behind it"]

    monkeypatch.setattr("tui.app.preload", lambda: begun.append("behind it"))
    theatre.perform(scene, app=described.app())


def test_no_key_to_a_place_loads_anything_after_that() -> None:
    program = (
        "import sys; from tui.navigation import preload; import tui.app; preload().join()\n"
        "loaded = set(sys.modules)\n"
        "import tui.screens.search, tui.screens.conversations, tui.screens.conversation\n"
        "import tui.screens.results, tui.screens.live, tui.screens.verdicts, tui.screens.cards\n"
        "print(sorted(set(sys.modules) - loaded))\n"
        "print(sorted(loaded & {'openai', 'anthropic', 'httpx', 'pandas', 'scipy'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_what_is_typed_ahead_is_done_when_everything_is_read(theatre: Theatre) -> None:
    described = Described(theatre)

    async def script(pilot: Pilot) -> None:
        await pilot.press("3", "right_curly_bracket")
        await pilot.click("#benchmarks")
        assert pilot.app.current_mode == CrosswindApp.DEFAULT_MODE

        await described.go_on(pilot)
        assert pilot.app.current_mode == "Verdicts"

        await pilot.press("1")
        assert pilot.app.current_mode == CrosswindApp.DEFAULT_MODE

    theatre.perform(script, app=described.app())


def test_one_can_leave_while_it_is_being_read(theatre: Theatre) -> None:
    described = Described(theatre)

    async def script(pilot: Pilot) -> None:
        await pilot.press("ctrl+c")
        described.may_be_read.set()

    app = theatre.perform(script, app=described.app())
    assert app.fault is None
    assert app.return_code == 0


def test_a_configuration_that_is_wrong_ends_the_app_with_what_is_wrong(theatre: Theatre) -> None:
    described = Described(theatre)
    described.problem = InputError(Problem("unknown key", Path("config.yaml"), 3))

    async def script(pilot: Pilot) -> None:
        await described.go_on(pilot)

    assert theatre.perform(script, app=described.app()).fault is described.problem


def test_a_store_that_is_made_only_then_is_watched_from_then_on(theatre: Theatre) -> None:
    with closing(Watch(empty_reader(theatre.store.path), (), described=False)) as watch:
        assert not watch.poll()
        assert not watch.reader.benchmarks()

        asyncio.run(theatre.prepare())
        watch.reader.move_to(open_reader(theatre.store.path))
        watch.describe(theatre.watch.benchmarks, theatre.link)

        assert watch.poll()
        assert watch.progress.stages == theatre.watch.reader.snapshot().stages


def workspace(folder: Path, config: str = CONFIG) -> Path:
    benchmark = folder / "benchmarks" / "giving-in" / "benchmark.yaml"
    benchmark.parent.mkdir(parents=True)
    benchmark.write_text(BENCHMARK, "utf-8")
    (folder / "config.yaml").write_text(config, "utf-8")
    return folder


def opened(folder: Path) -> Terminal:
    return Terminal(words=["--workspace", str(folder)], XDG_CONFIG_HOME=str(folder / "choices"))


def test_the_app_opens_where_nothing_was_run_as_large_as_its_terminal(tmp_path: Path) -> None:
    """Whatever size the shell exports; and the store is where the configuration says."""
    elsewhere = tmp_path / "results"
    elsewhere.mkdir()
    folder = workspace(tmp_path / "work", f"# store: /nowhere\n{CONFIG}store: {elsewhere}/\n")
    words = ["--workspace", str(folder)]
    with Terminal(words=words, COLUMNS="40", LINES="10", XDG_CONFIG_HOME=str(tmp_path)) as terminal:
        terminal.read_until(b"giving-in")
        terminal.read_until(b"wavers")
        terminal.read_until(b"\x1b[24;1H", since=0)
        terminal.resize((80, 30))
        terminal.read_until(b"\x1b[30;1H")
        terminal.press("q")
        assert terminal.read_to_the_end() == 0
    assert (elsewhere / "crosswind.db").exists()
    assert not (folder / "crosswind.db").exists()


def test_a_wrong_configuration_is_told_when_the_app_has_gone_and_nothing_is_made_for_it(
    tmp_path: Path,
) -> None:
    workspace(tmp_path, CONFIG.replace("turns: 2", "turns: 0"))

    with opened(tmp_path) as terminal:
        assert terminal.read_to_the_end() == 2
    left = terminal.shown.rpartition(b"\x1b[?1049l")[2]
    assert b"config.yaml:5" in left
    assert b"generation.turns" in left
    assert b"Traceback" not in left
    assert not (tmp_path / "crosswind.db").exists()


def test_a_store_that_cannot_be_read_is_told_before_anything_is_drawn(tmp_path: Path) -> None:
    store = workspace(tmp_path) / "crosswind.db"
    store.write_bytes(b"no store" * 1000)

    with opened(tmp_path) as terminal:
        assert terminal.read_to_the_end() == 2
    assert b"\x1b[?1049h" not in terminal.shown
    assert b"crosswind repair" in terminal.shown


def test_the_app_migrates_a_store_of_an_older_version(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    store = folder / "crosswind.db"
    with closing(sqlite3.connect(store)) as connection:
        MIGRATIONS.apply(Database(connection), stop_before="2 whose it is")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()

    with opened(folder) as terminal:
        terminal.read_until(b"wavers")
    assert not is_older(store)


def test_a_terminal_that_cannot_place_text_is_told_why_there_is_no_app(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    for words in (["run", "--workspace", str(folder)], []):
        with Terminal(words=words, TERM="dumb") as terminal:
            assert terminal.read_to_the_end() == 0
        said = b" ".join(terminal.shown.split())
        assert b"the app cannot open here: TERM is dumb or not set" in said
        assert (b"this goes on here, in plain lines" in said) is bool(words)
        assert (b"giving-in evaluate 16/16" in said) is bool(words)
        # last where it follows the help, which is longer than most screens
        assert said.endswith(b"`TERM=xterm-256color crosswind` opens it") is not bool(words)
        assert b"\x1b" not in terminal.shown


def test_the_demo_says_what_it_does_before_there_is_an_app(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before: list[str] = []

    def opening(command: CliCommand) -> int:
        assert isinstance(command, DemoCommand)
        before.append(capsys.readouterr().err)
        return 0

    monkeypatch.setattr("tui.__main__.opens_app", lambda _: True)
    monkeypatch.setattr("tui.__main__._from", lambda *_: opening)
    with pytest.raises(SystemExit) as left:
        main(["demo"])
    assert left.value.code == 0
    [said] = before
    approve(said)
    assert max(map(len, said.splitlines())) < 80
