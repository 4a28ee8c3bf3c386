"""What it costs to open a long transcript and to read in it:
`python -m tests.benchmarks.transcript [KIND ...] [--size 120x40] [--profile FILE]`.

The real app, in a real terminal, is pressed keys: it opens conversations of 800,000 characters, of
which no two are alike, goes through them in every way, finds words, and is resized; then it shows
two of them side by side. Stated is the CPU time of its process, threads included, from a key to the
last frame that follows from it, in milliseconds: the median of five, and the most. How many bytes
and how much of a core one takes that is still being spoken, says `tests.benchmarks.watching`.
"""

from __future__ import annotations

import argparse
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import RenderableType
from textual.screen import Screen

from engine.benchmark import ConversationKey, Speaker, StopReason, Track
from engine.store.database import open_store
from engine.store.tables import MessageRow, Quote, StoredRow, TakeEndRow, TakeRow, Verdict
from engine.watch import BenchmarkInfo, TargetInfo, Watch
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


@dataclass(frozen=True)
class Cost:
    """From a key to the last frame that followed."""

    cpu_ms: float
    wall_ms: float


class Measured(CrosswindApp):
    """The app, and somebody who presses keys in it."""

    def __init__(self, watch: Watch, asked: argparse.Namespace) -> None:
        super().__init__(watch, theme="crosswind-dark")
        self._asked = asked
        self._drawn_at = (0.0, 0.0)
        """On the clock, and on that of its CPU."""
        self._costs: dict[str, dict[str, list[Cost]]] = {}
        self._profile = cProfile.Profile() if asked.profile else None

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        super()._display(screen, renderable)
        self._drawn_at = (time.perf_counter(), time.process_time())

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._measure(), group="measuring")

    async def _measure(self) -> None:
        await self._settled()
        for kind in self._asked.kinds or KINDS:
            costs = self._costs.setdefault(kind, {})
            for number in range(ROUNDS):
                await self._opened(costs, kind, number)
                await self._read(costs)
                await self._compared(costs)
                await self._pressed("q")
        if self._profile is not None:
            self._profile.dump_stats(self._asked.profile)
        found = {
            kind: {what: [(c.cpu_ms, c.wall_ms) for c in each] for what, each in costs.items()}
            for kind, costs in self._costs.items()
        }
        (self._asked.folder / "found.json").write_text(json.dumps(found))
        self.exit()

    async def _opened(self, costs: dict[str, list[Cost]], kind: str, number: int) -> None:
        """By its id, as a person would."""
        await self._pressed("i")
        await self._pressed(*str(key_of(kind, number)))
        await self._measured(costs, "open", "enter")

    async def _read(self, costs: dict[str, list[Cost]]) -> None:
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

    async def _compared(self, costs: dict[str, list[Cost]]) -> None:
        await self._measured(costs, "compare", "C")
        for _ in range(3):
            await self._measured(costs, "compare, page down", "pagedown")
        await self._measured(costs, "compare, next turn", "right_curly_bracket")
        await self._measured(costs, "compare, last row", "G")
        await self._measured(costs, "compare, line up", "up")
        await self._pressed("q")

    async def _resized(self, costs: dict[str, list[Cost]], across: int, down: int) -> None:
        began = self._begun("resize")
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", down, across, 0, 0))
        os.kill(os.getpid(), signal.SIGWINCH)
        await self._note(costs, "resize", began)

    async def _measured(self, costs: dict[str, list[Cost]], what: str, *keys: str) -> None:
        began = self._begun(what)
        for key in keys:
            self.simulate_key(key)
        await self._note(costs, what, began)

    def _begun(self, what: str) -> tuple[float, float]:
        if self._profile is not None and what == self._asked.step:
            self._profile.enable()
        return time.perf_counter(), time.process_time()

    async def _note(
        self, costs: dict[str, list[Cost]], what: str, began: tuple[float, float]
    ) -> None:
        await self._settled()
        if self._profile is not None:
            self._profile.disable()
        wall, cpu = (1000 * (now - then) for now, then in zip(self._drawn_at, began, strict=True))
        costs.setdefault(what, []).append(Cost(max(cpu, 0.0), max(wall, 0.0)))

    async def _pressed(self, *keys: str) -> None:
        for key in keys:
            self.simulate_key(key)
        await self._settled()

    async def _settled(self) -> None:
        until = time.perf_counter() + QUIET
        while (now := time.perf_counter()) < until:
            await asyncio.sleep(until - now)
            until = max(until, self._drawn_at[0] + QUIET)


def be_app(asked: argparse.Namespace) -> None:
    targets = [TargetInfo(name, f"offline:{name}", True) for name in ("steadfast", "pushover")]
    info = BenchmarkInfo(BENCHMARK, "Holding steady", 40, targets, True)
    watch = Watch.open(asked.folder / "crosswind.db", [info])
    collect_seldom()
    Measured(watch, asked).run()
    watch.close()


# Whoever measures


def measure(folder: Path, asked: argparse.Namespace) -> None:
    asyncio.run(fill(folder / "crosswind.db", asked.kinds or list(KINDS)))
    me = [sys.executable, "-m", "tests.benchmarks.transcript", *asked.kinds, "--size", asked.size]
    profile = ["--profile", asked.profile, "--step", asked.step] if asked.profile else []
    app, main = terminal([*me, "--folder", str(folder), *profile], asked.size)
    last = b""
    while True:
        try:
            last = os.read(main, 65536) or last
        except OSError:
            break
    app.wait()
    found = folder / "found.json"
    if not found.exists():
        sys.exit(f"the app ended before it was measured: {last[-2000:]!r}")
    tell(json.loads(found.read_text()), asked.size)


def tell(found: dict[str, dict[str, list[tuple[float, float]]]], size: str) -> None:
    sys.stdout.write(f"| CPU ms, {size}: median, most | may take | {' | '.join(found)} |\n")
    sys.stdout.write("|---|---|" + "---|" * len(found) + "\n")
    for what in next(iter(found.values())):
        columns = [costs.get(what, [(0.0, 0.0)]) for costs in found.values()]
        told = " | ".join(_told([cpu for cpu, _wall in each]) for each in columns)
        sys.stdout.write(f"| {what} | {BUDGETS.get(what, A_PAGE)} | {told} |\n")


def _told(values: Sequence[float]) -> str:
    return f"{median(values):.0f}, {max(values):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--size", default="120x40", help="of the terminal")
    parser.add_argument("--profile", help="where to put a profile of one step")
    parser.add_argument("--step", default="open", help="the one that is looked at")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if unknown := set(asked.kinds) - set(KINDS):
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(KINDS)}")
    if asked.folder is not None:
        be_app(asked)
    else:
        with TemporaryDirectory(prefix="cw") as name:
            measure(Path(name), asked)


if __name__ == "__main__":
    main()
