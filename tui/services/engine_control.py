"""Asking the engine for work, and starting one where none is there."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from textual.app import App

from engine.benchmark import Stage
from engine.display import plural
from engine.errors import CrosswindError, InputError
from engine.link import (
    Board,
    Command,
    EngineLink,
    EngineState,
    Request,
    Response,
    WorkRow,
    order_for,
)
from engine.pipeline.order import Order, PricedOrder
from engine.watch import BenchmarkInfo, Watch
from tui.screens.dialogs import ChoiceOption, ChoiceScreen
from tui.services.terminal import editor, show_file
from tui.services.ticker import Ticker
from tui.state.run_status import RunPhase, current_benchmark, status_of

if TYPE_CHECKING:
    from engine.cli.piloting import PilotPage
    from engine.pipeline.planner import RemainingWork
    from engine.pipeline.report import Report
    from tui.state.labelling import DisputeSource, SampleSource
    from tui.state.reviewing import ReviewSource

PRICED: Final = frozenset({Command.EVALUATE, Command.SIMULATE})
"""Commands whose dialog says what they cost."""
QUOTED: Final = frozenset({Command.RUN, Command.RETRY})
"""Commands whose price a person has to agree to first."""
GONE: Final = frozenset({EngineState.STOPPED, EngineState.LOST})
_SETTLES: Final = 2.0
"""Seconds in which what an engine was asked outweighs what it last said of itself."""

T = TypeVar("T")
Then = Callable[[Response], None]


class QuitChoice(Enum):
    """What a person can decide about a run; in the order in which it is offered."""

    RUNNING = "leave it running"
    AFTER_SPOKEN = "stop after what is being spoken"
    NOW = "stop now"
    STAY = "stay"


@dataclass(frozen=True, slots=True)
class Backend:
    """Work done outside the app's loop. Each call takes a while and raises `CrosswindError`; None
    where it cannot be done here."""

    start: Callable[[Order | None], int] | None = None
    """Starts an engine, idle where there is no order; gives its process id once it is ready."""
    cost: Callable[[Order], PricedOrder | None] | None = None
    """What an order would be paid; None where it is free."""
    make: Callable[[str], BenchmarkInfo] | None = None
    """Makes a benchmark of that name."""
    report: Callable[[str], Report] | None = None
    """Adds up what the verdicts of a benchmark say."""
    describe: Callable[[str], BenchmarkInfo] | None = None
    """Reads a benchmark's file anew."""
    is_template: Callable[[str], bool] = lambda _name: False
    """Whether nobody has described yet what a benchmark measures."""
    stale: Callable[[str], Mapping[int, str]] | None = None
    """Why what counts of a benchmark is stale, by the `seq` of each such take."""
    label: Callable[[str], SampleSource] | None = None
    """Opens the sample of a benchmark that this person labels, drawn where there is none."""
    disputes: Callable[[str], DisputeSource] | None = None
    """Finds what people who labelled a benchmark disagree on."""
    review: Callable[[], ReviewSource] | None = None
    """What is said of metrics and scenarios."""
    ahead: Callable[[str], RemainingWork] | None = None
    """What of a benchmark waits for a person."""
    pilot: Callable[[str], PilotPage] | None = None
    """What a few conversations of each metric say."""


class _Piloting(NamedTuple):
    """A pilot that was asked for."""

    benchmark: str
    after: int
    """`seq` of the run before it."""
    then: Callable[[PilotPage], None]


_PILOT_SCENARIOS: Final = 2
"""Of each metric, as of the command."""


