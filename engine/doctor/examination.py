"""The examination: all findings, in a fixed order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.config.schema import Config
from engine.config.secrets import Environment
from engine.config.workspace import Workspace
from engine.doctor.configuration import PartialConfiguration, key_findings, read_workspace
from engine.doctor.findings import Area, Diagnostic, Severity, of_error, redacted_findings
from engine.doctor.models import (
    ModelInUse,
    call,
    look_at_functions,
    model_findings,
    models_in_use,
    secrets_of,
)
from engine.doctor.reachability import check_reachability, destinations
from engine.doctor.store import budget_findings, store_findings
from engine.doctor.system import Terminal, system_findings, terminal_findings, this_terminal
from engine.errors import InputError


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
    return [
        *system_findings(),
        *written.findings,
        *_models(asked, written),
        *terminal_findings(asked.terminal or this_terminal(asked.environ)),
        *_store(written.workspace, written.config),
    ]


def _models(asked: DoctorOptions, written: PartialConfiguration) -> list[Diagnostic]:
    if written.workspace is None or written.config is None:
        return []
    root, config = written.workspace.root, written.config
    environment = Environment(root, asked.environ)
    models = models_in_use(config, environment)
    findings = [
        *key_findings(models, asked.environ, root),
        *model_findings(models),
        *_reach_diagnostics(asked, models, environment),
    ]
    return redacted_findings(findings, secrets_of(models, environment))


def _reach_diagnostics(
    asked: DoctorOptions, models: Sequence[ModelInUse], environment: Environment
) -> list[Diagnostic]:
    """Findings that take the network, or processes for Python functions."""
    if all(model.spec.is_offline for model in models):
        return []
    return asyncio.run(_ask(asked, models, environment))


async def _ask(
    asked: DoctorOptions, models: Sequence[ModelInUse], environment: Environment
) -> list[Diagnostic]:
    diagnostics = await look_at_functions(
        models, environment, call=asked.call, longest_s=asked.call_s
    )
    diagnostics += await check_reachability(destinations(models), longest_s=asked.reach_s)
    if asked.call:
        diagnostics += await call(models, longest_s=asked.call_s)
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
