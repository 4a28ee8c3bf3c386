"""What reaches a real terminal: nothing that means harm, no colour where none is wanted, and a
pager that gets the terminal to itself."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from engine.benchmark import Speaker, Stage, State, StopReason
from engine.store.records import Quote
from tests.tui.terminal import Terminal
from tests.tui.theatre import TARGETS, Theatre
from tui.places import PLACES

PAYLOADS = (
    "\x1b[2J\x1b[6n\x1b[31mPWNED",
    "\x1b]0;PWNED\x07\x1b]52;c;UFdORUQ=\x1b\\",
    "\x1b]8;;http://PWNED\x1b\\link\x1b]8;;\x1b\\",
    "\x1bP+q5057\x1b\\\x1b_PWNED\x1b\\\x1b^PWNED\x1b\\",
    "\x9b31m\x9d0;PWNED\x9c\x90PWNED\x9c",
    "\x00\x07\x08\x0e\x0f\x7f\r\u202ePWNED\u2066\u200e\u2028\u200b\ufeff\U000e0041",
    "[@click=app.quit]PWNED[/] [red] [/unbalanced",
)
ESCAPE = re.compile(
    rb"\x1b(?:\[(?P<csi>[0-?]*[ -/]*[@-~])"
    rb"|\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    rb"|(?P<other>[^\[\]]))"
)


def shapes(sent: bytes) -> set[bytes]:
    """Every kind of control sequence that was sent, without what differs from cell to cell."""
    found: set[bytes] = set()
    for match in ESCAPE.finditer(sent):
        if match["csi"] is not None:
            final = match["csi"][-1:]
            found.add(final if final in b"mH" else match["csi"])
        elif match["osc"] is not None:
            found.add(b"]" + re.sub(rb"[\d%]+", b"0", match["osc"]))
        else:
            found.add(match["other"])
    return found


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


def walk(store: Path, title: str) -> bytes:
    """Everything that is sent while a person goes through all the screens."""
    variables = {"TITLE": title.replace("\x00", ""), "XDG_CACHE_HOME": str(store.parent)}
    with Terminal(store, (100, 30), **variables) as terminal:
        terminal.read_until(b"quit")
        for place in PLACES:
            if place.name != "Live":
                terminal.press_until(place.key, place.name.encode())
        terminal.press_until("j", b"because")
        terminal.press_until("2", b"verdicts")
        terminal.press_until("lg\r", b"behaviour")
        terminal.press_until("t", b"thought")
        terminal.press_until("L", b"persona")
        terminal.press_until("y", b"Copy what?")
        terminal.press_until("i", b"Copied")
        terminal.press_until("i", b"beginning")
        terminal.press_until("m01", b"scenario of")
        terminal.press("\x1b")
        terminal.settle()
        terminal.press_until("?", b"On this screen")
        terminal.press("\x03")
        assert terminal.read_to_the_end() == 0
        return terminal.shown


def test_no_screen_sends_what_means_harm(theatre: Theatre, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    other = Theatre(plain)
    asyncio.run(stored(other, "nothing of note"))
    asyncio.run(stored(theatre, " ".join(PAYLOADS)))
    harmless = shapes(walk(other.store.path, "Holding steady"))
    other.close()

    sent = walk(theatre.store.path, " ".join(PAYLOADS))

    assert "PWNED" in sent.decode("utf-8")
    assert shapes(sent) <= harmless
    assert not re.search(
        "[\u0080-\u009f\u202a-\u202e\u2066-\u2069\u2028\u200b\ufeff]", sent.decode()
    )
    assert not re.search(rb"[\x00-\x06\x08\x0b\x0c\x0e-\x1a\x7f]", sent)


def test_no_colour_is_sent_where_none_is_wanted(theatre: Theatre) -> None:
    asyncio.run(stored(theatre, "nothing of note"))
    with Terminal(theatre.store.path, NO_COLOR="1") as terminal:
        terminal.read_until(b"quit")
        terminal.press_until("5", b"Problems")
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


def test_the_pager_gets_the_terminal_and_gives_it_back(theatre: Theatre, tmp_path: Path) -> None:
    asyncio.run(stored(theatre, "nothing of note"))
    script = tmp_path / "pager"
    script.write_text('#!/bin/sh\ncat "$1"; echo "=== read"; read line\n', "utf-8")
    script.chmod(0o755)
    home = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PAGER": str(script)}
    with Terminal(theatre.store.path, (100, 30), **home) as terminal:
        terminal.read_until("✓ pass".encode())
        terminal.press_until("lg\r", b"behaviour")

        terminal.press_until("e", b"=== read")
        assert b"> thought: nothing of note" in terminal.shown
        left = terminal.shown.rindex(b"\x1b[?1049l")
        assert left < terminal.shown.index(b"> thought: nothing of note")

        terminal.press_until("\r", b"behaviour")
        terminal.press("\x03")
        assert terminal.read_to_the_end() == 0
