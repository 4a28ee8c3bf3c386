"""What the app costs while many conversations speak and one of them is shown."""

from __future__ import annotations

import asyncio
import cProfile
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from engine.benchmark import (
    ConversationKey,
    Role,
    Speaker,
    Stage,
    State,
    Track,
    Usage,
)
from engine.facts import LiveText, NoteKind, Speech
from engine.link import Board, EngineState, Identity, Request, Response
from engine.pipeline.context import LiveBoard, LiveMessage
from engine.service.client import connect
from engine.service.server import Server
from engine.store.database import Store, open_store
from engine.store.tables import (
    AttemptRow,
    MessageRow,
    NoteRow,
    StateRow,
    StoredRow,
    TakeRow,
    Verdict,
)
from engine.watch import BenchmarkInfo, TargetInfo, Watch
from tests.benchmarks.frame import Row, command, say
from tests.benchmarks.measuring import lateness, peak_mb, quantile
from tui.app import CrosswindApp
from tui.launch import collect_seldom

TOKENS_A_SECOND = 50
MESSAGE_SECONDS = 6
TURNS = 6
LONG = 20_000
"""Characters of a reply that was given before."""
BENCHMARK = "steadiness"
TARGETS = ("steadfast", "pushover", "erratic", "gpt-x")
LANDMARK = "Says that a friend, who is a nurse, sees it in another way. " * 3
WARM_UP = 4.0
"""Seconds before the measuring begins."""
TOKENS = "I hear that this makes it harder, and I would still not skip it before you ask. ".split()


# The engine


@dataclass
class Talking:
    """An engine that does nothing but talk."""

    live: LiveBoard = field(default_factory=LiveBoard)

    def board(self) -> Board:
        since = datetime(2026, 5, 1, tzinfo=UTC)
        return Board(
            EngineState.RUNNING,
            tuple(self.live.speaking()),
            concurrency={Stage.SIMULATE: len(self.live.speaking())},
            engine=Identity(os.getpid(), "here", since),
            said=self.live.characters_spoken(),
        )

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        return self.live.text(benchmark, key, cursor)

    async def answer(self, request: Request) -> Response:
        del request
        return Response(accepted=True, text="")


@dataclass
class Talk:
    """One conversation, played over and over."""

    key: ConversationKey
    take: int
    """The row."""
    voice: LiveMessage
    turns: int = TURNS

    def next_voice(self, live: LiveBoard) -> list[StoredRow]:
        """What was said is stored, and the next message begins."""
        speech, said = self.voice.speech, self.voice.text()
        of_user = speech.speaker is Speaker.USER
        live.end(self.voice)
        turn = speech.turn if of_user else speech.turn + 1
        over = turn > self.turns
        rows = [] if over else self._stored(speech, said)
        speaker = Speaker.TARGET if of_user else Speaker.USER
        turn = min(turn, self.turns)
        self.voice = live.begin(
            Speech(BENCHMARK, self.key, 0, turn, speaker, LANDMARK, time.monotonic())
        )
        return rows

    def _stored(self, speech: Speech, said: str) -> list[StoredRow]:
        of_user = speech.speaker is Speaker.USER
        message = MessageRow(
            take=self.take,
            turn=speech.turn,
            speaker=speech.speaker,
            text=said,
            thought="It wavers." if of_user else None,
            landmark=LANDMARK if of_user else None,
            finish="stop",
        )
        attempt = AttemptRow(
            benchmark=BENCHMARK,
            stage=Stage.SIMULATE,
            unit=str(self.key),
            target=self.key.target_id,
            role=Role.USER if of_user else Role.TARGET,
            model="offline",
            outcome="answer",
            duration_ms=6000,
            usage=Usage(1, 120, 0, 300, 0.001),
        )
        rows: list[StoredRow] = [message, attempt]
        if speech.turn == self.turns and not of_user:
            rows.append(
                Verdict(
                    take=self.take,
                    metric_id="m01",
                    track=Track.POSITIVE,
                    judge="offline:evaluator",
                    source="model",
                    number=0,
                    present=True,
                    passed=True,
                    unscored=None,
                    justification="It keeps to its view and says why.",
                    quotes=(),
                )
            )
        return rows


def key_of(number: int) -> ConversationKey:
    return ConversationKey(f"m01_s{number:03d}_v01", TARGETS[number % len(TARGETS)])


def said_before(take: int, turns: int) -> Iterator[MessageRow]:
    """Turns with long replies."""
    reply = ("## On this\n\n" + " ".join(TOKENS * 12) + "\n\n- **one** thing\n- another\n\n") * 30
    for turn in range(1, turns + 1):
        question = f"And what of the {turn}. thing?"
        yield MessageRow(
            take=take,
            turn=turn,
            speaker=Speaker.USER,
            text=question,
            thought="It wavers.",
            landmark=LANDMARK,
            finish="stop",
        )
        yield MessageRow(
            take=take, turn=turn, speaker=Speaker.TARGET, text=reply[:LONG], finish="stop"
        )


