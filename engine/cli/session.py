"""From the command line's words to a run that can start."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from engine.benchmark import Stage
from engine.cli.command_line import nearest_word
from engine.cli.console import tell
from engine.cli.engine_handle import EngineHandle, config_path_of, names_at_work
from engine.cluster.local_processes import LocalProcesses
from engine.config.benchmark_file import load_definition
from engine.config.faults import SECRET_KEYS
from engine.config.schema import Config, load_config
from engine.config.workspace import STORE_FILE, Workspace, find_workspace
from engine.errors import InputError, Problem, WorkspaceBusyError
from engine.link import Command, EngineState, Request
from engine.pipeline.order import Order
from engine.scripted import EVALUATOR, GENERATOR, TARGET, USER, Pace, Parts
from engine.service.spawning import AgentSettings, EngineSettings
from engine.store.integrity import unread_results, unread_words
from engine.store.lock import Holder, hold_workspace
from engine.store.reader import Reader
from engine.store.reading import open_reader, reader_or_empty
from engine.store.schema import OlderStoreError
from engine.store.tables import RunRow
from engine.watch import BenchmarkInfo, EvaluatorInfo, TargetInfo

if TYPE_CHECKING:
    from engine.service.client import SocketLink

WAY_SECONDS: Final = 3.0
"""For so long an engine that has nothing to do may take to end."""


@dataclass(frozen=True, slots=True)
class Session:
    """A workspace with its configuration, read and checked."""

    workspace: Workspace
    config: Config
    pace: Pace | None = None
    """At which scripted models speak, where it is not the configuration's."""
    anew: bool = False
    """Whether a run may begin anew though files hold what a missing store held."""
    agents: AgentSettings | None = None
    """Who makes the calls, where the engine does not make them itself."""
    processes: LocalProcesses | None = None
    """Of those, what was begun already."""

    @property
    def place(self) -> EngineSettings:
        """Where an engine for it works."""
        return EngineSettings(self.workspace.root, self.config.path, self.pace, self.agents)

    @property
    def handle(self) -> EngineHandle:
        return EngineHandle(self.workspace, self.store_path)

    def holder(self) -> Holder | None:
        """Whose engine is at work on it, if anybody's."""
        return self.handle.holder()

    def link(self) -> SocketLink:
        """To the engine at work on it, or to the next one. To be closed."""
        return self.handle.link()

    def make_way(self) -> None:
        """Have an engine that is done and only waits for more end at once."""
        if self.holder() is None:
            return
        with closing(self.link()) as link:
            if link.board().state is not EngineState.IDLE:
                return
            link.ask(Request(Command.STOP))
        # an engine that does not end is left to `hold_workspace`, which says who holds it
        until = time.monotonic() + WAY_SECONDS
        while self.holder() is not None and time.monotonic() < until:
            # its lock is what is waited for, and a lock of a file can be asked for but not awaited
            # with a limit
            time.sleep(0.02)

    def paced(self, pace: Pace) -> Session:
        return replace(self, config=self.config.at_pace(pace), pace=pace)

    @property
    def store_path(self) -> Path:
        return self.workspace.store_path(self.config)

    def reader(self) -> closing[Reader]:
        """A reader of the store that is there; for a `with`. Raises `StoreError`."""
        return closing(open_reader(self.store_path))

    def reader_or_empty(self) -> closing[Reader]:
        """A reader of the store, or of an empty one that nobody sees where there is none."""
        return closing(reader_or_empty(self.store_path))

    def require_free(self) -> None:
        """Raises `WorkspaceBusyError` where an engine is at work; one that only waits for more is
        ended."""
        self.make_way()
        holder = self.holder()
        if holder is not None:
            raise WorkspaceBusyError(
                f"{self.workspace.root} is being worked on by {holder}: `crosswind watch` shows "
                "it, `crosswind stop` ends it"
            )

    def require_store(self) -> None:
        """A store that can be planned with, or none. Raises `InputError` where it is gone and files
        hold what it held."""
        self.refuse_unread()
        self._bring_up_to_date()

    def is_scripted(self, order: Order) -> bool:
        """Whether no model over the network can have a part in it."""
        roles = self.config.helpers
        named = [] if order.evaluator is None else [self.config.model_named(order.evaluator)]
        swapped = self.config.models.values()  # as validation runs do
        return all(spec.is_offline for spec in (*roles, *named, *swapped, *self.config.targets))

    def unread(self) -> str | None:
        """What is said where the store is gone and files hold what it held; None where it is there,
        or nothing was run yet."""
        names = unread_results(self.workspace.benchmarks_dir, self.store_path)
        return unread_words(names, self.store_path) if names and not self.anew else None

    def refuse_unread(self) -> None:
        """Raises `InputError`: what is there already is neither asked nor paid for again."""
        words = self.unread()
        if words is not None:
            hint = "`crosswind repair`, or `crosswind run --anew` to ask everything again"
            raise InputError(Problem(words, hint=hint))

    def _bring_up_to_date(self) -> None:
        """A store that an older version wrote: nothing can be planned with it as it is."""
        if not self.store_path.exists():
            return
        try:
            open_reader(self.store_path).close()
        except OlderStoreError:
            self.make_store()

    def make_store(self) -> None:
        """Bring the store up to date, or make one where there is none. Raises `StoreError`, and
        `WorkspaceBusyError`."""
        # 25 ms: what an older version wrote is brought up to date once, and most commands write
        # none
        from engine.store.database import open_store

        # an engine that begins meanwhile would bring it up to date, too, and both would write
        with hold_workspace(self.workspace.root):
            open_store(self.store_path).close()

    def benchmarks(self, names: Sequence[str]) -> list[str]:
        """The named ones, or all. Raises `InputError` for one that is not there."""
        return self.workspace.require_benchmarks(names)

    def infos(self, names: Sequence[str]) -> list[BenchmarkInfo]:
        return describe_benchmarks(self.workspace, self.config, names)

    def watched(self) -> list[BenchmarkInfo]:
        """What a watcher sees: every benchmark, and the validation run that is at work."""
        names: Sequence[str] = self.workspace.benchmark_names()
        if not self.store_path.exists():
            return self.infos(names)
        with self.reader() as reader:
            run = None if self.holder() is None else reader.last_run()
            if run is not None:
                names = names_at_work(self.workspace, run)
            infos = describe_benchmarks(self.workspace, self.config, names, reader.parts_played())
        at_work = () if run is None else run.benchmarks
        return [info.at_work if info.name in at_work else info for info in infos]


