"""What the app costs while many conversations speak and one of them is shown:
`python -m tests.benchmarks.watching [CONVERSATIONS] [SECONDS] [--screen conversation]
[--size 120x40] [--slow] [--history TURNS] [--profile FILE]`.

An engine in a process of its own lets the conversations speak 50 tokens a second each, and stores
what they have said. The real app, in a real terminal, shows one of them on its live screen, or by
itself; `--history` lets that one begin with so many turns of 20,000 characters. Measured inside it:
its CPU time, and how late its event loop wakes; beside it, how late a loop wakes that has nothing
else to do, which is the machine's own share of that; and what the terminal is sent.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import fcntl
import json
import math
import os
import pty
import resource
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

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
LAG_EVERY = 0.005
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
            said=self.live.said(),
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


async def be_engine(folder: Path, count: int, history: int) -> None:
    engine = Talking()
    ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    with open_store(folder / "crosswind.db") as store:
        server = Server(engine, folder / "own" / "e.sock")
        await server.start()
        talking = asyncio.create_task(talk(store, engine.live, count, history))
        await asyncio.sleep(0.5)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await ended
        talking.cancel()
        await server.close()


# The app


class Measured(CrosswindApp):
    """The app, and a meter on its loop."""

    def __init__(self, watch: Watch, asked: argparse.Namespace) -> None:
        super().__init__(watch, theme="crosswind-dark", slow=asked.slow)
        self._folder: Path = asked.folder
        self._seconds: float = asked.seconds
        self._profile: str | None = asked.profile
        self._by_itself = asked.screen == "conversation"

    def on_mount(self) -> None:
        super().on_mount()
        if self._by_itself:
            self.navigator.open_conversation(BENCHMARK, key_of(0))
        self.run_worker(self._measure(), group="measuring")

    async def _measure(self) -> None:
        await asyncio.sleep(WARM_UP)
        (self._folder / "begun").touch()
        profile = cProfile.Profile() if self._profile else None
        if profile is not None:
            profile.enable()
        began, cpu, own = time.monotonic(), time.process_time(), time.thread_time()
        late = await lags(self._seconds)
        took = time.monotonic() - began
        cpu, own = time.process_time() - cpu, time.thread_time() - own
        if profile is not None and self._profile is not None:
            profile.disable()
            profile.dump_stats(self._profile)
        board = self.shell.ticker.board
        found = {
            "cpu": cpu / took,
            "loop": own / took,
            "late": late,
            "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "facts": self.shell.watch.progress.seq,
            "speaking": len(board.speaking) if board else 0,
        }
        (self._folder / "found.json").write_text(json.dumps(found))
        self.exit()


async def lags(seconds: float) -> list[float]:
    """How late the loop woke, each time."""
    late: list[float] = []
    until = time.monotonic() + seconds
    while (now := time.monotonic()) < until:
        await asyncio.sleep(LAG_EVERY)
        late.append(time.monotonic() - now - LAG_EVERY)
    return late


@dataclass(frozen=True)
class Held:
    socket: str | None = None


def be_app(asked: argparse.Namespace) -> None:
    folder: Path = asked.folder
    infos = [
        BenchmarkInfo(
            name=BENCHMARK,
            title="Holding steady",
            turns=asked.history + TURNS,
            targets=[TargetInfo(name, f"offline:{name}", scripted=False) for name in TARGETS],
            scripted=False,
        )
    ]
    link = connect(folder / "own" / "e.sock", Held)
    watch = Watch.open(folder / "crosswind.db", infos, link)
    collect_seldom()
    Measured(watch, asked).run()
    watch.close()


# Whoever measures


def terminal(command: Sequence[str], size: str) -> tuple[subprocess.Popen[bytes], int]:
    """A process in a pseudo terminal of its own."""
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
        env={**kept, "TERM": "xterm-256color"},
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


def quantile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[math.ceil(part * len(ordered)) - 1] * 1000


def measure(folder: Path, asked: argparse.Namespace) -> None:
    me = [sys.executable, "-m", "tests.benchmarks.watching", str(asked.conversations)]
    me += [str(asked.seconds), "--folder", str(folder), "--history", str(asked.history)]
    late: list[float] = []
    with subprocess.Popen(
        [*me, "--be", "engine"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as engine:
        assert engine.stdin is not None
        assert engine.stdout is not None
        engine.stdout.readline()
        options = ["--profile", asked.profile] if asked.profile else []
        options += ["--screen", asked.screen, *(["--slow"] if asked.slow else [])]
        app, main = terminal([*me, "--be", "app", *options], asked.size)
        idle = threading.Thread(
            target=lambda: late.extend(idle_lags(folder, asked.seconds)), daemon=True
        )
        idle.start()
        sent = bytes_while_measured(main, folder)
        app.wait()
        idle.join()
        engine.stdin.write(b"\n")
        engine.stdin.flush()
    tell(json.loads((folder / "found.json").read_text()), late, sent, asked)


def idle_lags(folder: Path, seconds: float) -> list[float]:
    while not (folder / "begun").exists():
        time.sleep(0.05)
    return asyncio.run(lags(seconds))


def tell(
    found: dict[str, list[float]], idle: Sequence[float], sent: int, asked: argparse.Namespace
) -> None:
    late = found["late"]
    sys.stdout.write(
        f"| {asked.conversations} conversations, {TOKENS_A_SECOND} tokens a second each; "
        f"{asked.screen}, {asked.size}{', slow' if asked.slow else ''} | |\n"
        "|---|---|\n"
        f"| the app's CPU, of one core | {found['cpu']:.1%} |\n"
        f"| of it, the loop that draws | {found['loop']:.1%} |\n"
        f"| lateness of its loop, p50 / p99 / most | {quantile(late, 0.5):.1f} / "
        f"{quantile(late, 0.99):.1f} / {max(late) * 1000:.0f} ms |\n"
        f"| of an idle loop beside it | {quantile(idle, 0.5):.1f} / {quantile(idle, 0.99):.1f} / "
        f"{max(idle) * 1000:.0f} ms |\n"
        f"| sent to the terminal | {sent / asked.seconds / 1000:.1f} kB/s |\n"
        f"| memory | {found['rss']:.0f} MB |\n"
        f"| facts by then; speaking at the end | {found['facts']}; {found['speaking']} |\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("conversations", nargs="?", type=int, default=200)
    parser.add_argument("seconds", nargs="?", type=float, default=10.0)
    parser.add_argument("--screen", choices=["live", "conversation"], default="live")
    parser.add_argument("--size", default="120x40", help="of the terminal")
    parser.add_argument("--slow", action="store_true", help="as `crosswind watch --slow`")
    parser.add_argument("--history", type=int, default=0, help="turns of the one that is shown")
    parser.add_argument("--profile", help="where to put a profile of the app's loop")
    parser.add_argument("--be", choices=["engine", "app"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.be == "engine":
        asyncio.run(be_engine(asked.folder, asked.conversations, asked.history))
    elif asked.be == "app":
        be_app(asked)
    else:
        with TemporaryDirectory(prefix="cw") as name:
            measure(Path(name), asked)


if __name__ == "__main__":
    main()