async def begun(store: Store, live: LiveBoard, count: int, history: int) -> list[Talk]:
    keys = [key_of(number) for number in range(count)]
    await store.write(
        NoteRow(kind=NoteKind.RUN_STARTED, benchmark=BENCHMARK, text=""),
        NoteRow(kind=NoteKind.STAGE_STARTED, benchmark=BENCHMARK, stage=Stage.SIMULATE, text=""),
    )
    takes = await store.write(
        *(
            TakeRow(
                benchmark=BENCHMARK,
                key=key,
                number=0,
                scenario_seq=None,
                user_model="offline:user",
                model=f"offline:{key.target_id}",
                scripted=True,
            )
            for key in keys
        )
    )
    await store.write(
        *(
            StateRow(
                benchmark=BENCHMARK,
                stage=Stage.SIMULATE,
                unit=str(key),
                target=key.target_id,
                state=State.RUNNING,
                reason=None,
            )
            for key in keys
        )
    )
    await store.write(*said_before(takes[0], history))
    talks: list[Talk] = []
    for key, take in zip(keys, takes, strict=True):
        before = 0 if talks else history
        speech = Speech(BENCHMARK, key, 0, before + 1, Speaker.USER, LANDMARK, time.monotonic())
        talks.append(Talk(key, take, live.begin(speech), before + TURNS))
    return talks


async def talk(store: Store, live: LiveBoard, count: int, history: int) -> None:
    """Every conversation says one token in each step; messages end evenly spread."""
    talks = await begun(store, live, count, history)
    steps = TOKENS_A_SECOND * MESSAGE_SECONDS
    step, next_step = 0, time.monotonic()
    while True:
        step += 1
        rows: list[StoredRow] = []
        for number, each in enumerate(talks):
            if (step + number * 7) % steps == 0:
                rows += each.next_voice(live)
            each.voice.add(TOKENS[step % len(TOKENS)] + " ")
        for row in rows:
            store.tell(row)
        next_step += 1 / TOKENS_A_SECOND
        await asyncio.sleep(max(0.0, next_step - time.monotonic()))


def be_engine(folder: str, count: int, history: int) -> None:
    """In a process of its own, until its standard input ends."""
    asyncio.run(_engine(Path(folder), count, history))


async def _engine(folder: Path, count: int, history: int) -> None:
    engine = Talking()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    with open_store(folder / "crosswind.db") as store:
        server = Server(engine, folder / "own" / "e.sock")
        await server.start()
        task = asyncio.create_task(talk(store, engine.live, count, history))
        await asyncio.sleep(0.5)
        say("ready\n")
        await ended
        task.cancel()
        await server.close()


# The app


Screen = Literal["live", "conversation", "all"]


class Asked(NamedTuple):
    folder: Path
    seconds: float
    screen: Screen
    slow: bool
    profile: str | None


class Measured(CrosswindApp):
    """The app, and a meter on its loop."""

    def __init__(self, watch: Watch, asked: Asked) -> None:
        super().__init__(watch, theme="crosswind-dark", slow=asked.slow)
        self._asked = asked

    def on_mount(self) -> None:
        if self._asked.screen == "conversation":
            self.navigator.open_conversation(BENCHMARK, key_of(0))
        elif self._asked.screen == "all":
            self.navigator.go("All")
        self.run_worker(self._measure(), group="measuring")

    async def _measure(self) -> None:
        await asyncio.sleep(WARM_UP)
        (self._asked.folder / "begun").touch()
        profile = cProfile.Profile() if self._asked.profile else None
        if profile is not None:
            profile.enable()
        began, cpu, own = time.monotonic(), time.process_time(), time.thread_time()
        late = await lateness(self._asked.seconds)
        took = time.monotonic() - began
        cpu, own = time.process_time() - cpu, time.thread_time() - own
        if profile is not None and self._asked.profile is not None:
            profile.disable()
            profile.dump_stats(self._asked.profile)
        board = self.shell.ticker.now.board
        found = {
            "cpu": cpu / took,
            "loop": own / took,
            "late": late,
            "rss": peak_mb(),
            "facts": self.shell.watch.progress.seq,
            "speaking": len(board.speaking) if board else 0,
        }
        (self._asked.folder / "found.json").write_text(json.dumps(found), "utf-8")
        self.exit()


@dataclass(frozen=True)
class Held:
    socket: str | None = None