def open_session(arguments: argparse.Namespace) -> Session:
    """The workspace that a command is about, its configuration read. Raises `InputError`."""
    workspace = find_workspace(getattr(arguments, "workspace", None) or Path.cwd())
    return Session(workspace, load_config(config_path_of(arguments, workspace)))


def open_to_read(arguments: argparse.Namespace) -> Session:
    """For commands that only tell what the store knows: where `config.yaml` cannot be used, they go
    on with the configuration of the last run, and say so. Raises `InputError` where there is none.
    """
    try:
        return open_session(arguments)
    except InputError as error:
        wrong = error
    workspace = find_workspace(getattr(arguments, "workspace", None) or Path.cwd())
    path = _readable_store(workspace, config_path_of(arguments, workspace))
    found = _of_last_run(path)
    if found is None:
        raise wrong
    config, run = found
    for problem in wrong.problems:
        tell(f"note: {problem}")
    judges = ", ".join(config.jury.judges)
    tell(
        f"note: until that is mended, this is told by the configuration of the run of "
        f"{run.when.astimezone():%Y-%m-%d %H:%M}; the judges that count are {judges}"
    )
    return Session(workspace, config.model_copy(update={"store": str(path)}))


def _readable_store(workspace: Workspace, config_path: Path) -> Path:
    try:
        return workspace.written_store_path(config_path)
    except InputError:
        return workspace.root / STORE_FILE


def _of_last_run(store: Path) -> tuple[Config, RunRow] | None:
    """The configuration that the last run kept, which holds no key; None where there is none, or
    another version wrote it."""
    if not store.exists():
        return None
    with closing(open_reader(store)) as reader:
        run = reader.last_run()
    if run is None:
        return None
    try:
        # read again by today's rules: a version that knew other keys kept others
        return Config.model_validate(_without_gaps(json.loads(run.config))), run
    except (ValueError, ValidationError):
        return None