class EngineControl:
    """The engine at work, or one that is started when needed. Whatever takes a while runs off the
    screen's loop."""

    def __init__(
        self,
        app: App[Any],
        watch: Watch,
        ticker: Ticker,
        backend: Backend,
        tell: Callable[..., None],
        look: Callable[[], None],
        started: int | None = None,
    ) -> None:
        """`tell` shows a notice, `look` has what has changed drawn. `started` is the process id of
        the last engine that this app started: its run may be stopped by a short key, any other only
        by a word."""
        self._app = app
        self._watch = watch
        self._ticker = ticker
        self._backend = backend
        self._tell = tell
        self._look = look
        self._started = started
        self._pause_asked: tuple[EngineState, float] | None = None
        """What the engine was last asked to become, and when."""
        self._piloting: _Piloting | None = None
        self._question_asked: str | None = None
        """What of the engine's was asked last."""

    @property
    def at_work(self) -> bool:
        """Whether there is an engine that takes commands."""
        board = self._ticker.board
        return board is not None and board.state not in GONE

    @property
    def pause_word(self) -> str:
        """What `pause` would do now; empty where there is nothing to pause or to resume."""
        benchmark = current_benchmark(self._watch)
        phase = status_of(self._watch.progress, self._ticker.board, benchmark).phase
        if not phase.over:
            return "go on" if phase is RunPhase.PAUSED else "pause"
        if phase is RunPhase.NOTHING:
            return "run" if self._watch.benchmarks else ""
        return "go on" if self._has_work_left else ""

    @property
    def _has_work_left(self) -> bool:
        tally = self._watch.progress.stage_tally
        tallies = (tally(info.name, stage) for info in self._watch.benchmarks for stage in Stage)
        return any(each.settled < each.total for each in tallies)

    def is_own(self, board: Board) -> bool:
        """Whether the engine at work was started by this app, and not by somebody else."""
        return board.engine is not None and board.engine.pid == self._started

    def ask(self, request: Request, then: Then | None = None) -> None:
        """Ask the engine. What it says is shown; where `then` is given, it is called with the
        answer instead, and with a refusal where nobody could be asked. Where none is at work, one
        is started for what is work."""
        link, show = self._watch.link, then or self._show
        # the board may be a tick old; an engine that went meanwhile is refused by the link, in
        # words
        if link is None or not self.at_work:
            self._start_for(request, show)
            return
        order = self._order_for(request) if request.command in QUOTED else None
        if order is not None and order.benchmarks:
            self._begin(self._ask_agreed(link, request, order, show))
        else:
            self._begin(self._ask(link, request, show))

    def start(self, order: Order, request: Request | None = None, then: Then | None = None) -> None:
        """Start an engine on this where none is at work; `request` is what led to it."""
        show = then or self._show
        if self._backend.start is None:
            names = " ".join(order.benchmarks)
            why = f"No engine is at work here: `crosswind run {names}` starts one."
            show(Response(accepted=False, text=why))
        else:
            self._begin(self._start(self._backend.start, order, request, show))

    def run(self, names: Sequence[str]) -> None:
        """Run what is missing of these, except those that nobody has described yet."""

        def ask(order: Order) -> None:
            self.ask(Request(Command.RUN, order=order))

        self._begin(self._described(names, ask))

    async def _described(self, names: Sequence[str], act: Callable[[Order], None]) -> None:
        """Order those that somebody has described, and say which are not."""
        try:
            bare = await asyncio.to_thread(lambda: list(filter(self._backend.is_template, names)))
        except CrosswindError as error:
            self._tell(str(error), bad=True)
            return
        for name in bare:
            self._tell(f"{name} is not run: e opens its template, to describe it", bad=True)
        wanted = tuple(name for name in names if name not in bare)
        if wanted:
            act(Order(benchmarks=wanted))

    def pause(self) -> None:
        """Pause, or go on; where no engine is at work, have one do what is left."""
        board = self._ticker.board
        if board is None or not self.at_work:
            self._begin(self._described([info.name for info in self._watch.benchmarks], self.start))
            return
        # what the engine says of itself comes a little later than its answer, and pressed twice
        # the key is to undo what it did
        asked, at = self._pause_asked or (board.state, 0.0)
        state = asked if time.monotonic() - at < _SETTLES else board.state
        paused = state is EngineState.PAUSED
        self._pause_asked = (
            EngineState.RUNNING if paused else EngineState.PAUSED,
            time.monotonic(),
        )

        def answered(answer: Response) -> None:
            if not answer.accepted:
                self._pause_asked = None
            self._show(answer)

        self.ask(Request(Command.RESUME if paused else Command.PAUSE), answered)

    def stop(self, decision: QuitChoice | None, then: Then | None = None) -> None:
        """Stop the run as a person chose; without a choice it goes on."""
        if decision is QuitChoice.AFTER_SPOKEN:
            self.ask(Request(Command.STOP))
        elif decision is QuitChoice.NOW:
            self.ask(Request(Command.STOP_NOW), then)

    def show_question(self, stop: Callable[[], None]) -> None:
        """Show once the question that the engine waits for an answer to. `stop` asks how to stop
        it."""
        board = self._ticker.board
        question = None if board is None else board.question
        if question == self._question_asked:
            return
        self._question_asked = question
        if question is None:
            return
        go = ChoiceOption("y", "go on", "agree to that")
        end = ChoiceOption("s", "stop", "asks how; the next run goes on from there")
        later = ChoiceOption("l", "later", "it waits: P lets it go on, x stops it")

        def decided(offer: ChoiceOption | None) -> None:
            if offer == go:
                self.ask(Request(Command.RESUME))
            elif offer == end:
                stop()

        self._app.push_screen(ChoiceScreen(question, (go, end, later)), decided)

    def cost(self, order: Order) -> PricedOrder | None:
        """What it would call and cost; None where nothing is paid for. It takes a while: not for
        the screen's loop. Raises `CrosswindError`."""
        return None if self._backend.cost is None else self._backend.cost(order)

    def report(self, benchmark: str) -> Report:
        """Its results now. Takes a while: not for the screen's loop. Raises `CrosswindError`."""
        if self._backend.report is None:
            raise InputError(f"`crosswind results {benchmark}` adds it up: it cannot be done here.")
        return self._backend.report(benchmark)

    def stale(self, benchmark: str) -> Mapping[int, str]:
        """Why takes that count are stale, by their `seq`; nothing where that cannot be told here.
        It takes a while: not for the screen's loop. Raises `CrosswindError`."""
        return {} if self._backend.stale is None else self._backend.stale(benchmark)

    def ahead(self, benchmark: str) -> RemainingWork | None:
        """What of it awaits a person; None where that cannot be told here. Takes a while: not for
        the screen's loop. Raises `CrosswindError`."""
        return None if self._backend.ahead is None else self._backend.ahead(benchmark)

    def pilot(self, benchmark: str, then: Callable[[PilotPage], None]) -> None:
        """Have a few conversations of each metric played; `then` is called with what they say, at
        once where they are."""
        if self._backend.pilot is None:
            self._tell(f"`crosswind pilot {benchmark}` plays it.", bad=True)
        else:
            self._begin(self._pilot(self._backend.pilot, benchmark, then))

    async def _pilot(
        self, page: Callable[[str], PilotPage], name: str, then: Callable[[PilotPage], None]
    ) -> None:
        def asked(order: Order) -> None:
            last = self._watch.reader.last_run()
            piloting = _Piloting(name, 0 if last is None else last.seq, then)
            request = Request(Command.RUN, order=replace(order, pilot=_PILOT_SCENARIOS))
            self.ask(request, partial(answered, piloting))

        def answered(piloting: _Piloting, answer: Response) -> None:
            before = self._piloting
            # one that is at work is waited for, however often it is asked for
            if answer.accepted and (before is None or before.benchmark != piloting.benchmark):
                self._piloting = piloting
            self._show(answer)

        try:
            found = None
            if not await asyncio.to_thread(self._backend.is_template, name):
                found = await asyncio.to_thread(page, name)
        except CrosswindError as error:
            self._tell(str(error), bad=True)
            return
        if found is not None and found.is_played:
            then(found)
        else:
            await self._described([name], asked)

    def show_pilot(self) -> None:
        """What a pilot that was asked for here says, as soon as it is over."""
        piloting, page = self._piloting, self._backend.pilot
        if piloting is None or page is None:
            return
        try:
            over = self._watch.reader.run_over(piloting.after)
        except CrosswindError:
            return  # whoever reads the run tells it
        if over is not None and over.benchmarks == (piloting.benchmark,):
            self._piloting = None
            self._begin(self._found(page, piloting.benchmark, piloting.then))

    def review(self) -> ReviewSource:
        """It takes a while: not for the screen's loop. Raises `CrosswindError`."""
        if self._backend.review is None:
            raise InputError("`crosswind review` does it: it cannot be done here.")
        return self._backend.review()

    def label(self, benchmark: str, then: Callable[[SampleSource], None]) -> None:
        """Open this person's sample of a benchmark; `then` is called with it."""
        self._look_up(self._backend.label, benchmark, then, f"crosswind label {benchmark}")

    def adjudicate(self, benchmark: str, then: Callable[[DisputeSource], None]) -> None:
        """Find what people disagree on; `then` is called with it."""
        self._look_up(self._backend.disputes, benchmark, then, f"crosswind adjudicate {benchmark}")

    def _look_up(
        self, find: Callable[[str], T] | None, name: str, then: Callable[[T], None], command: str
    ) -> None:
        if find is None:
            self._tell(f"`{command}` opens it.", bad=True)
        else:
            self._begin(self._found(find, name, then))

    async def _found(self, find: Callable[[str], T], name: str, then: Callable[[T], None]) -> None:
        try:
            found = await asyncio.to_thread(find, name)
        except CrosswindError as error:
            self._tell(str(error), bad=True)
        else:
            then(found)

    def make_benchmark(self, name: str, then: Callable[[], None]) -> None:
        """Make a benchmark in the workspace, with a file to describe it in; `then` is called when
        it is there."""
        if self._backend.make is None:
            self._tell(f"`crosswind new {name}` makes it.", bad=True)
        else:
            self._begin(self._make_benchmark(self._backend.make, name, then))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._app.run_worker(work, group="ask")

    def _order_for(self, request: Request) -> Order | None:
        units = self._watch.reader.failed_units() if request.command is Command.RETRY else ()
        return order_for(request, {WorkRow(one.benchmark, one.unit): one.target for one in units})

    def _start_for(self, request: Request, show: Then) -> None:
        order = self._order_for(request)
        if order is None:
            self._tell("No engine is at work.")
        elif request.command is Command.RETRY and not order.only:
            self._tell("Nothing has failed.")
        else:
            self.start(order, request, show)

    async def _ask(self, link: EngineLink, request: Request, show: Then) -> None:
        show(await asyncio.to_thread(link.ask, request))
        self._look()

    async def _ask_agreed(
        self, link: EngineLink, request: Request, order: Order, show: Then
    ) -> None:
        """What is to follow what is at work costs money as well."""
        try:
            agreed = await self._agreed(order)
        except CrosswindError as error:
            show(Response(accepted=False, text=str(error)))
            return
        if agreed is not None:
            named = None if request.order is None else agreed
            await self._ask(link, replace(request, order=named, quote=agreed.quote), show)

    def _show(self, answer: Response) -> None:
        """What the engine says, where it says something."""
        if answer.text or not answer.accepted:
            self._tell(answer.text or "The engine refused.", bad=not answer.accepted)

    async def _start(
        self,
        start: Callable[[Order | None], int],
        order: Order,
        request: Request | None,
        show: Then,
    ) -> None:
        """Start an engine with the order; or idle, and then ask it what led to this."""
        try:
            # whoever asks for conversations to be judged or played again was shown the price
            shown = request is not None and request.command in PRICED
            agreed = order if shown else await self._agreed(order)
            if agreed is None:
                return
            if request is not None and not shown:
                request = replace(request, quote=agreed.quote)
            self._tell("An engine is being started.")
            self._started = await asyncio.to_thread(start, agreed if request is None else None)
        except CrosswindError as error:
            show(Response(accepted=False, text=str(error)))
            return
        if request is not None and self._watch.link is not None:
            await self._ask(self._watch.link, request, show)
        self._look()

    async def _agreed(self, order: Order) -> Order | None:
        """The order with the price that a person agreed to; None where they did not. Raises
        `CrosswindError`."""
        priced = await asyncio.to_thread(self.cost, order)
        if priced is None:
            return order
        when = "after what is at work" if self.at_work else "at once"
        go = ChoiceOption("y", "go on", f"begins {when}")
        leave = ChoiceOption("n", "leave it", "nothing is called, nothing is spent")
        asked = [_asked(order), *(line.strip() for line in priced.total)]
        asked += [f"note: {note}" for note in priced.notes]
        chosen = await self._app.push_screen_wait(ChoiceScreen(asked, (go, leave)))
        return priced.order if chosen == go else None

    def edit_benchmark(self, info: BenchmarkInfo) -> None:
        """Open its file in the editor, and then read it anew."""
        if info.definition is not None:
            self._begin(self._edit_benchmark(info.name, info.definition))

    async def _edit_benchmark(self, name: str, path: Path) -> None:
        try:
            await show_file(self._app, path, editor(os.environ))
            if self._backend.describe is None:
                return
            found = await asyncio.to_thread(self._backend.describe, name)
        except CrosswindError as error:
            self._tell(str(error), bad=True)
            return
        self._watch.benchmarks = [
            replace(each, title=found.title, description=found.description)
            if each.name == name
            else each
            for each in self._watch.benchmarks
        ]
        self._look()

    async def _make_benchmark(
        self, make: Callable[[str], BenchmarkInfo], name: str, then: Callable[[], None]
    ) -> None:
        try:
            made = await asyncio.to_thread(make, name)
        except CrosswindError as error:
            self._tell(str(error), bad=True)
            return
        self._watch.benchmarks = [*self._watch.benchmarks, made]
        self._tell(f"{name} is made: e describes what it measures, then b runs it")
        then()
        self._look()


def _asked(order: Order) -> str:
    """What an order would do, as a question."""
    names = order.benchmarks
    what = names[0] if len(names) == 1 else f"{len(names)} benchmarks"
    if order.rewrite:
        return f"Have {', '.join(one.id for one in order.rewrite.values())} written again?"
    if order.only:
        rows = sum(map(len, order.only.values()))
        return f"Try again {plural(rows, 'row')} that failed of {what}?"
    if order.pilot:
        return f"Play a few conversations of each metric of {what}?"
    missing = f"Do what is missing of {what}: "
    generate = {Stage.GEN_METRICS, Stage.GEN_SCENARIOS}
    parts = [
        ("write", generate <= order.stages),
        ("play", Stage.SIMULATE in order.stages),
        ("judge", Stage.EVALUATE in order.stages),
    ]
    return missing + ", ".join(word for word, is_asked in parts if is_asked) + "?"
