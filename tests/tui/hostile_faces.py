"""What shows a hostile workspace: the app, and all that the headless commands print of it.
`python -m tests.tui.hostile_faces app|print FOLDER`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from engine.analysis.validation import SideOutcome, ValidationSide, validation_report
from engine.analysis.validation_figures import ValidationReport
from engine.benchmark import ConversationKey, Role, Speaker, Stage, State, Track
from engine.branches import Branch
from engine.cli import status, validating
from engine.cli.console import out
from engine.cli.lines import LinePrinter, bars
from engine.cli.main import main as crosswind
from engine.cli.session import Session, open_session
from engine.errors import InputError, Problem
from engine.facts import LiveText, Speech
from engine.link import Board, Command, EngineState, Identity, Request, Response, Wait
from engine.pipeline.order import Order, PricedOrder
from engine.pipeline.report import Report, ValidatedBenchmark, build_report
from engine.store.lock import Holder
from engine.watch import Watch
from tests.tui.hostile import HOSTILE, IN_NAMES, SCENARIO, SPOKEN_ONLY, STRANGE, judge, workspace_in
from tests.tui.theatre import BENCHMARK, TARGETS, Take, Theatre
from tui.app import CrosswindApp
from tui.launch import tell_outcome
from tui.services.engine_control import Backend
from tui.services.terminal import ControlCodeFilter, _acts

SPEAKING: Final = ConversationKey("m01_s002_v01", TARGETS[1])
FAULT: Final = InputError(
    Problem(HOSTILE, path=Path(IN_NAMES), line=1, column=2, key=HOSTILE, hint=HOSTILE)
)


class HostileLink:
    """An engine whose every word is hostile. Asked to judge again, it does."""

    def __init__(self, theatre: Theatre) -> None:
        self._theatre = theatre

    def board(self) -> Board:
        speech = Speech(BENCHMARK, SPEAKING, 0, 3, Speaker.TARGET, SPOKEN_ONLY, 0.0)
        return Board(
            EngineState.RUNNING,
            (speech,),
            problem=SPOKEN_ONLY,
            waits=(Wait(SPOKEN_ONLY, SPOKEN_ONLY, 3.0), Wait(SPOKEN_ONLY, SPOKEN_ONLY, None, 2)),
            parked={TARGETS[0]: SPOKEN_ONLY, SPOKEN_ONLY: SPOKEN_ONLY},
            concurrency={Stage.SIMULATE: 4},
            notices=(SPOKEN_ONLY,),
            engine=Identity(4711, SPOKEN_ONLY, datetime(2026, 5, 1, 12, tzinfo=UTC)),
            said={TARGETS[1]: len(SPOKEN_ONLY), SPOKEN_ONLY: 1},
        )

    def text(self, benchmark: str, key: ConversationKey, cursor: int = 0) -> LiveText | None:
        if (benchmark, key) != (BENCHMARK, SPEAKING):
            return None
        return LiveText.since(cursor, self.board().speaking[0], SPOKEN_ONLY)

    def ask(self, request: Request) -> Response:
        if request.command is Command.EVALUATE:
            asyncio.run(self._judge(request))
        return Response(accepted=request.command is Command.EVALUATE, text=SPOKEN_ONLY)

    async def _judge(self, request: Request) -> None:
        for row in request.rows:
            key = ConversationKey.parse(row.unit)
            found = self._theatre.store.reader.counting_take(row.benchmark, key)
            assert found is not None
            take = Take(key, found.seq, found.number)
            await judge(self._theatre, take, passed=False)
            await self._theatre.move(
                Stage.EVALUATE, row.unit, State.FAILED, key.target_id, reason=HOSTILE
            )

    def close(self) -> None:
        pass


class Alarm(ControlCodeFilter):
    """Tells of what reached the last step and should not have."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        for segment in filter(_acts, segments):
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{segment.text!r} {segment.style and segment.style.link!r}\n")
        return super().apply(segments, background)


class WatchedApp(CrosswindApp):
    """The app, but that its last filter tells what it had to take out."""

    alarm: Path

    def get_line_filters(self) -> Sequence[LineFilter]:
        others = [
            each for each in super().get_line_filters() if not isinstance(each, ControlCodeFilter)
        ]
        return [*others, Alarm(self.alarm)]


