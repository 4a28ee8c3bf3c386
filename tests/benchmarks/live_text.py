"""How late a watcher sees what is said and what is stored, and what watching costs both sides."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from engine.benchmark import ConversationKey, Speaker
from engine.facts import LiveText, NoteKind, Speech
from engine.link import Board, Command, EngineState, Identity, Request, Response
from engine.pipeline.context import LiveBoard
from engine.service.client import SocketLink, connect
from engine.service.server import Server
from engine.store.database import open_store
from engine.store.tables import NoteRow
from engine.watch import Watch
from tests.benchmarks.frame import Row, command, say
from tests.benchmarks.measuring import quantile
from tests.benchmarks.watching import Held, talking

CONVERSATIONS = 200
TOKENS_A_SECOND = 50
MESSAGE_SECONDS = 6
BENCHMARK = "steadiness"
APP_HERTZ = 15
KEYS = [ConversationKey(f"m01_s{number:03d}_v01", "steadfast") for number in range(CONVERSATIONS)]


# The engine


@dataclass
class Talking:
    """An engine that does nothing but talk."""

    live: LiveBoard = field(default_factory=LiveBoard)

    def board(self) -> Board:
        identity = Identity(os.getpid(), "here", datetime(2026, 5, 1, tzinfo=UTC))
        return Board(
            EngineState.RUNNING,
            tuple(self.live.speaking()),
            engine=identity,
        )

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        return self.live.text(benchmark, key, cursor)

    async def answer(self, request: Request) -> Response:
        del request
        return Response(accepted=True, text=str(time.process_time()))


async def talk(engine: Talking) -> None:
    """Every conversation says one token in each step."""
    landmark = "Says that a friend, who is a nurse, sees it in another way. " * 3
    steps = TOKENS_A_SECOND * MESSAGE_SECONDS
    voices = [
        engine.live.begin(Speech(BENCHMARK, key, 0, 1, Speaker.TARGET, landmark, time.monotonic()))
        for key in KEYS
    ]
    step, next_step = 0, time.monotonic()
    while True:
        step += 1
        for number, voice in enumerate(voices):
            if (step + number * 7) % steps == 0:
                engine.live.end(voice)
                speech = voice.speech
                voices[number] = voice = engine.live.begin(
                    Speech(
                        BENCHMARK,
                        speech.key,
                        0,
                        speech.turn + 1,
                        Speaker.TARGET,
                        landmark,
                        time.monotonic(),
                    )
                )
            voice.add(f"{time.monotonic():.6f} ")
        next_step += 1 / TOKENS_A_SECOND
        await asyncio.sleep(max(0.0, next_step - time.monotonic()))


def be_engine(folder: str) -> None:
    """In a process of its own, until its standard input ends."""
    asyncio.run(_engine(Path(folder)))


async def _engine(folder: Path) -> None:
    engine = Talking()
    durable: dict[int, float] = {}
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    with open_store(folder / "crosswind.db") as store:
        server = Server(engine, folder / "own" / "e.sock")
        await server.start()
        task = asyncio.create_task(talk(engine))
        say("ready\n")
        while not ended.done():
            row = NoteRow(kind=NoteKind.WARNING, benchmark=BENCHMARK, text="a fact")
            [seq] = await store.write(row)
            durable[seq] = time.monotonic()
            await asyncio.sleep(1 / 50)
        task.cancel()
        await server.close()
    (folder / "durable.json").write_text(json.dumps(durable), "utf-8")


# The watcher


@dataclass
class Seen:
    """What was seen, and when."""

    tokens: list[float] = field(default_factory=list)
    """Seconds from the buffer to the watcher."""
    facts: dict[int, float] = field(default_factory=dict)


class Looking:
    """Follows one conversation, as a screen of the app does."""

    def __init__(self, text: Callable[[int], LiveText | None], watch: Watch) -> None:
        self.seen = Seen()
        self._text = text
        self._watch = watch
        self._speech: Speech | None = None
        self._cursor = 0
        self._unfinished = ""

    def look(self) -> None:
        for fact in self._watch.poll():
            self.seen.facts[fact.seq] = time.monotonic()
        heard = self._text(self._cursor)
        if heard is not None and heard.speech != self._speech:
            self._speech, self._cursor, self._unfinished = heard.speech, 0, ""
            heard = self._text(0)
        if heard is None:
            return
        now = time.monotonic()
        self._cursor = heard.cursor
        *tokens, self._unfinished = (self._unfinished + heard.text).split(" ")
        self.seen.tokens += [now - float(token) for token in tokens]


@dataclass(frozen=True)
class Cost:
    """Shares of one core."""

    engine: float
    watcher: float = 0.0
    link: float = 0.0


def measure(folder: Path, seconds: float, hertz: float | None) -> tuple[Seen, Cost]:
    """Watch at this pace; not at all where it is None."""
    path = folder / "own" / "e.sock"
    asking = connect(path, Held)
    link = connect(path, Held)
    thread = time.pthread_getcpuclockid(link._thread.ident or 0)
    watch = Watch.open(folder / "crosswind.db", [], link)
    looking = Looking(lambda cursor: link.text(BENCHMARK, KEYS[17], cursor), watch)
    time.sleep(2.5)  # until nobody looks, so that a pass begins as the last one did
    if hertz is not None:
        for _ in range(round(hertz)):  # the first looks find what was said before
            looking.look()
            time.sleep(1 / hertz)
        looking.seen = Seen()
    began, cpu = engine_cpu(asking), time.process_time()
    link_cpu = time.clock_gettime(thread)
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        if hertz is None:
            time.sleep(end - now)
            break
        link.board()
        looking.look()
        time.sleep(1 / hertz)
    link_cpu, cpu = time.clock_gettime(thread) - link_cpu, time.process_time() - cpu
    spent = engine_cpu(asking) - began
    asking.close()
    watch.close()
    link.close()
    return looking.seen, Cost(spent / seconds, cpu / seconds, link_cpu / seconds)


def engine_cpu(link: SocketLink) -> float:
    """The engine of this benchmark answers nothing else."""
    return float(link.ask(Request(Command.PAUSE)).text)


def text(seconds: float = 10.0) -> Iterator[Row]:
    """How late a watcher sees what is said and what is stored, and what watching costs both sides.

    An engine in a process of its own lets 200 conversations speak 50 tokens a second each and
    stores 50 facts a second. A watcher follows one conversation and all facts, as the app does.
    Each token holds the time at which it was put into the engine's buffer; the engine notes when
    each fact was durable. Each of three passes takes so many seconds.
    """
    with TemporaryDirectory(prefix="cw") as name:
        folder = Path(name)
        with talking(command(be_engine, name)):
            _, alone = measure(folder, seconds, None)
            app, as_app = measure(folder, seconds, APP_HERTZ)
            close, _ = measure(folder, seconds, 500)
        found = json.loads((folder / "durable.json").read_text("utf-8"))
    durable = {int(seq): at for seq, at in found.items()}
    for what, seen in ((f"at {APP_HERTZ} Hz, as the app looks", app), ("at 500 Hz", close)):
        facts = [at - durable[seq] for seq, at in seen.facts.items() if seq in durable]
        for kind, values in (("live text", seen.tokens), ("facts", facts)):
            p50, p99 = (1000 * quantile(values, part) for part in (0.5, 0.99))
            yield Row(f"{kind}, {what}: p50 and p99", f"{p50:.0f} ms, {p99:.0f} ms")
    yield Row("CPU of the engine, of one core: nobody looks", f"{alone.engine:.1%}")
    yield Row(
        f"one watcher at {APP_HERTZ} Hz",
        f"{as_app.engine:.1%}, {as_app.engine / alone.engine:.2f} x",
    )
    yield Row("CPU of the watcher's link", f"{as_app.link:.2%}")
    yield Row("CPU of the watcher, with the store's facts", f"{as_app.watcher:.2%}")
