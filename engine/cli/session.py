"""Turns command-line arguments into a workspace with its configuration, and an order."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from engine.cli.console import tell
from engine.cli.engine_handle import EngineHandle, names_at_work
from engine.config.benchmark_file import load_definition
from engine.config.faults import SECRET_KEYS
from engine.config.schema import Config, load_config, secret_values
from engine.config.secrets import Environment
from engine.config.values import OFFLINE_JUDGES
from engine.config.workspace import STORE_FILE, Workspace, find_workspace
from engine.errors import InputError, Problem, WorkspaceBusyError
from engine.jury import Counts
from engine.link import Command, EngineState, Request
from engine.pipeline.order import Order
from engine.report.writing import Hide, hiding
from engine.scripted import EVALUATOR, GENERATOR, TARGET, USER, Pace, Parts
from engine.service.spawning import EngineSettings
from engine.store.integrity import lost_store
from engine.store.lock import Holder
from engine.store.open_reader import is_older, open_reader, reader_or_empty
from engine.store.reader import Reader
from engine.store.tables import StoredConfig
from engine.trust import Permission
from engine.watch import BenchmarkInfo, EvaluatorInfo, TargetInfo

if TYPE_CHECKING:
    from engine.service.client import SocketLink

WAY_SECONDS: Final = 3.0
"""How long to wait for an idle engine to end."""


@dataclass(frozen=True, slots=True)
class Session:
    """A workspace with its checked configuration."""

    workspace: Workspace
    config: Config
    pace: Pace | None = None
    """The pace of scripted models, where it is not the configuration's."""
    anew: bool = False
    """Whether a run may start over although files hold what a missing store held."""
    workers: int = 0
    """As `EngineSettings.workers`."""

    @property
    def engine_settings(self) -> EngineSettings:
        """The settings of an engine for this workspace."""
        return EngineSettings(self.workspace.root, self.config.path, self.pace, self.workers)

    @property
    def handle(self) -> EngineHandle:
        return EngineHandle(self.workspace, self.store_path)

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """What must be allowed before its models are called."""
        return self.config.permissions

    @property
    def hide(self) -> Hide:
        """Hides, in what leaves the workspace, the keys of its models."""
        environment = Environment(self.workspace.root)
        return hiding(secret_values(self.config.every_model, environment))

    def holder(self) -> Holder | None:
        """Who runs the engine at work on it, if any."""
        return self.handle.holder()

    def link(self) -> SocketLink:
        """A link to the engine at work on it, or to the next one. The caller closes it."""
        return self.handle.link()

    def make_way(self) -> None:
        """End an engine that is idle, and wait until it has gone."""
        if self.holder() is None:
            return
        with closing(self.link()) as link:
            if link.board().state is not EngineState.IDLE:
                return
            link.ask(Request(Command.STOP))
        # an engine that does not end is left to `hold_workspace`, which says who holds it
        until = time.monotonic() + WAY_SECONDS
        while self.holder() is not None and time.monotonic() < until:
            # a file lock can be polled, but not awaited with a time limit
            time.sleep(0.02)

    def with_pace(self, pace: Pace) -> Session:
        return replace(self, config=self.config.at_pace(pace), pace=pace)

    @property
    def store_path(self) -> Path:
        return self.workspace.store_path(self.config)

    def reader(self) -> closing[Reader]:
        """A reader of the store, for a `with` statement. Raises `StoreError`."""
        return closing(open_reader(self.store_path))

    def reader_or_empty(self) -> closing[Reader]:
        """A reader of the store, or of a temporary empty one where there is none."""
        return closing(reader_or_empty(self.store_path))

    def require_free(self) -> None:
        """Raises `WorkspaceBusyError` where an engine is at work; an idle one is ended."""
        self.make_way()
        holder = self.holder()
        if holder is not None:
            raise WorkspaceBusyError(
                f"{self.workspace.root} is being worked on by {holder}: `crosswind watch` shows "
                "it, `crosswind stop` ends it"
            )

    def require_store(self) -> None:
        """Migrate a store of an older version in place. Raises `InputError` where it is gone and
        files hold what it held."""
        self.refuse_unread()
        if is_older(self.store_path):
            self.handle.make_store()

    def unread(self) -> str | None:
        """A warning where the store is gone and files hold what it held; else None."""
        lost = None if self.anew else lost_store(self.workspace.benchmarks_dir, self.store_path)
        return None if lost is None else lost.what

    def refuse_unread(self) -> None:
        """Raises `InputError` where the store is gone and files hold what it held, so that nothing
        is paid for twice."""
        lost = lost_store(self.workspace.benchmarks_dir, self.store_path)
        if lost is not None and not self.anew:
            raise InputError(lost)

    def benchmarks(self, names: Sequence[str]) -> list[str]:
        """The named benchmarks, or all. Raises `InputError` for one that does not exist."""
        return self.workspace.require_benchmarks(names)

    def counts(self, benchmark: str, reader: Reader) -> Counts:
        """What counts by the files as they are. Raises `InputError`."""
        return _counts(self.workspace, self.config, benchmark, reader)

    def one_benchmark(self, name: str | None) -> str:
        """The named benchmark, or the only one. Raises `InputError` where there are several."""
        names = self.benchmarks([name] if name else [])
        if len(names) != 1:
            raise InputError(Problem("name one benchmark", hint=f"there is: {', '.join(names)}"))
        return names[0]

    @property
    def target_ids(self) -> set[str]:
        return {target.id for target in self.config.targets}

    def benchmark_infos(self, names: Sequence[str]) -> list[BenchmarkInfo]:
        return describe_benchmarks(self.workspace, self.config, names)

    def watched(self) -> list[BenchmarkInfo]:
        """The benchmarks that a watcher sees: all, and any validation run at work."""
        names: Sequence[str] = self.workspace.benchmark_names()
        if not self.store_path.exists():
            return self.benchmark_infos(names)
        with self.reader() as reader:
            run = None if self.holder() is None else reader.last_run()
            if run is not None:
                names = names_at_work(self.workspace, run)
            infos = describe_benchmarks(self.workspace, self.config, names, reader.parts_played())
        at_work = () if run is None else run.benchmarks
        return [info.at_work if info.name in at_work else info for info in infos]


