"""The engine's end of the link: watchers of any kind are answered, and none harms it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import pytest

from engine.errors import StoreError
from engine.kill_points import KillPoint
from engine.link import EngineState, Request, Response
from engine.service import server
from engine.service.protocol import LONGEST_LINE, LONGEST_TEXT
from engine.service.server import MOST_UNREAD
from engine.service.socket import (
    LONGEST_PATH,
    UnsafeFolderError,
    private_folder,
    socket_path,
    usable_socket,
)
from tests.approval import approve
from tests.engine.service.staging import BENCHMARK, KEY, Stage, Stranger
from tests.waiting import Child, until

TEXT = {"ask": "text", "benchmark": BENCHMARK, "key": asdict(KEY)}


def test_the_socket_is_the_users_alone(stage: Stage) -> None:
    stage.start()
    assert stage.path.stat().st_mode & 0o777 == 0o600
    assert stage.path.parent.stat().st_mode & 0o777 == 0o700


def test_the_socket_of_a_dead_engine_is_replaced_and_taken_away_at_the_end(stage: Stage) -> None:
    stage.path.parent.mkdir(mode=0o700)
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(stage.path))
    dead.close()
    stage.start()
    Stranger(stage.path).close()
    stage.stop()
    assert not stage.path.exists()


def test_a_socket_that_somebody_deletes_is_there_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.01)
    stage.start()
    Stranger(stage.path).close()
    stage.path.unlink()
    until(stage.path.exists)
    Stranger(stage.path).close()
    assert stage.path.stat().st_mode & 0o777 == 0o600
    stage.path.parent.rename(stage.path.parent.with_name("gone"))  # both at once
    until(stage.path.exists)
    Stranger(stage.path).close()


def test_whoever_finds_the_socket_is_let_in(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there only when it is listened at."""
    came: list[KillPoint] = []

    def come(moment: KillPoint) -> None:
        if stage.path.exists():
            Stranger(stage.path).close()
            came.append(moment)

    monkeypatch.setattr(server, "reached", come)
    stage.start()
    assert came == [KillPoint.BOUND]


