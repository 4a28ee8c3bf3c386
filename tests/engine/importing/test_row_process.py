"""A large import has its rows made by a process of its own, and nothing tells but the time."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.engine.importing.building import (
    Ours,
    Theirs,
    conversation,
    scenario,
    score,
    transcript,
)
from tests.engine.importing.test_import import publish, published
from tests.waiting import PATIENCE_S, Child, until

AT_ANY_SIZE: Final = (
    "import os, signal, sys, time\n"
    "from pathlib import Path\n"
    "from engine.importing import row_process\n"
    "from engine.cli.main import main\n"
    "row_process._LARGE, os.cpu_count = 0, lambda: 2\n"
)
IN_ONE: Final = "from engine.cli.main import main\nimport sys\n"
RUN: Final = "sys.exit(main(sys.argv[1:]))\n"
_OTHER: Final = (
    "class Rows(row_process.BenchmarkRows):\n"
    "    def rows(self):\n"
    "        Path('pid').write_text(str(os.getpid()))\n"
    "        while True: {what}\n"
    "row_process.BenchmarkRows = Rows\n"
)
NEVER_DONE: Final = _OTHER.format(what="yield self._note()")
KILLED: Final = _OTHER.format(what="os.kill(os.getpid(), signal.SIGKILL); yield")
HALF_SENT: Final = (
    "class Outbox(row_process._Outbox):\n"
    "    def _send(self):\n"
    "        message = self._waiting.get()\n"
    "        whole = len(message).to_bytes(8, 'big') + message\n"
    "        os.write(self._outgoing.fileno(), whole[:-1])\n"
    "        os.kill(os.getpid(), signal.SIGKILL)\n"
    "row_process._Outbox = Outbox\n"
)


def start(source: str, ours: Ours, folder: Path) -> Child:
    command = [sys.executable, "-c", source + RUN, "--workspace", str(ours.root), "import"]
    return Child(
        [*command, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ours.root,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )


def stored(ours: Ours) -> dict[str, list[Any]]:
    """Every row of every table with its `seq`, without the time."""
    with closing(sqlite3.connect(ours.store)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        found = {}
        for [table] in tables.fetchall():
            names = [one[1] for one in connection.execute(f"PRAGMA table_info({table})")]
            listed = ", ".join(name for name in names if name != "at")
            found[table] = connection.execute(f"SELECT {listed} FROM {table}").fetchall()
    # which tell of files and processes
    for table in ("lease", "mirrored", "counts_as_of", "_sqlite_migrations"):
        found.pop(table, None)
    return found


def several(theirs: Theirs) -> Path:
    """Three benchmarks: one with rows that cannot be taken and a file that cannot be read, one that
    cannot be taken at all, and one as it should be."""
    for name in ("broken", "sound"):
        folder = theirs.folder.with_name(name)
        folder.mkdir()
        text = (theirs.folder / "benchmark.yaml").read_text("utf-8")
        (folder / "benchmark.yaml").write_text("[" if name == "broken" else text, "utf-8")
        theirs.write(folder / "scenarios.json", [scenario()])
        theirs.write(folder / "runs" / "gpt-x" / "conversations.json", [conversation()])
    theirs.add_run([conversation(), 7, conversation("m02_s001_v01", sample=1)])
    cut = theirs.folder / "runs" / "other" / "conversations.json"
    cut.parent.mkdir(parents=True)
    cut.write_text('[{"id": "m01_s001_v01",', "utf-8")
    return theirs.root


def site(theirs: Theirs) -> Path:
    rows = [published(), published(samples=3), published(scenario_id="scenario_004_m02_v01")]
    return publish(theirs.root.with_name("site"), *rows)


@pytest.mark.parametrize("made", [several, site])
def test_the_store_and_what_is_said_are_the_same(
    made: Callable[[Theirs], Path], theirs: Theirs, ours: Ours, tmp_path: Path
) -> None:
    folder = made(theirs)
    other = Ours(tmp_path / "other")
    other.root.mkdir()
    (other.root / "config.yaml").write_bytes((ours.root / "config.yaml").read_bytes())
    told = []
    for place, source in ((ours, IN_ONE), (other, AT_ANY_SIZE)):
        with start(source, place, folder) as command:
            said = command.communicate(timeout=PATIENCE_S)
        told.append((command.returncode, *said))
    assert told[0] == told[1]
    assert told[0][0] == 1
    assert "Traceback" not in told[0][2]
    assert stored(ours) == stored(other)
    assert stored(ours)["message"]


def test_what_joins_rows_of_an_earlier_import_is_the_same(
    theirs: Theirs, ours: Ours, tmp_path: Path
) -> None:
    (theirs.folder / "scenarios.json").unlink(missing_ok=True)
    other = Ours(tmp_path / "other")
    other.root.mkdir()
    (other.root / "config.yaml").write_bytes((ours.root / "config.yaml").read_bytes())
    partial: dict[str, Any] = {"transcript": transcript(1), "__row_cache_partial__": True}
    told = {**scenario(), **conversation(transcript=transcript(about="another house"))}
    versions: list[list[list[dict[str, Any]]]] = [
        [[conversation(), conversation(_sample=1, **partial)], [score()]],
        [[told, conversation(_sample=1)], [score(), score(sample=1)]],
    ]
    for conversations, scores in versions:
        theirs.add_run(conversations, scores)
        for place, source in ((ours, IN_ONE), (other, AT_ANY_SIZE)):
            with start(source, place, theirs.root) as command:
                command.communicate(timeout=PATIENCE_S)
            assert command.returncode == 0
    assert stored(ours) == stored(other)
    takes, messages, verdicts = (stored(ours)[one] for one in ("take", "message", "verdict"))
    # one beside the first, of the scenario that came with it, and one that was continued
    assert (len(takes), len(messages), len(verdicts)) == (3, 12, 3)
    assert [take[0] for take in stored(ours)["scenario"]] == [takes[-1][6]]


@pytest.mark.parametrize("killed", [KILLED, HALF_SENT], ids=["before_a_message", "within_one"])
def test_a_process_that_is_killed_is_told_and_nothing_is_taken(
    killed: str, theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    with start(AT_ANY_SIZE + killed, ours, theirs.root) as command:
        said, complained = command.communicate(timeout=PATIENCE_S)
    assert command.returncode == 1
    assert "giving-in: not taken" in said
    what = "the process that reads its files ended before it was done (-9), so nothing of it was"
    assert f"{theirs.folder}: {what} taken (import again)" in complained
    assert not stored(ours)["take"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 3), (signal.SIGKILL, -9)])
def test_no_process_is_left_however_the_import_ends(
    number: signal.Signals, code: int, theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    with start(AT_ANY_SIZE + NEVER_DONE, ours, theirs.root) as command:
        maker = int(until(lambda: text_of(ours.root / "pid")))
        command.send_signal(number)
        complained = command.communicate(timeout=PATIENCE_S)[1]
    assert command.returncode == code
    assert "Traceback" not in complained
    until(lambda: not is_there(maker))
    assert not stored(ours)["take"]


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
