"""Open the app on a workspace, with an engine if there is something to run, and print how things
stand after it closes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from typing import TYPE_CHECKING, Final

from engine.benchmark import Stage
from engine.cli.commands.typed import CliCommand
from engine.cli.console import command_line, tell
from engine.cli.engine_handle import EngineHandle, handle_of, names_at_work
from engine.cli.lines import failure_lines, price_stop, stopped_line, what_next
from engine.cli.main import offer_repair
from engine.config.workspace import Workspace
from engine.display import one_line
from engine.errors import DONE, FAILED, STOPPED, StoreError, WorkspaceBusyError
from engine.facts import NoteKind, RunEnd
from engine.link import EngineLink
from engine.memory import use_one_heap
from engine.pipeline.remedies import FailureGroup, standing_failures
from engine.store.integrity import unread_results, unread_words
from engine.store.open_reader import empty_reader, is_older, open_reader
from engine.store.reader import Reader
from engine.watch import BenchmarkInfo, Watch, named_only, targets_of
from tui.app import CrosswindApp
from tui.format import money
from tui.navigation import PLACES, OpenedScreen
from tui.services.engine_control import Backend
from tui.services.label_queue import wait_for_files
from tui.services.preferences import choices_file, keys_file, read_views, views_file
from tui.services.terminal import forget_exported_size

# Late imports are of modules that take 2.6 times as long to load as all of the above (0.9 s of
# processor time against 0.35 s, for the pipeline and the configuration). Users who only look never
# wait for them; the configuration is read once the first frame is shown.

if TYPE_CHECKING:
    from engine.cli.session import Session
    from tui.orders import Orders


MOST: Final = 6
"""The most benchmarks listed when the app closes."""


def exit_summary(watch: Watch) -> Iterator[str]:
    """Yield a line for each benchmark with any work, and for each kind of failure."""
    begun = [info for info in watch.benchmarks if _total(watch, info)]
    for info in begun[:MOST]:
        yield _line(watch, info)
    if len(begun) > MOST:
        yield f"and {len(begun) - MOST} more: `crosswind status` tells of all"
    yield from failure_lines(failures(watch))


def failures(watch: Watch) -> Sequence[FailureGroup]:
    """The remaining failures of all watched benchmarks. Raises `StoreError`."""
    infos = watch.benchmarks
    names = [info.name for info in infos]
    return standing_failures(watch.reader, names, targets_of(infos), watch.corrections)


def _total(watch: Watch, info: BenchmarkInfo) -> int:
    return sum(watch.progress.stage_tally(info.name, stage).total for stage in Stage)


def _line(watch: Watch, info: BenchmarkInfo) -> str:
    """`steadiness: 40 of 64 conversations, 38 judged, 2 failed, $1.20 spent`."""
    progress = watch.progress
    played = progress.stage_tally(info.name, Stage.SIMULATE)
    judged = progress.stage_tally(info.name, Stage.EVALUATE)
    parts = [f"{played.done} of {played.total} conversations", f"{judged.done} judged"]
    failed = sum(watch.tally(info, stage).failed for stage in Stage)
    if failed:
        parts.append(f"{failed} failed")
    costs = [target.usage.cost_usd for target in progress.targets_of(info.name).values()]
    spent = sum(cost for cost in costs if cost is not None)
    if spent:
        parts.append(f"{money(spent, scripted=False)} spent")
    return f"{one_line(info.name)}: {', '.join(parts)}"


THRESHOLDS: Final = (20_000, 20, 20)
"""Thresholds of the garbage collector. Opening a screen creates tens of thousands of objects. At
Python's defaults, most screens triggered a full collection of 40 ms."""


def collect_seldom() -> None:
    """Make garbage collection rarer, and memory smaller. Call once, before the first screen."""
    use_one_heap()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)


def open_app(arguments: CliCommand, first: OpenedScreen | None = None) -> int:
    """Open the app on the store, and on a running engine if there is one; with `first`, on that
    screen. Returns 0 however the run stands: looking cannot fail."""
    workspace = handle_of(arguments).workspace
    handle = EngineHandle(workspace, workspace.written_store_path(workspace.config_path))
    unread = unread_results(workspace.benchmarks_dir, handle.store_path)
    if unread and handle.holder() is None:
        offer_repair(unread_words(unread, handle.store_path), arguments)
    if is_older(handle.store_path):
        with suppress(StoreError, WorkspaceBusyError):  # then a migrated copy is shown, or why not
            handle.make_store()
    at_work, stored = handle.holder() is not None, handle.store_path.exists()

    @cache
    def session() -> Session:
        from engine.cli.session import open_session

        return open_session(arguments.workspace)

    reader = open_reader(handle.store_path) if stored else empty_reader(handle.store_path)
    with closing(_watch_of_names(handle, reader, at_work=at_work)) as watch:

        def describe() -> tuple[Sequence[BenchmarkInfo], EngineLink]:
            infos = session().watched()
            if not stored:  # until now it looked like an empty one
                if not handle.store_path.exists():
                    session().handle.make_store()
                watch.reader.move_to(open_reader(handle.store_path))
            return infos, watch.link or handle.link()

        place = _last_screen(handle, at_work=at_work)
        run_app(arguments, workspace, session, watch, place=place, first=first, describe=describe)
        watch.poll()
        if first is None and watch.progress.run_state is not None:
            tell_outcome(handle, watch)
    return 0