def open_session(place: Path | None) -> Session:
    """The workspace that is or holds `place`, or the current folder. Raises `InputError`."""
    workspace = find_workspace(place or Path.cwd())
    environment = Environment(workspace.root)
    return Session(workspace, load_config(workspace.config_path, environment=environment))


def open_to_read(place: Path | None) -> Session:
    """As `open_session`, for commands that only read: where `config.yaml` cannot be used, it falls
    back to the configuration of the last run or import, with a note. Raises `InputError` where
    there is none."""
    try:
        return open_session(place)
    except InputError as error:
        wrong = error
    workspace = find_workspace(place or Path.cwd())
    path = _readable_store(workspace, workspace.config_path)
    last = _last_config(path)
    if last is None:
        raise wrong
    config, stored = last
    for problem in wrong.problems:
        tell(f"note: {problem}")
    judges = ", ".join(config.jury.judges)
    tell(
        "note: until that is mended, this is told by the configuration of the "
        f"{'run' if stored.is_run else 'import'} of {stored.when.astimezone():%Y-%m-%d %H:%M}; "
        f"the judges that count are {judges}"
    )
    return Session(workspace, config.model_copy(update={"store": str(path)}))


def _readable_store(workspace: Workspace, config_path: Path) -> Path:
    try:
        return workspace.written_store_path(config_path)
    except InputError:
        return workspace.root / STORE_FILE


def _last_config(store: Path) -> tuple[Config, StoredConfig] | None:
    """The configuration of the last run or import, which contains no key; None where there is none,
    or it is not valid in this version."""
    if not store.exists():
        return None
    with closing(open_reader(store)) as reader:
        stored = reader.last_config()
    if stored is None:
        return None
    try:
        # validated by today's rules: another version may have stored other keys
        return Config.model_validate(_without_gaps(json.loads(stored.text))), stored
    except (ValueError, ValidationError):
        return None


def _without_gaps(document: Any) -> Any:
    """A stored configuration without its redacted and empty values."""
    if isinstance(document, dict):
        return {
            name: _without_gaps(value)
            for name, value in document.items()
            if name not in SECRET_KEYS and value not in (None, [], {})
        }
    return [_without_gaps(value) for value in document] if isinstance(document, list) else document


def describe_benchmarks(
    workspace: Workspace,
    config: Config,
    names: Sequence[str],
    played: Mapping[str, Parts] | None = None,
) -> list[BenchmarkInfo]:
    """What a watcher needs to know of each benchmark. `played` has, by benchmark, the parts that
    scripts played in what is stored."""
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
            counts=partial(_counts, workspace, config, definition.name),
        ).with_parts(played.get(definition.name) or parts)
        for definition in definitions
    ]


def _counts(workspace: Workspace, config: Config, benchmark: str, reader: Reader) -> Counts:
    # no frame of the app waits for what plans and reviews
    from engine.pipeline.counting import counts_in

    return counts_in(workspace, config, benchmark, reader)


def offered_judges(config: Config) -> list[EvaluatorInfo]:
    """The models in `models:` that the app offers as judges: none that is under test and no script
    of another role, which only the command line may name; none that is the only judge already. The
    user model and the generator come last: they would judge what they took part in."""
    left_out = {target.label for target in config.targets}
    if len(config.judges) == 1:
        left_out |= {judge.label for judge in config.judges}
    parts = {config.generator.label: "it wrote the scenarios"}
    parts[config.user_model.label] = "it played the person"
    judges = [
        EvaluatorInfo(name, spec.label, spec.is_offline, parts.get(spec.label, ""))
        for name, spec in config.models.items()
        if spec.label not in left_out and (not spec.is_offline or spec.model in OFFLINE_JUDGES)
    ]
    return sorted(judges, key=lambda evaluator: bool(evaluator.part))


def whole_order(session: Session) -> Order:
    return Order(benchmarks=tuple(session.benchmarks(())))