def _without_gaps(said: Any) -> Any:
    """What was kept, without what was left out of it, and what was not given."""
    if isinstance(said, dict):
        return {
            name: _without_gaps(value)
            for name, value in said.items()
            if name not in SECRET_KEYS and value not in (None, [], {})
        }
    return [_without_gaps(one) for one in said] if isinstance(said, list) else said


def describe_benchmarks(
    workspace: Workspace,
    config: Config,
    names: Sequence[str],
    played: Mapping[str, Parts] | None = None,
) -> list[BenchmarkInfo]:
    """`played` says which parts scripts had in what is stored, by benchmark."""
    targets = [TargetInfo(target.id, target.label, target.is_offline) for target in config.targets]
    parts = {
        GENERATOR: config.generator.is_offline,
        USER: config.user_model.is_offline,
        **{f"{TARGET} {target.id}": target.is_offline for target in config.targets},
        **{f"{EVALUATOR} {judge.label}": judge.is_offline for judge in config.judges},
    }
    evaluators = offered_judges(config)
    played = played or {}
    definitions = [load_definition(workspace.definition_path(name)) for name in names]
    return [
        BenchmarkInfo(
            name=definition.name,
            title=definition.title,
            turns=config.generation.turns,
            targets=targets,
            scripted=False,
            jury=config.jury,
            evaluators=evaluators,
            configured=parts,
            played=played.get(definition.name, {}),
            definition=definition.path,
            description=definition.description,
            metrics={metric.id: metric for metric in definition.metrics},
        ).with_parts(played.get(definition.name) or parts)
        for definition in definitions
    ]


def offered_judges(config: Config) -> list[EvaluatorInfo]:
    """Models that have a name, but for those under test: whoever is judged is not asked to judge
    unless by name, on the command line."""
    tested = {target.label for target in config.targets}
    return [
        EvaluatorInfo(name, spec.label, spec.is_offline)
        for name, spec in config.models.items()
        if spec.label not in tested
    ]


def order_of(session: Session, arguments: argparse.Namespace) -> Order:
    """What `run` was asked to do. Raises `InputError` with every word that names nothing."""
    problems: list[Problem] = []
    stages = _known(arguments.stage, [stage.value for stage in Stage], "stage", problems)
    ids = [target.id for target in session.config.targets]
    targets = _known(arguments.target, ids, "target", problems)
    try:
        benchmarks = session.benchmarks(arguments.benchmarks)
    except InputError as error:
        problems += error.problems
        benchmarks = []
    until = [arguments.until] if arguments.until else []
    last = _known(until, [stage.value for stage in Stage], "stage", problems)
    if problems:
        raise InputError(problems)
    asked = up_to(last[0] if last else None, [Stage(stage) for stage in stages])
    policy = session.config.run
    return Order(
        benchmarks=tuple(benchmarks),
        stages=asked,
        targets=frozenset(targets) or None,
        force=arguments.force or policy.force,
        stale=arguments.stale,
    )


def up_to(last: str | None, stages: Sequence[Stage]) -> frozenset[Stage]:
    """Of these stages, or of all, those that do not come after `last`. Raises `InputError` where
    one that is named does."""
    every = list(Stage)
    asked = frozenset(stages or every)
    if last is None:
        return asked
    place = every.index(Stage(last))
    later = [stage for stage in stages if every.index(stage) > place]
    if later:
        what = f"--stage {later[0]} comes after --until {last}: nothing of it would be done"
        raise InputError(Problem(what, hint="leave one of the two out"))
    return asked & frozenset(every[: place + 1])


def whole_order(session: Session) -> Order:
    return Order(benchmarks=tuple(session.benchmarks(())))


def _known(
    given: Sequence[str], known: Sequence[str], kind: str, problems: list[Problem]
) -> list[str]:
    for word in given:
        if word not in known:
            near = nearest_word(word, known)
            hint = f"did you mean {near!r}? " if near else ""
            listed = ", ".join(known)
            problems.append(
                Problem(f"there is no {kind} {word!r}", hint=f"{hint}there is: {listed}")
            )
    return [word for word in given if word in known]