def _watch_of_names(handle: EngineHandle, reader: Reader, *, at_work: bool) -> Watch:
    """A watch that knows only the names of the benchmarks."""
    names = names_at_work(handle.workspace, reader.last_run() if at_work else None)
    return Watch(reader, named_only(names), handle.link() if at_work else None, described=False)


def watch_of(session: Session) -> Watch:
    infos = session.watched()
    return Watch.open(session.store_path, infos, session.link())


def run_app(
    arguments: CliCommand,
    workspace: Workspace,
    session: Callable[[], Session],
    watch: Watch,
    *,
    place: str,
    first: OpenedScreen | None = None,
    started: int | None = None,
    pilot: tuple[str, int] | None = None,
    describe: Callable[[], tuple[Sequence[BenchmarkInfo], EngineLink]] | None = None,
) -> None:
    """Run the app until it is left, displayed as the arguments say. `session` may be slow on its
    first call, and raise `InputError`. `started` is the process id of the engine started for this
    app. `pilot` is the benchmark whose pilot it plays, with the `seq` of the run before: its page
    is shown."""
    app = CrosswindApp(
        watch,
        place=place,
        backend=_backend(session, watch, lambda: app.preferences.choices.person),
        started=started,
        first=first,
        describe=describe,
        memory=choices_file(os.environ),
        read_keys=_key_reader(),
        slow=arguments.slow,
        attach=command_line("watch", workspace.root),
    )
    if pilot is not None:
        app.engine.await_pilot(*pilot, app.navigator.open_pilot)
    collect_seldom()
    forget_exported_size()
    app.run(mouse=not arguments.no_mouse and app.preferences.choices.mouse is not False)
    wait_for_files()
    if app.fault is not None:
        raise app.fault
    if app.return_code:
        raise SystemExit(app.return_code)


def _key_reader() -> Callable[[], Mapping[str, str]] | None:
    """A reader of the user's keys; None without any, as checking imports all screens."""
    path = keys_file(os.environ)
    if path is None:
        return None

    def read() -> Mapping[str, str]:
        from tui.own_keys import keymap, own_keys

        return keymap(own_keys(path))

    return read


def _backend(session: Callable[[], Session], watch: Watch, by: Callable[[], str | None]) -> Backend:
    """The app's background work; its code is imported at the first call."""

    @cache
    def orders() -> Orders:
        from tui.orders import Orders

        return Orders(session(), watch.reader.path, by)

    # lambdas, not bound methods: those would need the class, which takes 0.9 s to import
    return Backend(
        start=lambda order: orders().start(order),
        cost=lambda order: orders().cost(order),
        make=lambda name: orders().make(name),
        made_since=lambda known: orders().made_since(known),
        report=lambda benchmark: orders().report(benchmark),
        describe=lambda name: orders().describe(name),
        is_template=lambda name: orders().is_template(name),
        stale=lambda benchmark: orders().stale(benchmark),
        decided=lambda benchmark: orders().decided(benchmark),
        calls=lambda benchmark, key, take: orders().calls(benchmark, key, take),
        label=lambda benchmark: orders().label(benchmark),
        disputes=lambda benchmark: orders().disputes(benchmark),
        review=lambda: orders().review(),
        ahead=lambda benchmark: orders().ahead(benchmark),
        pilot=lambda benchmark: orders().pilot(benchmark),
        hiding=lambda: session().hide,
    )


def _last_screen(handle: EngineHandle, *, at_work: bool) -> str:
    """The place shown last, which is kept apart for when a run is on and when none is."""
    file = views_file(choices_file(os.environ), handle.store_path.parent)
    views, _ = read_views(file)
    place = views.place_at_work if at_work else views.place
    if place is not None and place in PLACES:
        return place
    return "Live" if at_work else "Benchmarks"


def tell_outcome(handle: EngineHandle, watch: Watch, then: Callable[[], None] | None = None) -> int:
    """Print what stays on the terminal after the app closes. Returns the exit code; a run that
    continues is not a failure."""
    for line in exit_summary(watch):
        tell(line)
    on = partial(command_line, workspace=handle.workspace.root)
    if handle.holder() is not None:
        over = watch.progress.run_state is NoteKind.RUN_ENDED
        if not over:
            return DONE  # the app has said how to see it again
    if watch.progress.run_end is not RunEnd.DONE:
        reason = price_stop(watch.progress)
        if reason is not None:
            tell(reason)
        tell(stopped_line(watch.progress, on("run")))
        return STOPPED
    failed = failures(watch)
    if failed:
        tell(what_next(failed, on("run")))
    if then is not None and not failed:
        then()
    else:
        tell(f"results: `{on('results')}`")
    return FAILED if failed else DONE
