"""The examination: all findings, in a fixed order."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.config.benchmark_file import load_definition
from engine.config.schema import Config, named_scheduler
from engine.config.secrets import Environment
from engine.config.workspace import STORE_FILE, Workspace
from engine.doctor.calls import call
from engine.doctor.configuration import PartialConfiguration, key_findings, read_workspace
from engine.doctor.findings import Area, Diagnostic, Severity, of_error, redacted_findings
from engine.doctor.models import (
    ModelInUse,
    look_at_own_processes,
    model_findings,
    models_in_use,
    not_called,
    secrets_of,
)
from engine.doctor.reachability import check_reachability, names_by_destination
from engine.doctor.store import budget_findings, store_findings
from engine.doctor.system import Terminal, system_findings, terminal_findings, this_terminal
from engine.errors import InputError, StoreError
from engine.pipeline.order import Order
from engine.pipeline.planner import Planner
from engine.store.connection import Connection, raw_connection
from engine.store.open_reader import empty_reader
from engine.store.reader import Reader
from engine.trust import NOT_ALLOWED, Permission, in_words


@dataclass(frozen=True, slots=True)
class DoctorOptions:
    """What to examine, and the time limits."""

    start: Path
    """The workspace, or a folder in it."""
    named: bool = False
    """Whether the folder was named, so that it must be a workspace."""
    call: bool = False
    """Whether to call the models, which costs money."""
    reach_s: float = 5.0
    call_s: float = 60.0
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    terminal: Terminal | None = field(default=None, repr=False)
    """None is this process's own."""


def examine(asked: DoctorOptions) -> list[Diagnostic]:
    """All findings. Changes nothing; with `call`, calls each model that is no script once."""
    written = read_workspace(asked.start, asked.environ, named=asked.named)
    models = _models(asked, written)
    store = _store(written.workspace, written.config)
    said = [finding.sentence for finding in (*written.findings, *models, *store)]
    return [
        *system_findings(),
        *written.findings,
        *_refusals(asked, written, said),
        *models,
        *terminal_findings(asked.terminal or this_terminal(asked.environ)),
        *store,
    ]


def _refusals(
    asked: DoctorOptions, written: PartialConfiguration, said: Sequence[str]
) -> Sequence[Diagnostic]:
    """What a run of everything would refuse, by the code that refuses it, and is not said yet."""
    workspace, config = written.workspace, written.config
    if workspace is None or config is None:
        return []
    with closing(_reader(workspace, config)) as reader:
        planner = Planner(workspace, config, reader, asked.environ)
        order = Order(tuple(_usable(workspace)))
        # a damaged store has a finding of its own
        with suppress(StoreError, sqlite3.Error):
            templates = planner.templates(order)
            findings = [
                replace(finding, state=Severity.NOTE) if problem in templates else finding
                for problem in planner.refusals(order).all
                for finding in of_error(Area.CONFIGURATION, config.path.name, InputError(problem))
                # what is not allowed is said where it would be sent
                if not problem.what.startswith(NOT_ALLOWED)
                and not any(problem.what in sentence for sentence in said)
            ]
            environment = Environment(workspace.root, asked.environ)
            secrets = secrets_of(models_in_use(config, environment), environment)
            return redacted_findings(findings, secrets)
    return []


def _usable(workspace: Workspace) -> Iterator[str]:
    """The benchmarks whose definition can be read; of others there is a finding."""
    with suppress(InputError):
        for name in workspace.benchmark_names():
            with suppress(InputError):
                load_definition(workspace.definition_path(name))
                yield name


def _reader(workspace: Workspace, config: Config) -> Reader:
    path = workspace.root / STORE_FILE
    with suppress(InputError, sqlite3.Error, OSError):
        path = workspace.store_path(config)
        if path.exists():
            # a usual connection would leave two files beside the store
            return Reader(Connection(raw_connection(path), path))
    return empty_reader(path)


def _models(asked: DoctorOptions, written: PartialConfiguration) -> list[Diagnostic]:
    if written.workspace is None or written.config is None:
        return []
    root, config = written.workspace.root, written.config
    environment = Environment(root, asked.environ)
    models = models_in_use(config, environment)
    findings = [
        *_keys(config, key_findings(models, asked.environ, root)),
        *model_findings(models),
        *(
            _reach_diagnostics(asked, models, environment)
            if environment.trust.covers(config.permissions)
            else not_sent(config.permissions)
        ),
    ]
    return redacted_findings(findings, secrets_of(models, environment))


def not_sent(permissions: Sequence[Permission]) -> list[Diagnostic]:
    """A finding for each thing that is left out because nobody has allowed it."""
    remedy = "`crosswind doctor` asks in a terminal; `--trust` allows it"
    return [
        Diagnostic(Area.REACH, "not sent", Severity.NOTE, f"{words}: nobody has allowed it", remedy)
        for words in in_words(permissions)
    ]


def _keys(config: Config, found: Sequence[Diagnostic]) -> Sequence[Diagnostic]:
    """The findings about keys, which a cluster's workers look up where they run."""
    scheduler = named_scheduler(config)
    if scheduler is None:
        return found
    sentence = f"the workers of {scheduler} look keys up where they run; this looked here alone"
    missing = [
        replace(one, state=Severity.NOTE) if one.state is Severity.PROBLEM else one for one in found
    ]
    return [Diagnostic(Area.KEYS, "cluster", Severity.NOTE, sentence), *missing]


def _reach_diagnostics(
    asked: DoctorOptions, models: Sequence[ModelInUse], environment: Environment
) -> list[Diagnostic]:
    """Findings that take the network, or processes for Python functions and local models."""
    if all(model.spec.is_offline for model in models):
        return []
    return asyncio.run(_ask(asked, models, environment))


async def _ask(
    asked: DoctorOptions, models: Sequence[ModelInUse], environment: Environment
) -> list[Diagnostic]:
    diagnostics, own = await look_at_own_processes(models, environment)
    if not asked.call:
        diagnostics += map(not_called, own)
    diagnostics += await check_reachability(names_by_destination(models), longest_s=asked.reach_s)
    if asked.call:
        called = [*own, *(model for model in models if model.endpoint is not None)]
        diagnostics += await call(called, environment, longest_s=asked.call_s)
    return diagnostics


def _store(workspace: Workspace | None, config: Config | None) -> list[Diagnostic]:
    if workspace is None:
        return []
    if config is None:
        sentence = "not looked at: where it is stands in config.yaml, which cannot be read"
        return [Diagnostic(Area.STORE, "store", Severity.NOTE, sentence)]
    try:
        path = workspace.store_path(config)
    except InputError as error:
        return of_error(Area.CONFIGURATION, "store", error)
    return [*budget_findings(config, path), *store_findings(path, workspace.root)]