def test_watchers_are_told_goodbye_where_the_socket_is_gone(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LOOK_SECONDS", 0.01)
    stage.start()
    stranger = Stranger(stage.path)
    stranger.ask(ask="board")
    assert stranger.hear()["ok"]
    stage.path.parent.rename(stage.path.parent.with_name("gone"))
    stage.path.parent.write_text("in its way")
    until(lambda: stage.server._listening is None)
    stage.stop()
    assert stranger.hear()["goodbye"]
    assert stranger.hear() is None
    stranger.close()


def test_what_is_no_socket_is_left_where_it_is(stage: Stage) -> None:
    stage.path.parent.mkdir(mode=0o700)
    stage.path.write_text("a diary")
    with pytest.raises(UnsafeFolderError, match="is not a socket"):
        stage.start()
    assert stage.path.read_text() == "a diary"
    stage._server = None


def test_a_socket_that_another_engine_put_there_is_left(stage: Stage) -> None:
    stage.start()
    stage.path.unlink()
    stage.path.touch()
    stage.stop()
    assert stage.path.exists()


def test_a_path_that_is_too_long_is_refused_in_words(folder: Path) -> None:
    stage = Stage(folder / ("x" * 110) / "engine.sock")
    try:
        with pytest.raises(UnsafeFolderError, match="too long for a socket"):
            stage.start()
    finally:
        stage._server = None
        stage.close()


@pytest.mark.parametrize("uid", [54321, None])
def test_another_user_is_told_so_and_hung_up_on(stage: Stage, uid: int | None) -> None:
    stage.start(uid_of=lambda _: uid)
    stranger = Stranger(stage.path)
    with contextlib.suppress(BrokenPipeError):
        stranger.ask(ask="command", request={"command": "stop_now"})
    approve(stranger.hear())
    assert stranger.hear() is None
    assert not stage.engine.requests
    stranger.close()


def test_a_board_that_is_known_is_not_told_again(stage: Stage, stranger: Stranger) -> None:
    stranger.ask(ask="board")
    first = stranger.hear()["ok"]
    assert first["board"]["state"] == "running"
    stranger.ask(ask="board", seen=first["number"])
    assert stranger.hear()["ok"] == {"number": first["number"], "board": None}
    stage.engine.state = EngineState.PAUSED

    def changed() -> bool:
        stranger.ask(ask="board", seen=first["number"])
        heard = stranger.hear()["ok"]
        return heard["board"] is not None and heard["board"]["state"] == "paused"

    until(changed)


def test_a_fault_of_ours_refuses_a_request_and_stops_nothing(
    stage: Stage, stranger: Stranger
) -> None:
    async def fail(request: Request) -> Response:
        raise StoreError("the disk is full") if request.number else ZeroDivisionError

    stage.engine.reply = fail
    stranger.ask(ask="command", request={"command": "pause", "number": 1})
    approve(stranger.hear()["ok"])
    stranger.ask(ask="command", request={"command": "pause"})
    approve(stranger.hear()["error"])
    stranger.ask(ask="board")
    assert stranger.hear()["ok"]["board"]


@pytest.mark.parametrize("line", [b"rubbish\n", b"{}\n", b"[1]\n", b'{"v":2,"id":5}\n'])
def test_a_line_of_nonsense_is_told_so_and_the_talk_goes_on(
    line: bytes, stranger: Stranger
) -> None:
    stranger.say(line)
    assert stranger.hear()["error"]
    stranger.ask(ask="board")
    assert stranger.hear()["ok"]


def test_another_version_is_told_both(stranger: Stranger) -> None:
    stranger.ask(v=3, id=8, ask="board")
    heard = stranger.hear()
    assert heard["id"] == 8
    approve(heard["error"])


def test_a_line_that_never_ends_is_not_kept(stage: Stage, stranger: Stranger) -> None:
    until(lambda: stage.server.watchers == 1)
    with pytest.raises((BrokenPipeError, ConnectionResetError)):  # noqa: PT012  (it breaks where it breaks)
        for _ in range(LONGEST_LINE // 65536 + 10):
            stranger.say(b"x" * 65536)
        while stranger.hear() is not None:
            pass
        stranger.say(b"x")
    until(lambda: stage.server.watchers == 0)


def test_a_watcher_that_floods_the_engine_leaves_it_room(stage: Stage, stranger: Stranger) -> None:
    """Both are answered while thousands of questions of one of them wait."""
    stage.engine.speak("x" * 1000)
    question = json.dumps({"v": 2, "id": 1, **TEXT}).encode() + b"\n"
    stranger.say(question * 500)
    other = Stranger(stage.path)
    other.ask(ask="board")
    assert other.hear()["ok"]
    for _ in range(500):
        assert stranger.hear()["ok"]
    other.close()


def test_a_watcher_that_takes_no_answers_is_let_go_of(stage: Stage, stranger: Stranger) -> None:
    stage.engine.speak("x" * LONGEST_TEXT)
    until(lambda: stage.server.watchers == 1)
    most = MOST_UNREAD // LONGEST_TEXT
    for _ in range(most * 3):
        try:
            stranger.ask(**TEXT)
        except OSError:
            break
    until(lambda: stage.server.watchers == 0)


STOPPED = """
import socket, sys
watcher = socket.socket(socket.AF_UNIX)
watcher.connect(sys.argv[1])
for _ in range(8):
    watcher.sendall(sys.argv[2].encode() + b"\\n")
print("asked", flush=True)
sys.stdin.read()
"""


def test_a_watcher_that_is_stopped_holds_nobody_up(stage: Stage, stranger: Stranger) -> None:
    stage.engine.speak("x" * LONGEST_TEXT)
    question = json.dumps({"v": 2, "id": 1, **TEXT})
    with Child(
        [sys.executable, "-c", STOPPED, str(stage.path), question],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "asked\n"
        os.kill(child.pid, signal.SIGSTOP)
        for _ in range(20):
            stranger.ask(**TEXT)
            assert stranger.hear()["ok"]["text"]
    until(lambda: stage.server.watchers == 1)


def test_at_the_end_every_watcher_hears_the_last_board(stage: Stage, stranger: Stranger) -> None:
    other = Stranger(stage.path)
    for each in (stranger, other):
        each.ask(ask="board")
        assert each.hear()["ok"]
    stage.engine.state = EngineState.STOPPED
    stage.engine.problem = "the disk is full"
    stage.stop()
    for each in (stranger, other):
        last = each.hear()
        assert last["id"] == 0
        assert last["goodbye"]["state"] == "stopped"
        approve(last["goodbye"]["problem"])
        assert each.hear() is None
    other.close()


def test_a_request_at_hand_is_answered_before_the_engine_leaves(
    stage: Stage, stranger: Stranger
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def slowly(request: Request) -> Response:
        asked.set()
        await go.wait()
        return Response(accepted=True, text=f"{request.command} at last")

    stage.engine.reply = slowly

    async def leave() -> None:
        await asked.wait()
        asyncio.get_running_loop().call_later(0.05, go.set)
        await stage.server.close()

    stranger.ask(ask="command", request={"command": "stop"})
    stage.run(leave())
    assert stranger.hear()["ok"]["text"] == "stop at last"
    assert stranger.hear()["goodbye"]


# Where an engine is reached, and who else may be there.


def test_a_workspace_has_one_address_however_it_is_named(folder: Path) -> None:
    (folder / "workspace").mkdir()
    (folder / "link").symlink_to(folder / "workspace")
    address = socket_path(folder / "workspace", folder)
    assert address == socket_path(folder / "link", folder)
    assert address == socket_path(folder / "x" / ".." / "workspace", folder)
    assert address.parent == folder / f"crosswind-{os.getuid()}"
    assert len(address.stem) == 16
    assert address != socket_path(folder / "another", folder)


def test_an_address_that_is_too_long_for_a_socket_is_moved(folder: Path) -> None:
    address = socket_path(folder, Path("/var/folders") / ("x" * 60))
    assert address.parent == Path(f"/tmp/crosswind-{os.getuid()}")
    assert len(os.fsencode(address)) <= LONGEST_PATH


def test_the_folder_is_made_for_its_user_alone(folder: Path) -> None:
    previous = os.umask(0)
    try:
        private_folder(folder / "own")
    finally:
        os.umask(previous)
    assert (folder / "own").stat().st_mode & 0o777 == 0o700
    private_folder(folder / "own")


def test_a_folder_that_is_a_link_is_refused(folder: Path) -> None:
    (folder / "elsewhere").mkdir(mode=0o700)
    (folder / "own").symlink_to(folder / "elsewhere")
    with pytest.raises(UnsafeFolderError, match=r"is a link to another place.*TMPDIR"):
        private_folder(folder / "own")


def test_a_folder_that_is_open_to_others_is_refused(folder: Path) -> None:
    (folder / "own").mkdir()
    (folder / "own").chmod(0o750)
    with pytest.raises(UnsafeFolderError, match=r"open to others \(mode 0750"):
        private_folder(folder / "own")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(folder: Path) -> None:
    (folder / "own").mkdir(mode=0o700)
    os.chown(folder / "own", 12345, -1)
    with pytest.raises(UnsafeFolderError, match="belongs to user 12345"):
        private_folder(folder / "own")


def test_a_file_in_its_place_and_a_place_that_is_not_there_are_refused(folder: Path) -> None:
    (folder / "own").touch()
    with pytest.raises(UnsafeFolderError, match="is not a folder"):
        private_folder(folder / "own")
    with pytest.raises(UnsafeFolderError, match="cannot be made"):
        private_folder(folder / "missing" / "own")


def test_where_somebody_was_first_another_folder_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may make the first one, where the system's temporary folder is everybody's."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("HOME", str(folder / "home"))
    (folder / "home").mkdir()
    assert usable_socket(folder) == (socket_path(folder), None)
    (folder / f"crosswind-{os.getuid()}").chmod(0o755)
    path, why = usable_socket(folder)
    assert path == folder / "home" / ".cache" / "crosswind" / socket_path(folder).name
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "open to others" in str(why)
    path.parent.chmod(0o755)
    path, why = usable_socket(folder)
    assert path.parent.parent == folder
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert usable_socket(folder)[0] != path
