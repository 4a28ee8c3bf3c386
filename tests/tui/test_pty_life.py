"""A real run in a real terminal: whatever happens to either, the terminal gets back what it had,
and the run goes on."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import which

import pytest

from engine.store.lock import workspace_holder
from tests.engine.small_workspace import Place, small_workspace
from tests.tui.terminal import Eyes, Terminal
from tests.waiting import until

SIZE = (100, 30)
MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
TO_BEGIN_WITH = {b"7", b"25"}
"""Modes that are on in a terminal that nobody has changed."""


def modes(sent: bytes) -> set[bytes]:
    """Those that are on, after all that."""
    on = set(TO_BEGIN_WITH)
    for match in MODES.finditer(sent):
        for mode in match[1].split(b";"):
            (on.add if match[2] == b"h" else on.discard)(mode)
    return on


def ended(terminal: Terminal) -> bool:
    terminal.drain()
    return terminal.process.poll() is not None


def is_whole(eyes: Eyes) -> bool:
    """Whether one frame stands there, from its first line to its last."""
    eyes.look()
    lines = eyes.screen.splitlines()
    return (
        lines[0].startswith(" Crosswind")
        and lines[-1].endswith("q quit")
        and sum("q quit" in line for line in lines) == 1
    )


def stopped(terminal: Terminal) -> bool:
    """It must be read meanwhile: whoever puts a terminal in order writes to it first."""
    terminal.drain()
    stat = Path(f"/proc/{terminal.process.pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Talks that last longer than any test."""
    small_workspace(tmp_path).long_talks()
    yield tmp_path
    holder = workspace_holder(tmp_path)
    if holder is not None and holder.pid is not None:
        os.kill(holder.pid, signal.SIGKILL)


def attached(tmux: list[str], size: tuple[int, int]) -> Terminal:
    words = [*tmux, "attach-session"]
    program = f"import os; os.execvp('tmux', {words!r})"
    return Terminal(program=("-c", program), size=size)


def messages(root: Path) -> int:
    with Place(root).reader() as reader:
        return sum(len(reader.messages(take.seq)) for take in reader.takes("giving-in"))


def opened(root: Path, *words: str) -> Terminal:
    home = str(root)
    arguments = (*words, "--workspace", str(root))
    return Terminal(words=arguments, size=SIZE, XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home)


def test_a_run_survives_what_its_terminals_go_through(root: Path) -> None:
    with opened(root, "run") as terminal:
        before = terminal.settings
        eyes = Eyes(terminal, SIZE)
        eyes.see("turn 1 of 100")
        eyes.press("\x1a", "no shell here")
        assert not stopped(terminal), "no shell would bring it back"
        eyes.press("?", "On this screen")
        eyes.press("\x1b", "turn ", gone="On this screen")
        through_a_storm_of_sizes(terminal)
        until(lambda: is_whole(eyes), lambda: eyes.screen)
        stopped_and_continued(terminal, eyes, before)
        terminal.process.send_signal(signal.SIGTERM)
        until(lambda: ended(terminal))
        assert terminal.settings == before
        assert terminal.read_to_the_end() == 0
        assert modes(terminal.shown) == TO_BEGIN_WITH
        assert b"crosswind watch" in terminal.shown

    with opened(root, "watch") as terminal:
        eyes = Eyes(terminal, SIZE)
        eyes.see("turn ", "quit")
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.read_to_the_end() == 0
        assert modes(terminal.shown) == TO_BEGIN_WITH

    holder = workspace_holder(root)
    with opened(root, "watch") as terminal:
        terminal.read_until(b"turn ")
        assert terminal.hang_up() == 0
    assert workspace_holder(root) == holder, "the engine feels none of it"
    told = messages(root)
    until(lambda: messages(root) > told)

    with opened(root, "watch") as terminal:
        eyes = Eyes(terminal, SIZE)
        eyes.see("turn ", "quit")
        holder = workspace_holder(root)
        assert holder is not None
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGKILL)
        eyes.see("the engine was killed")
        terminal.press("\x03")
        assert terminal.read_to_the_end() == 0
        assert modes(terminal.shown) == TO_BEGIN_WITH


