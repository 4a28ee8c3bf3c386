"""Ask the engine for work, and start one if none is running."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from textual.app import App

from engine.benchmark import ConversationKey, Stage
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
from engine.pipeline.order import PILOT_SCENARIOS, Order, PricedOrder
from engine.report.writing import Hide, hiding
from engine.store.tables import TakeCount
from engine.watch import BenchmarkInfo, Watch
from tui.screens.dialogs import ChoiceOption, ChoiceScreen, QuitChoice
from tui.services.terminal import editor, show_file
from tui.services.ticker import Ticker
from tui.state.run_status import RunPhase

if TYPE_CHECKING:
    from engine.cli.person_labels import PersonDisputes, PersonSample
    from engine.cli.piloting import PilotPage
    from engine.cli.reviewing import PersonReview
    from engine.pipeline.planner import RemainingWork
    from engine.pipeline.provenance import TakeCalls
    from engine.pipeline.report import Report

PRICED: Final = frozenset({Command.EVALUATE, Command.SIMULATE})
"""Commands whose dialog says what they cost."""
QUOTED: Final = frozenset({Command.RUN, Command.RETRY})
"""Commands whose price the user must agree to first."""
_SETTLES: Final = 2.0
"""Seconds for which a request to an engine takes precedence over its last reported state."""

T = TypeVar("T")
Then = Callable[[Response], None]


def changed_at(path: Path) -> float:
    """When a file, or the log of a store, was changed last; 0 without one."""
    files = [file for file in (path, path.with_name(f"{path.name}-wal")) if file.exists()]
    return max((file.stat().st_mtime for file in files), default=0.0)


def _not_here(*_arguments: object) -> Any:
    raise InputError("This cannot be done here, only by the command line.")


@dataclass(frozen=True, slots=True)
class Backend:
    """Work done off the event loop. Each call may take a while and raise `CrosswindError`."""

    start: Callable[[Order | None], int] = _not_here
    """Starts an engine, idle without an order. Returns its process id once it is ready."""
    cost: Callable[[Order], PricedOrder | None] = lambda _order: None
    """Prices an order; None if it is free."""
    make: Callable[[str], None] = _not_here
    """Creates a benchmark of that name."""
    made_since: Callable[[Collection[str]], Sequence[BenchmarkInfo]] = lambda _known: ()
    """Reads the files of the benchmarks that are not among those known."""
    report: Callable[[str], Report] = _not_here
    """Computes the results of a benchmark."""
    describe: Callable[[str], BenchmarkInfo] = _not_here
    """Reads a benchmark's file again."""
    is_template: Callable[[str], bool] = lambda _name: False
    """Whether a benchmark's file is still the template."""
    stale: Callable[[str], Mapping[int, str]] = lambda _name: {}
    """Finds why counted takes of a benchmark are stale, by their `seq`."""
    decided: Callable[[str], Mapping[int, TakeCount]] = lambda _name: {}
    """Finds the takes of a benchmark that the files decide otherwise than the store says."""
    calls: Callable[[str, ConversationKey, int], TakeCalls] = _not_here
    """Finds the calls behind the messages of a take, by its number."""
    label: Callable[[str], PersonSample] = _not_here
    """Opens the user's label sample of a benchmark, drawing it if there is none."""
    disputes: Callable[[str], PersonDisputes] = _not_here
    """Finds the items of a benchmark that labellers disagree on."""
    review: Callable[[], PersonReview] = _not_here
    """Opens the reviews of metrics and scenarios."""
    ahead: Callable[[str], RemainingWork | None] = lambda _name: None
    """Finds the work of a benchmark that waits for a person."""
    pilot: Callable[[str], PilotPage] = _not_here
    """Builds the page on a pilot."""
    hiding: Callable[[], Hide] = lambda: hiding(())
    """Returns what hides the keys of the configured models."""


class _PilotRequest(NamedTuple):
    """A requested pilot."""

    benchmark: str
    after: int
    """The `seq` of the run before it."""
    then: Callable[[PilotPage], None]