def show(folder: Path) -> int:
    session = open_session(workspace_in(folder))
    theatre = Theatre(session.workspace.root)
    infos = session.watched()
    link = HostileLink(theatre)
    with closing(theatre), closing(Watch.open(session.store_path, infos, link)) as watch:
        app = WatchedApp(
            watch,
            attach=f"crosswind watch --workspace {session.workspace.root}",
            backend=Backend(
                refuse,
                lambda order: PricedOrder(
                    order, (HOSTILE, HOSTILE), (f"{order.evaluator} costs {HOSTILE}",)
                ),
                refuse_to_make,
                report=lambda name: report(session, name),
            ),
        )
        app.alarm = folder / "alarms"
        app.run()
        tell_outcome(session.handle, watch)
    return app.return_code or 0


def refuse(order: Order | None) -> int:
    raise FAULT


def refuse_to_make(name: str) -> None:
    raise FAULT


def report(session: Session, name: str) -> Report:
    """As it is added up, with what a validation run would say."""
    found = build_report(session.workspace, session.config, session.store_path, name)
    branch = Branch(BENCHMARK, Role.EVALUATOR, HOSTILE)
    validations = (
        ValidatedBenchmark(branch, HOSTILE, validation(), None),
        ValidatedBenchmark(branch, HOSTILE, None, HOSTILE),
    )
    return Report(found.analysis, validations, found.courses)


def validation() -> ValidationReport:
    names = (*TARGETS, STRANGE.target_id)

    def side(every: int) -> ValidationSide:
        return ValidationSide(
            HOSTILE,
            [
                SideOutcome(
                    ConversationKey(f"m01_s{n:03d}_v01", name), "m01", Track.POSITIVE, n > every
                )
                for n in range(6)
                for name in names
            ],
        )

    return validation_report(Branch(BENCHMARK, Role.EVALUATOR, HOSTILE), side(2), side(3))


# What is printed


def printed(folder: Path) -> None:
    root, faulty = workspace_in(folder), folder / "faulty"
    conversation = f"{SCENARIO}__{TARGETS[0]}"
    for words in (
        *(["show", each] for each in ("m01", SCENARIO, conversation, str(STRANGE), HOSTILE)),
        ["status"],
        ["results"],
        ["results", "--details"],
        ["export", "rates"],
        ["search", "PWNED"],
        ["search", HOSTILE],
        ["doctor"],
        ["validate", BENCHMARK, "--swap", "evaluator", "--with", "strict", "--dry-run"],
        ["validate", HOSTILE, "--swap", "user", "--with", HOSTILE],
        ["run", "--dry-run", "--explain"],
        ["run", "--stage", HOSTILE, "--target", HOSTILE, HOSTILE],
        ["evaluate", conversation, "--evaluator", HOSTILE],
        ["export", "md"],
        ["export", "jsonl", BENCHMARK],
        ["export", "csv", BENCHMARK],
        ["repair", "--files"],
        ["watch", "--plain"],
        [HOSTILE],
    ):
        run(words, root)
    for words in (["status"], ["doctor"], ["run", "--dry-run"]):
        run(words, faulty)
    with closing(open_watch(root)) as watch:
        for lines in lines_of_a_watcher(watch):
            out(lines)


def run(words: list[str], root: Path) -> None:
    out(f"=== {' '.join(words)}")
    crosswind([*words, "--workspace", str(root)])


def open_watch(root: Path) -> Watch:
    session = open_session(root)
    theatre = Theatre(root)
    return Watch.open(session.store_path, session.watched(), HostileLink(theatre))


def lines_of_a_watcher(watch: Watch) -> Iterator[str]:
    LinePrinter().show(watch, last=True)
    with bars() as printer:
        printer.show(watch, last=True)
    yield "\n".join(validating.report_lines(validation()))
    assert watch.link is not None
    session = open_session(watch.reader.path.parent)
    holder = Holder(4711, HOSTILE, None)
    status._print(status.Status(session, holder, watch.link.board(), watch, {}))
    yield "=== end"


if __name__ == "__main__":
    os.environ.pop("CROSSWIND_DEBUG", None)
    if sys.argv[1] == "app":
        sys.exit(show(Path(sys.argv[2])))
    printed(Path(sys.argv[2]))
