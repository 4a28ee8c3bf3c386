"""What it costs to open a long transcript and to read in it."""

from __future__ import annotations

import asyncio
import cProfile
import fcntl
import json
import os
import random
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from rich.console import RenderableType
from textual.screen import Screen

from engine.benchmark import ConversationKey, Speaker, StopReason, Track
from engine.store.database import open_store
from engine.store.tables import MessageRow, Quote, StoredRow, TakeEndRow, TakeRow, Verdict
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tests.benchmarks.frame import Row, chosen, command
from tests.benchmarks.watching import terminal
from tui.app import CrosswindApp
from tui.launch import collect_seldom

BENCHMARK: Final = "steadiness"
LENGTH: Final = 800_000
"""Characters of a conversation."""
ROUNDS: Final = 5
QUIET: Final = 0.3
"""Seconds without a frame after which none is expected any more."""
BUDGETS: Final = {
    "open": "100",
    "compare": "200",
    "resize": "100",
    "theme": "100",
    **dict.fromkeys(("find begins", "find, a letter", "find ends", "thoughts open"), ""),
}
A_PAGE: Final = "20"
"""Milliseconds that anything else may take."""
WORDS: Final = (
    "hear that this makes it harder and would still not skip before you ask nobody else at home"
    " decided anything yesterday evening while waiting for **an answer** or `a sign` of it"
).split()
WIDE: Final = (
    *("但是我还是觉得应该谨慎一点。", "こんにちは、元気ですか", "안녕하세요", "नमस्ते", "مرحبا"),
    *("👩‍👩‍👧‍👦", "👍🏽", "☺️", "🇩🇪", "e\u0301\u0302\u0303\u0304"),
    *("naïve", "so", "it", "goes", "—", "ﷺ"),
)
QUOTED: Final = "these very words were said"


# What is said


def prose(rng: random.Random, length: int, words: Sequence[str] = WORDS) -> str:
    """Paragraphs, with light Markdown between them."""
    parts: list[str] = []
    said = 0
    while said < length:
        opening = rng.choice(["", "", "", "- ", "## ", "1. ", "> "])
        part = opening + " ".join(rng.choices(words, k=rng.randint(8, 90)))
        parts.append(part)
        said += len(part) + 2
    return "\n\n".join(parts)[:length]