def be_app(
    folder: str, seconds: float, screen: Screen, slow: bool, history: int, profile: str | None
) -> None:
    """In a process of its own, in a terminal."""
    infos = [
        BenchmarkInfo(
            name=BENCHMARK,
            title="Holding steady",
            turns=history + TURNS,
            targets=[TargetInfo(name, f"offline:{name}", scripted=False) for name in TARGETS],
            scripted=False,
        )
    ]
    link = connect(Path(folder) / "own" / "e.sock", Held)
    watch = Watch.open(Path(folder) / "crosswind.db", infos, link)
    collect_seldom()
    asked = Asked(Path(folder), seconds, screen, slow, profile)
    Measured(watch, asked).run()
    watch.close()


# Whoever measures


def terminal(
    command: Sequence[str], size: str, **environ: str
) -> tuple[subprocess.Popen[bytes], int]:
    """A process in a pseudo terminal of its own, with these variables besides."""
    main, other = pty.openpty()
    across, down = map(int, size.split("x"))
    fcntl.ioctl(main, termios.TIOCSWINSZ, struct.pack("HHHH", down, across, 0, 0))
    left_out = {"NO_COLOR", "COLORTERM", "TMUX", "SSH_CONNECTION", "COLUMNS", "LINES"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    process = subprocess.Popen(
        command,
        stdin=other,
        stdout=other,
        stderr=other,
        env={**kept, "TERM": "xterm-256color", **environ},
        start_new_session=True,
    )
    os.close(other)
    return process, main


def bytes_while_measured(main: int, folder: Path) -> int:
    """Take all that the app sends; how much of it came while it was measured."""
    counted, last = 0, b""
    begun, found = folder / "begun", folder / "found.json"
    while True:
        select.select([main], [], [], 1.0)
        try:
            piece = os.read(main, 65536)
        except OSError:
            break
        last = piece or last
        if begun.exists() and not found.exists():
            counted += len(piece)
    if not found.exists():
        sys.exit(f"the app ended before it was measured: {last[-2000:]!r}")
    return counted


def watching(
    conversations: int = 200,
    seconds: float = 10.0,
    *,
    screen: Screen = "live",
    size: str = "120x40",
    ssh: bool = False,
    slow: bool = False,
    history: int = 0,
    profile: str | None = None,
) -> Iterator[Row]:
    """What the app costs while many conversations speak and one of them is shown.

    An engine in a process of its own lets the conversations speak 50 tokens a second each, and
    stores what they have said. The real app, in a real terminal, shows one of them on its live
    screen, or by itself, or the list of all; with `--ssh` as over SSH. `--history` lets one begin
    with so many turns of 20,000 characters; `--slow` is that of `crosswind watch`, and `--profile`
    names a file for a profile of the app's loop. Measured inside it: its CPU time, and how late its
    event loop wakes; beside it, how late a loop wakes that has nothing else to do, which is the
    machine's own share of that; and what the terminal is sent.
    """
    late: list[float] = []
    with TemporaryDirectory(prefix="cw") as name, ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(talking(command(be_engine, name, conversations, history)))
        be = command(be_app, name, seconds, screen, slow, history, profile)
        app, main = terminal(be, size, **({"SSH_CONNECTION": "here"} if ssh else {}))
        idle = threading.Thread(target=lambda: late.extend(_idle(folder, seconds)), daemon=True)
        idle.start()
        sent = bytes_while_measured(main, folder)
        app.wait()
        idle.join()
        found = json.loads((folder / "found.json").read_text("utf-8"))
    yield Row("the app's CPU, of one core", f"{found['cpu']:.1%}")
    yield Row("of it, the loop that draws", f"{found['loop']:.1%}")
    yield Row("its loop is late by, p50 / p99 / most", _told(found["late"]))
    yield Row("an idle loop beside it", _told(late))
    yield Row("sent to the terminal", f"{sent / seconds / 1000:.1f} kB/s")
    yield Row("memory", f"{found['rss']:.0f} MB")
    yield Row("facts by then; speaking at the end", f"{found['facts']}; {found['speaking']}")


def _told(late: Sequence[float]) -> str:
    p50, p99, most = (
        1000 * each for each in (quantile(late, 0.5), quantile(late, 0.99), max(late))
    )
    return f"{p50:.1f} / {p99:.1f} / {most:.0f} ms"


@contextmanager
def talking(words: Sequence[str]) -> Iterator[None]:
    """An engine in a process of its own, from when it says that it is ready."""
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        engine.stdout.readline()
        yield
        engine.stdin.write(b"\n")
        engine.stdin.flush()


def _idle(folder: Path, seconds: float) -> list[float]:
    while not (folder / "begun").exists():
        time.sleep(0.05)
    return asyncio.run(lateness(seconds))
