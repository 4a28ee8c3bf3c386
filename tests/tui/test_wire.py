"""What reaches a real terminal: nothing that means harm, no colour where none is wanted, and a
pager that gets the terminal to itself."""

from __future__ import annotations

import asyncio
import base64
import re
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Speaker, Stage, State, StopReason
from engine.store.tables import Quote
from tests.approval import approve, lines_with
from tests.tui.hostile import write_faulty_files, write_files, write_store
from tests.tui.terminal import Eyes, Terminal
from tests.tui.theatre import TARGETS, Theatre

SIZE = (130, 40)
WALK: tuple[tuple[str, str, str | None], ...] = (
    ("1", "targets ─", None),
    ("3}", "3 judged", None),
    ("F", "outcome: metric", None),
    ("PWNED", "of 3 judged", None),
    ("\x1b", "3 judged", "outcome: metric"),
    ("s", "Sort by what", None),
    ("q", "3 judged", "Sort by"),
    ("g\r", "turn 1 of 2", None),
    *((key, "", None) for key in ("c", "t", "L", "\tG", "L")),
    ("\tg", "turn 1 of", None),
    ("/", "a regular expression", None),
    ("PWNED", "places", None),
    ("\r", "PWNED” 1 of", "a regular"),
    ("C", "Side by side", None),
    ("q", "c evidence", "Side by"),
    ("v", "variant ", "c evidence"),
    ("q", "c evidence", None),
    ("4", "in full", None),
    ("I", "in short", None),
    *(("}", "", None) for _section in range(4)),
    ("3{X", "3 failed", None),
    *(("j", "", None) for _row in range(3)),
    ("/", "in everything", None),
    ("PWNED", "newest first", None),
    ("\x1b", "3 failed", None),
    ("i", "A part of an id", None),
    ("m01", "scenario of", None),
    ("\x1b", "3 failed", "scenario of"),
    (":", "a command, a benchmark", None),
    ("m01", "scenario of", None),
    ("\x1b", "3 failed", "scenario of"),
    ("?", "On this screen", None),
    ("q", "3 failed", "On this screen"),
    ("2", "verdicts", None),
    ("x", "started elsewhere", None),
    ("\x1b", "verdicts", "started elsewhere"),
    ("1", "targets ─", None),
    ("o", "to be called", None),
    ("new\r", "targets ─", "to be called"),
    ("b", "Do what is missing", None),
    ("n", "targets ─", "Do what is missing"),
    ("3}", "3 judged", None),
    ("g\r", "c evidence", None),
    ("y", "Copy what", None),
    ("i", "Copied", "Copy what"),
    ("y", "Copy what", None),
    ("m", "Copied", "Copy what"),
    ("y", "Copy what", None),
    ("c", "Copied", "Copy what"),
    ("r", "is to judge", None),
    ("\r", "Judged again", None),
    ("q", "c evidence", "Judged again"),
    ("2", "verdicts", None),
    *((key, "", None) for key in "U+"),
    ("\x03", "Leave", None),
)
"""Keys, what is on the screen then, and what is not any more."""

ALLOWED = re.compile(
    r"\x1b\[(?:"
    r"[0-9;]*m|[0-9;]*H|2J|0K"  # colours, the cursor, and an empty screen
    r"|\?(?:7|25|1000|1003|1004|1006|1015|1049|2004|2026|2048)[hl]"  # modes that the app sets
    r"|\?(?:2026|2048)\$p|>\d+u|<u|\?u|\?c|c|2[23];0t"  # what it asks for and puts back
    r")"
    r"|\x1b\]0;crosswind[^\x00-\x1f\x7f-\x9f]*\x1b\\"  # its title
    r"|\x1b\]22;default\x07"  # the mouse pointer
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # what it copies
    r"|\r?\x1b\[2K|\x1b\[1A"  # bars
    r"|\r+\n"
)
ACTS = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def strangers(sent: bytes) -> list[str]:
    """Everything that acts on a terminal and is none of what the app sends by itself, with what
    stands around it."""
    rest = ALLOWED.sub("", sent.decode("utf-8"))
    return [
        ascii(rest[max(found.start() - 40, 0) : found.end() + 20]) for found in ACTS.finditer(rest)
    ]


def copied(sent: bytes) -> list[str]:
    return [
        base64.b64decode(each).decode("utf-8")
        for each in re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", sent)
    ]