def one_line(rng: random.Random) -> list[str]:
    return ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz*`_#", k=LENGTH))]


def fenced(rng: random.Random) -> list[str]:
    lines = (f"    value_{number} = {rng.random()}  # {number}" for number in range(20_000))
    return ["```python\n" + "\n".join(lines) + "\n```"]


def replies(kind: str, rng: random.Random) -> list[str]:
    match kind:
        case "40 x 20,000 characters":
            return [prose(rng, 20_000) for _ in range(40)]
        case "12 x 68,000 characters":
            return [prose(rng, 68_000) for _ in range(12)]
        case "East Asian, joined, combining":
            return [prose(rng, 20_000, WIDE) for _ in range(40)]
        case "one line of 800,000":
            return one_line(rng)
        case _:
            return fenced(rng)


KINDS: Final = {
    "plain": "40 x 20,000 characters",
    "long": "12 x 68,000 characters",
    "wide": "East Asian, joined, combining",
    "line": "one line of 800,000",
    "code": "fenced code of 20,000 lines",
}


def key_of(kind: str, number: int, target: str = "steadfast") -> ConversationKey:
    return ConversationKey(f"m01_s{list(KINDS).index(kind) * 10 + number:03d}_v01", target)


def conversation(take: int, said: Sequence[str]) -> Iterator[StoredRow]:
    for turn, reply in enumerate(said, 1):
        yield MessageRow(
            take=take,
            turn=turn,
            speaker=Speaker.USER,
            text="are you sure? everybody says that it is fine",
            thought="It wavers.",
            landmark="Says that a friend, who is a nurse, sees it in another way.",
            finish="stop",
        )
        text = f"{reply} {QUOTED} {turn}."
        yield MessageRow(take=take, turn=turn, speaker=Speaker.TARGET, text=text, finish="stop")
    yield TakeEndRow(take=take, stop_reason=StopReason.TURN_LIMIT)
    yield Verdict(
        take=take,
        metric_id="m01",
        track=Track.POSITIVE,
        judge="offline:evaluator",
        source="model",
        number=0,
        present=True,
        passed=True,
        unscored=None,
        justification="It keeps to its view and says why.",
        quotes=tuple(Quote(f"{QUOTED} {turn}.", turn) for turn in range(1, len(said) + 1, 4)),
    )


async def fill(path: Path, kinds: Sequence[str]) -> None:
    rng = random.Random(7)
    with open_store(path) as store:
        for kind in kinds:
            for number in range(ROUNDS):
                for target in ("steadfast", "pushover"):
                    [take] = await store.write(
                        TakeRow(
                            benchmark=BENCHMARK,
                            key=key_of(kind, number, target),
                            number=0,
                            scenario_seq=None,
                            user_model="offline:user",
                            model=f"offline:{target}",
                            scripted=True,
                        )
                    )
                    await store.write(*conversation(take, replies(KINDS[kind], rng)))


# The app


class Asked(NamedTuple):
    folder: Path
    kinds: Sequence[str]
    size: str
    profile: str | None
    step: str
    """The one whose profile is taken."""


class Measured(CrosswindApp):
    """The app, and somebody who presses keys in it."""

    def __init__(self, watch: Watch, asked: Asked) -> None:
        super().__init__(watch, theme="crosswind-dark")
        self._asked = asked
        self._drawn_at = (0.0, 0.0)
        """On the clock, and on that of its CPU."""
        self._costs: dict[str, dict[str, list[float]]] = {}
        """Milliseconds of CPU from a key to the last frame that followed, by kind and step."""
        self._profile = cProfile.Profile() if asked.profile else None

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(screen, renderable)
        self._drawn_at = (time.perf_counter(), time.process_time())

    def on_mount(self) -> None:
        self.run_worker(self._measure(), group="measuring")

    async def _measure(self) -> None:
        await self._settled()
        for kind in self._asked.kinds:
            costs = self._costs.setdefault(kind, {})
            for number in range(ROUNDS):
                await self._opened(costs, kind, number)
                await self._read(costs)
                await self._compared(costs)
                await self._pressed("q")
        if self._profile is not None and self._asked.profile is not None:
            self._profile.dump_stats(self._asked.profile)
        (self._asked.folder / "found.json").write_text(json.dumps(self._costs), "utf-8")
        self.exit()

    async def _opened(self, costs: dict[str, list[float]], kind: str, number: int) -> None:
        """By its id, as a person would."""
        await self._pressed("i")
        await self._pressed(*str(key_of(kind, number)))
        await self._measured(costs, "open", "enter")

    async def _read(self, costs: dict[str, list[float]]) -> None:
        for _ in range(3):
            await self._measured(costs, "page down", "pagedown")
        await self._measured(costs, "next turn", "right_curly_bracket")
        await self._measured(costs, "next quote", "c")
        await self._measured(costs, "last row", "G")
        await self._measured(costs, "page up", "pageup")
        await self._measured(costs, "line up", "up")
        await self._measured(costs, "first row", "g")
        await self._measured(costs, "find begins", "slash")
        for letter in "it":
            await self._measured(costs, "find, a letter", letter)
        await self._measured(costs, "find ends", "enter")
        await self._measured(costs, "find next", "n")
        await self._measured(costs, "find before", "N")
        await self._pressed("slash")
        await self._pressed("escape")
        await self._measured(costs, "thoughts open", "t")
        across, down = map(int, self._asked.size.split("x"))
        await self._resized(costs, across - 9, down)
        await self._resized(costs, across, down)
        await self._measured(costs, "theme", "T")

    async def _compared(self, costs: dict[str, list[float]]) -> None:
        await self._measured(costs, "compare", "C")
        for _ in range(3):
            await self._measured(costs, "compare, page down", "pagedown")
        await self._measured(costs, "compare, next turn", "right_curly_bracket")
        await self._measured(costs, "compare, last row", "G")
        await self._measured(costs, "compare, line up", "up")
        await self._pressed("q")

    async def _resized(self, costs: dict[str, list[float]], across: int, down: int) -> None:
        began = self._begun("resize")
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", down, across, 0, 0))
        os.kill(os.getpid(), signal.SIGWINCH)
        await self._note(costs, "resize", began)

    async def _measured(self, costs: dict[str, list[float]], what: str, *keys: str) -> None:
        began = self._begun(what)
        for key in keys:
            self.simulate_key(key)
        await self._note(costs, what, began)

    def _begun(self, what: str) -> float:
        if self._profile is not None and what == self._asked.step:
            self._profile.enable()
        return time.process_time()

    async def _note(self, costs: dict[str, list[float]], what: str, began: float) -> None:
        await self._settled()
        if self._profile is not None:
            self._profile.disable()
        costs.setdefault(what, []).append(max(0.0, 1000 * (self._drawn_at[1] - began)))

    async def _pressed(self, *keys: str) -> None:
        for key in keys:
            self.simulate_key(key)
        await self._settled()

    async def _settled(self) -> None:
        until = time.perf_counter() + QUIET
        while (now := time.perf_counter()) < until:
            await asyncio.sleep(until - now)
            until = max(until, self._drawn_at[0] + QUIET)


def be_app(folder: str, kinds: list[str], size: str, profile: str | None, step: str) -> None:
    """In a process of its own, in a terminal."""
    targets = [TargetInfo(name, f"offline:{name}", True) for name in ("steadfast", "pushover")]
    info = BenchmarkInfo(BENCHMARK, "Holding steady", 40, targets, True)
    watch = Watch.open(Path(folder) / "crosswind.db", [info])
    collect_seldom()
    Measured(watch, Asked(Path(folder), kinds, size, profile, step)).run()
    watch.close()


# Whoever measures


def transcript(
    *kinds: str, size: str = "120x40", profile: str | None = None, step: str = "open"
) -> Iterator[Row]:
    """What it costs to open a long transcript and to read in it.

    The real app, in a real terminal, is pressed keys: it opens conversations of 800,000 characters,
    of which no two are alike, goes through them in every way, finds words, and is resized; then it
    shows two of them side by side. Stated is the CPU time of its process, threads included, from a
    key to the last frame that follows from it, in milliseconds: the median of five, and the most.
    Kinds are plain, long, wide, line and code. `--profile` names a file for a profile of `--step`.
    How many bytes and how much of a core one takes that is still being spoken, says `watching`.
    """
    wanted = list(chosen(kinds, KINDS))
    with TemporaryDirectory(prefix="cw") as name:
        folder = Path(name)
        asyncio.run(fill(folder / "crosswind.db", wanted))
        app, main = terminal(command(be_app, name, wanted, size, profile, step), size)
        last = b""
        while True:
            try:
                last = os.read(main, 65536) or last
            except OSError:
                break
        app.wait()
        if not (folder / "found.json").exists():
            sys.exit(f"the app ended before it was measured: {last[-2000:]!r}")
        found = json.loads((folder / "found.json").read_text("utf-8"))
    yield from _rows(found)


def _rows(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[Row]:
    for what in next(iter(found.values())):
        columns = [
            f"{kind} {median(costs[what]):.0f}, {max(costs[what]):.0f}"
            for kind, costs in found.items()
            if what in costs
        ]
        may = BUDGETS.get(what, A_PAGE)
        yield Row(f"{what}: CPU ms, median and most", "; ".join(columns), may)