def through_a_storm_of_sizes(terminal: Terminal) -> None:
    """From the smallest to the largest, at any moment; at the end as it was."""
    for across in range(20, 201, 6):
        terminal.resize((across, 5 + (across - 20) * 55 // 180))
        terminal.read_some(0.005)
    for size in ((20, 5), (200, 60), (1, 1), (20, 5), SIZE):
        terminal.resize(size)
        terminal.read_some(0.02)


def stopped_and_continued(terminal: Terminal, eyes: Eyes, before: list[object]) -> None:
    """As `kill -TSTP` and `fg` do."""
    terminal.process.send_signal(signal.SIGTSTP)
    until(lambda: stopped(terminal))
    terminal.settle(0.1)
    assert modes(terminal.shown) == TO_BEGIN_WITH, "the shell gets a terminal that it can use"
    assert terminal.settings == before
    terminal.process.send_signal(signal.SIGCONT)
    since = len(terminal.shown)
    for place in (b"Crosswind", b"quit"):  # the first line and the last
        terminal.read_until(place, since=since)
    until(lambda: is_whole(eyes), lambda: eyes.screen)
    assert {b"1049", b"1006", b"2004"} <= modes(terminal.shown)
    assert terminal.settings != before


@pytest.mark.skipif(which("tmux") is None, reason="tmux is not installed")
def test_a_session_is_left_and_found_again_in_another_size(root: Path) -> None:
    server = f"cw-{root.name}-{os.getpid()}"
    tmux = ["tmux", "-L", server, "-f", "/dev/null"]
    words = [sys.executable, "-m", "tui", "run", "--workspace", str(root)]
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    home = {**kept, "XDG_CONFIG_HOME": str(root), "TERM": "xterm-256color"}
    new = [*tmux, "new-session", "-d", "-x", "100", "-y", "30", shlex.join(words)]
    subprocess.run(new, check=True, env=home)
    try:
        for size in [(100, 30), (200, 60), (20, 5)]:
            with attached(tmux, size) as terminal:
                eyes = Eyes(terminal, size)
                eyes.see("running", "q quit")
                subprocess.run([*tmux, "detach-client"], check=True)
                # in which modes it leaves the terminal is tmux's own affair: it tries to write what
                # ends them for half a millisecond, and gives up where nobody reads meanwhile
                assert terminal.read_to_the_end() == 0
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def shell_on(root: Path, *words: str) -> Terminal:
    """A terminal in which a person types to a shell."""
    program = f"import os; os.execvp({words[0]!r}, {list(words)!r})"
    home = str(root)
    return Terminal(
        program=("-c", program), size=SIZE, PS1="$ ", XDG_CONFIG_HOME=home, XDG_CACHE_HOME=home
    )


def typed(root: Path, command: str) -> str:
    words = [sys.executable, "-m", "tui", command, "--workspace", str(root)]
    return f"{shlex.join(words)}\n"


@pytest.mark.skipif(which("bash") is None, reason="bash is not installed")
def test_ctrl_c_twice_leaves_and_ctrl_z_goes_to_the_shell_and_fg_comes_back(root: Path) -> None:
    with shell_on(root, "bash", "--norc", "-i") as terminal:
        eyes = Eyes(terminal, SIZE)
        terminal.press(typed(root, "run"))
        eyes.see("turn ", "quit")
        terminal.press("\x1a")
        terminal.read_until(b"Stopped")
        terminal.settle(0.2)
        shell_only = TO_BEGIN_WITH | {b"2004"}  # which the shell itself asks for
        assert modes(terminal.shown) <= shell_only, "the shell gets a terminal that it can use"
        holder = workspace_holder(root)
        assert holder is not None, "the engine feels none of it"
        since = len(terminal.shown)
        terminal.press("fg\n")
        terminal.read_until(b"Crosswind", since=since)
        until(lambda: is_whole(eyes), lambda: eyes.screen)

        eyes.press("\x03", "leave it running")
        terminal.press("\x03")
        eyes.see("the run goes on")
        assert workspace_holder(root) == holder

    with opened(root, "watch") as terminal:
        eyes = Eyes(terminal, SIZE)
        eyes.see("turn ", "quit")
        eyes.press("\x03", "leave it running", gone="stop after what is being spoken")
        eyes.leave("\x03", b"the run goes on")
    assert workspace_holder(root) == holder
