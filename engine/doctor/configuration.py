"""Findings about the files that people write: configuration, benchmarks, scenarios, keys."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from engine.benchmark import base_id
from engine.config.benchmark_file import load_definition
from engine.config.schema import Config, ModelSpec, load_config
from engine.config.secrets import Environment, Secret, texts_with_variables
from engine.config.workspace import Workspace, find_workspace
from engine.display import plural
from engine.doctor.findings import Area, Diagnostic, Severity, of_error
from engine.doctor.models import ModelInUse
from engine.errors import InputError
from engine.pipeline.models import named_spec
from engine.store.scenarios_json import read_scenarios
from engine.trust import NOWHERE

SCENARIOS_FILE = "scenarios.json"


@dataclass(frozen=True, slots=True)
class PartialConfiguration:
    """The workspace and configuration, as far as they could be read."""

    findings: tuple[Diagnostic, ...]
    workspace: Workspace | None = None
    config: Config | None = None


def read_workspace(start: Path, environ: Mapping[str, str], *, named: bool) -> PartialConfiguration:
    """Read the workspace around `start`. With `named` it is a problem if there is none."""
    try:
        workspace = find_workspace(start)
    except InputError as error:
        if named:
            return PartialConfiguration(tuple(of_error(Area.CONFIGURATION, "workspace", error)))
        [problem] = error.problems
        return PartialConfiguration(
            (_finding("workspace", Severity.NOTE, problem.what, problem.hint),)
        )
    findings = [_finding("workspace", Severity.OK, str(workspace.root))]
    config = None
    try:
        environment = Environment(workspace.root, environ)
        config = load_config(workspace.config_path, environment=environment)
    except InputError as error:
        findings += of_error(Area.CONFIGURATION, workspace.config_path.name, error)
    else:
        targets = plural(len(config.targets), "target")
        findings.append(_finding(config.path.name, Severity.OK, f"can be read; {targets}"))
        name = config.path.name
        findings += [_finding(name, Severity.NOTE, warning) for warning in config.warnings]
    findings += _benchmarks(workspace, config)
    return PartialConfiguration(tuple(findings), workspace, config)


def _benchmarks(workspace: Workspace, config: Config | None) -> Iterator[Diagnostic]:
    try:
        names = workspace.benchmark_names()
        unusable = workspace.benchmark_problems()
    except InputError as error:
        yield from of_error(Area.CONFIGURATION, "benchmarks", error)
        return
    if unusable:
        yield from of_error(Area.CONFIGURATION, "benchmarks", InputError(unusable))
    elif not names:
        remedy = "make one with `crosswind new NAME`"
        yield _finding("benchmarks", Severity.NOTE, "there is no benchmark yet", remedy)
    for name in names:
        yield from _benchmark(workspace.definition_path(name), name, config)


def _benchmark(path: Path, name: str, config: Config | None) -> Iterator[Diagnostic]:
    try:
        definition = load_definition(path)
    except InputError as error:
        yield from of_error(Area.CONFIGURATION, name, error)
        return
    warnings = list(definition.warnings)
    ids = {metric.id for metric in definition.metrics}
    counts = [plural(len(ids), "metric") if ids else "no metrics yet"]
    scenarios = path.parent / SCENARIOS_FILE
    # landmarks are checked against the number of turns, which the configuration has
    if scenarios.exists() and config is not None:
        try:
            rows, noticed = read_scenarios(scenarios, turns=config.generation.turns, metrics=ids)
        except InputError as error:
            yield from of_error(Area.CONFIGURATION, name, error)
            return
        counts.append(plural(len({base_id(row.id) for row in rows}), "scenario"))
        counts.append(plural(len(rows), "variant"))
        warnings += noticed
    yield _finding(name, Severity.OK, ", ".join(counts))
    yield from (_finding(name, Severity.NOTE, warning) for warning in warnings)


def _finding(subject: str, state: Severity, sentence: str, remedy: str | None = None) -> Diagnostic:
    return Diagnostic(Area.CONFIGURATION, subject, state, sentence, remedy)


DOTENV: Final = ".env"
APIKEY: Final = "apikey"
EXTRA_BODY: Final = "extra_body"


def key_findings(
    models: Sequence[ModelInUse], environ: Mapping[str, str], root: Path
) -> list[Diagnostic]:
    """Whether each key is set, and where: in the environment, `.env`, or the configuration."""
    environment, dotenv = Environment(root, environ), Environment(root, {})
    try:
        # reads the file, whatever variable it is asked for
        dotenv.holds(DOTENV)
    except InputError as error:
        return of_error(Area.KEYS, DOTENV, error)
    findings = list(_file(root / DOTENV))
    # one finding for each key, however many models use it
    for (kind, secret), specs in _users(models).items():
        users = ", ".join(dict.fromkeys(spec.label for spec in specs))
        where = ", ".join(dict.fromkeys(map(named_spec, specs)))
        problems = _problems(kind, secret, where, environment)
        findings += problems or [_key_diagnostic(kind, secret, users, environ, dotenv)]
    return findings


def _file(path: Path) -> Iterator[Diagnostic]:
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        sentence = f"{path} can be read by other users of this machine"
        yield Diagnostic(Area.KEYS, DOTENV, Severity.NOTE, sentence, f"chmod 600 {path}")
    else:
        yield Diagnostic(Area.KEYS, DOTENV, Severity.OK, f"{path} can be read by you alone")


def _users(models: Sequence[ModelInUse]) -> dict[tuple[str, Secret], list[ModelSpec]]:
    """The models that use each secret, by its purpose."""
    users: dict[tuple[str, Secret], list[ModelSpec]] = {}
    for model in models:
        spec = model.spec
        if spec.is_offline:
            continue
        uses = [] if spec.apikey is None else [(APIKEY, spec.apikey)]
        headers = spec.sent_headers.items()
        uses += [(f"header {name}", value) for name, value in headers if value.variables]
        uses += [(EXTRA_BODY, Secret(text)) for text in texts_with_variables(spec.sent_body)]
        for use in uses:
            users.setdefault(use, []).append(spec)
    return users


def _problems(kind: str, secret: Secret, where: str, environment: Environment) -> list[Diagnostic]:
    try:
        if kind == APIKEY:
            environment.key(secret, where=where, to=NOWHERE)
        elif kind == EXTRA_BODY:
            environment.resolve(secret.template, where=where, to=NOWHERE)
        else:
            environment.header(secret, where=where, to=NOWHERE)
    except InputError as error:
        return of_error(Area.KEYS, _subject(kind, secret), error)
    return []


def _key_diagnostic(
    kind: str, secret: Secret, users: str, environ: Mapping[str, str], dotenv: Environment
) -> Diagnostic:
    say = partial(Diagnostic, Area.KEYS, _subject(kind, secret))
    if not secret.variables:
        sentence = f"{users}: the key stands in the configuration in plain text"
        remedy = "put it into .env and write its variable in its place, ${NAME}"
        return say(Severity.NOTE, sentence, remedy)
    sources = dict.fromkeys(_source(name, environ, dotenv) for name in secret.variables)
    return say(Severity.OK, f"{users}: {kind} is set in {' and '.join(sources)}")


def _subject(kind: str, secret: Secret) -> str:
    return ", ".join(secret.variables) or kind


def _source(name: str, environ: Mapping[str, str], dotenv: Environment) -> str:
    if not environ.get(name):
        return DOTENV
    return (
        f"the environment (which goes before {DOTENV})" if dotenv.holds(name) else "the environment"
    )