async def stored(theatre: Theatre, text: str) -> None:
    """A store in which everything that a model or a server may say says this."""
    await theatre.prepare(3)
    take = await theatre.begin(1)
    await theatre.said(take, 1, Speaker.USER, text, text)
    await theatre.said(take, 1, Speaker.TARGET, f"I say {text}")
    await theatre.end(take)
    quotes = (Quote(text, 1), Quote(f"I say {text}", 1))
    await theatre.judge(take, judge=text, quotes=quotes, justification=text)
    await theatre.end(await theatre.begin(2), StopReason.TARGET_FAILED)
    await theatre.move(Stage.GEN_SCENARIOS, "m01_s009", State.FAILED, reason=text)
    unit = "m01_s002_v01__steadfast"
    await theatre.move(Stage.SIMULATE, unit, State.FAILED, TARGETS[0], f"{text} failed")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with a workspace in it."""
    root = write_files(tmp_path)
    write_faulty_files(tmp_path)
    stage = Theatre(root)
    asyncio.run(write_store(stage))
    stage.close()
    return tmp_path


def faces(folder: Path, what: str) -> Terminal:
    program = ("-m", "tests.tui.hostile_faces", what, str(folder))
    home = str(folder)
    return Terminal(program=program, size=SIZE, XDG_CACHE_HOME=home, XDG_CONFIG_HOME=home)


def test_no_screen_sends_what_means_harm(hostile: Path) -> None:
    with faces(hostile, "app") as terminal:
        eyes = Eyes(terminal, SIZE)
        eyes.see("quit", "PWNED")
        for keys, wanted, gone in WALK:
            if wanted:
                eyes.press(keys, wanted, gone=gone)
            else:
                terminal.press(keys)
                terminal.read_on(0.15)
        terminal.press("l")
        assert terminal.read_to_the_end() == 0
        sent = terminal.shown

    left = sent[sent.rindex(b"\x1b[?1049l") :].decode("utf-8")
    assert "run goes on" in left
    approve(lines_with(left, "steadiness: 3 of 4"))
    assert strangers(sent) == []
    assert len(copied(sent)) == 3
    assert [text for text in copied(sent) if ACTS.search(text.replace("\n", ""))] == []
    alarms = hostile / "alarms"
    told = alarms.read_text("utf-8") if alarms.exists() else ""
    assert told == "", "what is drawn is clean before the last filter"


def test_no_command_prints_what_means_harm(hostile: Path) -> None:
    with faces(hostile, "print") as terminal:
        assert terminal.read_to_the_end() == 0
        sent = terminal.shown

    assert sent.count(b"=== ") > 20
    assert b"=== end" in sent
    assert b"a bug in Crosswind" not in sent
    assert b"PWNED" in sent
    assert strangers(sent) == []


@pytest.mark.parametrize(
    "sent",
    [
        "\x1b[6n",
        "\x1b[31;1n",
        "\x1bc",
        "\x1b]0;PWNED\x07",
        "\x1b]8;;http://PWNED\x1b\\",
        "\x1b]0;crosswind\x1b]52;c;x\x07\x1b\\",
        "\x1bP+q5057\x1b\\",
        "\x9b31m",
        "\x07",
        "\rover",
        "\u202e",
        "\U000e0041",
        "\x1b[?1047h",
    ],
)
def test_what_means_harm_is_seen_on_the_wire(sent: str) -> None:
    assert strangers(f"before{sent}after".encode())


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "vt100"}])
def test_no_colour_is_sent_where_none_is_wanted_or_known(
    theatre: Theatre, environment: dict[str, Any]
) -> None:
    asyncio.run(stored(theatre, "nothing of note"))
    with Terminal(theatre.store.path, **environment) as terminal:
        terminal.read_until(b"quit")
        terminal.press_until("3X", b"failed")
        terminal.press_until("j", b"because")
        terminal.press("\x03")
        assert terminal.read_to_the_end() == 0

        codes = {
            code
            for match in re.finditer(rb"\x1b\[([\d;]*)m", terminal.shown)
            for code in match[1].split(b";")
        }
        attributes = {b"", b"0", b"1", b"2", b"3", b"4", b"7"}
        assert codes <= attributes | {b"39", b"49"}, "the last two are the terminal's own colours"
        assert b"7" in codes


def test_the_mouse_is_left_to_the_terminal_and_taken_again_by_a_key(theatre: Theatre) -> None:
    asyncio.run(theatre.prepare())
    with Terminal(theatre.store.path) as terminal:
        terminal.read_until(b"help")
        assert b"\x1b[?1003h" in terminal.shown
        assert b"\x1b[?1003l" not in terminal.shown
        terminal.press_until("Z", b"\x1b[?1003l")
        terminal.press_until("Z", b"\x1b[?1003h")


def test_the_pager_gets_the_terminal_and_gives_it_back(theatre: Theatre, tmp_path: Path) -> None:
    asyncio.run(stored(theatre, "nothing of note"))
    script = tmp_path / "pager"
    script.write_text('#!/bin/sh\ncat "$1"; echo "=== read"; read line\n', "utf-8")
    script.chmod(0o755)
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PAGER": str(script)}
    with Terminal(theatre.store.path, (100, 30), **home) as terminal:
        terminal.read_until("✓ pass".encode())
        terminal.press_until("lg\r", b"behaviour")

        terminal.press_until("|", b"=== read")
        assert b"Thought:" in terminal.shown
        left = terminal.shown.rindex(b"\x1b[?1049l")
        assert left < terminal.shown.index(b"Thought:")

        terminal.press_until("\r", b"behaviour")
        terminal.press("\x03")
        assert terminal.read_to_the_end() == 0