class EngineControl:
    """Controls the running engine, or one started when needed. Slow work runs off the event
    loop."""

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
        """`tell` shows a notice; `look` draws what has changed. `started` is the process id of the
        last engine that this app started. Its run can be stopped with a key; any other needs a
        typed word."""
        self._app = app
        self._watch = watch
        self._ticker = ticker
        self.backend = backend
        self._tell = tell
        self._look = look
        self._started = started
        self._pause_asked: tuple[EngineState, float] | None = None
        """The state last requested of the engine, and when."""
        self._piloting: _PilotRequest | None = None
        self._unread = ""
        """Why a benchmark could not be read, as last said."""
        self._question_asked: str | None = None
        """The engine's question that was shown last."""

    @property
    def at_work(self) -> bool:
        """Whether there is an engine that takes commands."""
        board = self._ticker.now.board
        return board is not None and not board.state.is_over

    @property
    def pause_word(self) -> str:
        """The hint for `pause`; empty if there is nothing to pause or resume."""
        phase = self._ticker.now.status.phase
        if not phase.over:
            return "go on" if phase is RunPhase.PAUSED else "pause"
        if phase is RunPhase.NOTHING:
            return "run" if self._watch.benchmarks else ""
        return "go on" if self._has_work_left else ""

    @property
    def _has_work_left(self) -> bool:
        tally = self._watch.progress.stage_tally
        tallies = (tally(info.name, stage) for info in self._watch.benchmarks for stage in Stage)
        return any(tally.queued or tally.running for tally in tallies)

    def is_own(self, board: Board) -> bool:
        """Whether the engine at work was started by this app, and not by somebody else."""
        return board.engine is not None and board.engine.pid == self._started

    def ask(self, request: Request, then: Then | None = None) -> None:
        """Send a request to the engine. Its answer is shown, or passed to `then` if given, which
        also gets a refusal if no engine could be asked. If none is running and the request is work,
        one is started."""
        link, show = self._watch.link, then or self._show_answer
        # the board may be a tick old; if the engine has gone meanwhile, the link refuses in words
        if link is None or not self.at_work:
            self._start_for(request, show)
            return
        order = self._order_for(request) if request.command in QUOTED else None
        if order is not None and order.benchmarks:
            self._begin(self._ask_agreed(link, request, order, show))
        else:
            self._begin(self._ask(link, request, show))

    def start(self, order: Order, request: Request | None = None, then: Then | None = None) -> None:
        """Start an engine on an order if none is running; `request` is what led to it."""
        self._begin(self._start(order, request, then or self._show_answer))

    def run(self, names: Sequence[str]) -> None:
        """Run what is missing of these benchmarks, except templates that nobody has filled in."""

        def ask(order: Order) -> None:
            self.ask(Request(Command.RUN, order=order))

        self._begin(self._order_described(names, ask))

    async def _order_described(self, names: Sequence[str], act: Callable[[Order], None]) -> None:
        """Order those that are not templates any more, and name the others."""
        bare = await asyncio.to_thread(lambda: list(filter(self.backend.is_template, names)))
        for name in bare:
            self._tell(
                f"{name} is not run: e on Benchmarks opens its template, to describe it", bad=True
            )
        wanted = tuple(name for name in names if name not in bare)
        if wanted:
            act(Order(benchmarks=wanted))

    def pause(self) -> None:
        """Pause or resume; if no engine is running, start one on the remaining work."""
        board = self._ticker.now.board
        if board is None or not self.at_work:
            self._begin(
                self._order_described([info.name for info in self._watch.benchmarks], self.start)
            )
            return
        # the engine's state changes a little after its answer, and a second press is meant to undo
        # the first
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
            self._show_answer(answer)

        self.ask(Request(Command.RESUME if paused else Command.PAUSE), answered)

    def stop(self, decision: QuitChoice | None, then: Then | None = None) -> None:
        """Stop the run as the user chose; without a choice it continues."""
        if decision is QuitChoice.AFTER_SPOKEN:
            self.ask(Request(Command.STOP))
        elif decision is QuitChoice.NOW:
            self.ask(Request(Command.STOP_NOW), then)

    def show_question(self, stop: Callable[[], None]) -> None:
        """Show, once, the question the engine is waiting on. `stop` asks how to stop it."""
        board = self._ticker.now.board
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

        asked = question[:1].upper() + question[1:]
        self._app.push_screen(ChoiceScreen(asked, (go, end, later)), decided)

    def ask_again(self) -> None:
        """Show the question that the engine is waiting on once more."""
        self._question_asked = None

    async def correct_states(self) -> None:
        """Count the rows of work as they are, where these may not be in their stored states: rows
        that failed, those of a run that was cut off, and where files were changed since."""
        progress, written = self._watch.progress, changed_at(self._watch.reader.path)
        for info in self._watch.benchmarks:
            files = [] if info.definition is None else [*info.definition.parent.glob("*.[yj]*")]
            has_failed = any(progress.stage_tally(info.name, stage).failed for stage in Stage)
            is_new = any(changed_at(file) > written for file in files)
            if not (has_failed or is_new or progress.run_end is None):
                continue
            with suppress(CrosswindError):
                self.correct(info.name, await asyncio.to_thread(self.backend.ahead, info.name))
        self._look()

    def correct(self, benchmark: str, ahead: RemainingWork | None) -> None:
        """As `correct_states`, of one benchmark, by its remaining work."""
        # an engine at work settles its own rows
        if ahead is not None and not self.at_work:
            self._watch.correct(benchmark, ahead.corrections, ahead.seq)

    def pilot(self, benchmark: str, then: Callable[[PilotPage], None]) -> None:
        """Play a few conversations of each metric. `then` gets the page on them, at once if they
        exist already."""
        self._begin(self._pilot(benchmark, then))

    async def _pilot(self, name: str, then: Callable[[PilotPage], None]) -> None:
        def asked(order: Order) -> None:
            last = self._watch.reader.last_run()
            piloting = _PilotRequest(name, 0 if last is None else last.seq, then)
            request = Request(Command.RUN, order=replace(order, pilot=PILOT_SCENARIOS))
            self.ask(request, partial(answered, piloting))

        def answered(piloting: _PilotRequest, answer: Response) -> None:
            before = self._piloting
            # a pilot in progress is waited for, however often it is requested
            if answer.accepted and (before is None or before.benchmark != piloting.benchmark):
                self._piloting = piloting
            self._show_answer(answer)

        pilot = None
        if not await asyncio.to_thread(self.backend.is_template, name):
            pilot = await asyncio.to_thread(self.backend.pilot, name)
        if pilot is not None and pilot.is_played:
            then(pilot)
        else:
            await self._order_described([name], asked)

    def await_pilot(self, benchmark: str, after: int, then: Callable[[PilotPage], None]) -> None:
        """Have the page shown on the pilot that runs after the run with the `seq` `after`."""
        self._piloting = _PilotRequest(benchmark, after, then)

    def show_pilot(self) -> None:
        """Show the page on a requested pilot as soon as it is over."""
        piloting = self._piloting
        if piloting is None:
            return
        try:
            over = self._watch.reader.run_over(piloting.after)
        except CrosswindError:
            return  # whoever reads the run tells it
        if over is not None and over.benchmarks == (piloting.benchmark,):
            self._piloting = None
            self._find(self.backend.pilot, piloting.benchmark, piloting.then)

    def label(self, benchmark: str, then: Callable[[PersonSample], None]) -> None:
        """Open the user's sample of a benchmark; `then` gets it."""
        self._find(self.backend.label, benchmark, then)

    def adjudicate(self, benchmark: str, then: Callable[[PersonDisputes], None]) -> None:
        """Find what labellers disagree on; `then` gets it."""
        self._find(self.backend.disputes, benchmark, then)

    def _find(self, find: Callable[[str], T], name: str, then: Callable[[T], None]) -> None:
        self._begin(self._find_then(find, name, then))

    async def _find_then(
        self, find: Callable[[str], T], name: str, then: Callable[[T], None]
    ) -> None:
        then(await asyncio.to_thread(find, name))

    def make_benchmark(self, name: str, then: Callable[[], None]) -> None:
        """Create a benchmark in the workspace, with a file to describe it in; `then` is called
        after that."""
        self._begin(self._make_benchmark(name, then))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._app.run_worker(self._tell_fault(work), group="ask")

    async def _tell_fault(self, work: Coroutine[None, None, None]) -> None:
        try:
            await work
        except CrosswindError as error:
            self._tell(str(error), bad=True)

    def _order_for(self, request: Request) -> Order | None:
        units = self._watch.reader.failed_units() if request.command is Command.RETRY else ()
        corrections = self._watch.corrections.values()
        over = {(row.benchmark, row.stage, row.unit) for rows in corrections for row in rows}
        return order_for(
            request,
            {
                WorkRow(unit.benchmark, unit.unit): unit.target
                for unit in units
                if (unit.benchmark, unit.stage, unit.unit) not in over
            },
        )

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
        """Ask the user to agree to the price of what is queued behind a run."""
        try:
            agreed = await self._agreed(order)
        except CrosswindError as error:
            show(Response(accepted=False, text=str(error)))
            return
        if agreed is not None:
            named = None if request.order is None else agreed
            await self._ask(link, replace(request, order=named, quote=agreed.quote), show)

    def _show_answer(self, answer: Response) -> None:
        """Show the engine's answer, if it has one."""
        if answer.text or not answer.accepted:
            self._tell(answer.text or "The engine refused.", bad=not answer.accepted)

    async def _start(self, order: Order, request: Request | None, show: Then) -> None:
        """Start an engine with the order, or idle and then send it the request."""
        try:
            # the price was already shown to a user who asks for judging or playing again
            shown = request is not None and request.command in PRICED
            agreed = order if shown else await self._agreed(order)
            if agreed is None:
                return
            if request is not None and not shown:
                request = replace(request, quote=agreed.quote)
            self._tell("An engine is being started.")
            first = agreed if request is None else None
            self._started = await asyncio.to_thread(self.backend.start, first)
        except CrosswindError as error:
            show(Response(accepted=False, text=str(error)))
            return
        if request is not None and self._watch.link is not None:
            await self._ask(self._watch.link, request, show)
        self._look()

    async def _agreed(self, order: Order) -> Order | None:
        """The order with the agreed price; None if the user did not agree. Raises
        `CrosswindError`."""
        priced = await asyncio.to_thread(self.backend.cost, order)
        if priced is None:
            return order
        when = "after what is at work" if self.at_work else "at once"
        go = ChoiceOption("y", "go on", f"begins {when}")
        leave = ChoiceOption("n", "leave it", "nothing is called, nothing is spent")
        asked = [_order_question(order), *(line.strip() for line in priced.total)]
        asked += [f"note: {note}" for note in priced.notes]
        chosen = await self._app.push_screen_wait(ChoiceScreen(asked, (go, leave)))
        return priced.order if chosen == go else None

    def edit_benchmark(self, info: BenchmarkInfo) -> None:
        """Open the benchmark's file in the editor, then read it again."""
        if info.definition is not None:
            self._begin(self._edit_benchmark(info.name, info.definition))

    async def _edit_benchmark(self, name: str, path: Path) -> None:
        await show_file(self._app, path, editor(os.environ))
        described = await asyncio.to_thread(self.backend.describe, name)
        self._watch.benchmarks = [
            replace(benchmark, title=described.title, description=described.description)
            if benchmark.name == name
            else benchmark
            for benchmark in self._watch.benchmarks
        ]
        self._look()

    async def _make_benchmark(self, name: str, then: Callable[[], None]) -> None:
        await asyncio.to_thread(self.backend.make, name)
        self._tell(f"{name} is made: e describes what it measures, then b runs it")
        then()
        await self._add_benchmarks()

    def look_for_benchmarks(self) -> None:
        """Add the benchmarks that have been made since, by whatever program."""
        self._begin(self._add_benchmarks())

    async def _add_benchmarks(self) -> None:
        known = {info.name for info in self._watch.benchmarks}
        try:
            made = await asyncio.to_thread(self.backend.made_since, known)
        except CrosswindError as error:
            if str(error) != self._unread:  # it is looked for again and again
                self._tell(str(error), bad=True)
            self._unread = str(error)
            return
        known = {info.name for info in self._watch.benchmarks}
        if new := [info for info in made if info.name not in known]:
            self._watch.benchmarks = [*self._watch.benchmarks, *new]
            self._look()


def _order_question(order: Order) -> str:
    """The question whether to carry out an order."""
    names = order.benchmarks
    what = names[0] if len(names) == 1 else f"{len(names)} benchmarks"
    if order.rewrite:
        return f"Have {', '.join(entry.id for entry in order.rewrite.values())} written again?"
    if order.only:
        rows = sum(map(len, order.only.values()))
        return f"Try again what failed of {what} ({rows:,})?"
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
