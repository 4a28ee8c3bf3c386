"""Whether each key is there, and where from. No value is ever shown, nor how long it is."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from engine.config.environment import Environment
from engine.config.extra_body import texts_with_variables
from engine.config.secret import Secret
from engine.config.settings import ModelSpec
from engine.doctor.findings import Area, Finding, State, of_error
from engine.doctor.models import ModelInUse
from engine.errors import InputError

DOTENV: Final = ".env"
APIKEY: Final = "apikey"
EXTRA_BODY: Final = "extra_body"


def key_findings(
    models: Sequence[ModelInUse], environ: Mapping[str, str], root: Path
) -> list[Finding]:
    environment, dotenv = Environment(root, environ), Environment(root, {})
    try:
        # reads the file, whatever the variable
        dotenv.holds(DOTENV)
    except InputError as error:
        return of_error(Area.KEYS, DOTENV, error)
    findings = list(_file(root / DOTENV))
    for (kind, secret), labels in _users(models).items():
        users = ", ".join(dict.fromkeys(labels))
        problems = _problems(kind, secret, users, environment)
        findings += problems or [_standing(kind, secret, users, environ, dotenv)]
    return findings


def _file(path: Path) -> Iterator[Finding]:
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        sentence = f"{path} can be read by other users of this machine"
        yield Finding(Area.KEYS, DOTENV, State.NOTE, sentence, f"chmod 600 {path}")
    else:
        yield Finding(Area.KEYS, DOTENV, State.OK, f"{path} can be read by you alone")


def _users(models: Sequence[ModelInUse]) -> dict[tuple[str, Secret], list[str]]:
    """Every secret with what it is for, and the models that use it."""
    users: dict[tuple[str, Secret], list[str]] = {}
    for model in models:
        for use in _secrets(model.spec):
            users.setdefault(use, []).append(model.spec.label)
    return users


def _secrets(spec: ModelSpec) -> Iterator[tuple[str, Secret]]:
    if spec.is_offline:
        return
    if spec.apikey is not None:
        yield APIKEY, spec.apikey
    for name, value in spec.extra_headers.items():
        if value.variables:
            yield f"header {name}", value
    for text in texts_with_variables(spec.extra_body):
        yield EXTRA_BODY, Secret(text)


def _problems(kind: str, secret: Secret, users: str, environment: Environment) -> list[Finding]:
    try:
        if kind == APIKEY:
            environment.key(secret, where=users)
        elif kind == EXTRA_BODY:
            environment.resolve(secret.template, where=users)
        else:
            environment.header(secret, where=users)
    except InputError as error:
        subject = _subject(kind, secret)
        return [
            Finding(Area.KEYS, subject, State.PROBLEM, f"{users}: {problem.what}", problem.hint)
            for problem in error.problems
        ]
    return []


def _standing(
    kind: str, secret: Secret, users: str, environ: Mapping[str, str], dotenv: Environment
) -> Finding:
    subject = _subject(kind, secret)
    if not secret.variables:
        return Finding(
            Area.KEYS,
            subject,
            State.NOTE,
            f"{users}: the key stands in the configuration in plain text",
            "put it into .env and write its variable in its place, ${NAME}",
        )
    sources = dict.fromkeys(_source(name, environ, dotenv) for name in secret.variables)
    sentence = f"{users}: {kind} is set in {' and '.join(sources)}"
    return Finding(Area.KEYS, subject, State.OK, sentence)


def _subject(kind: str, secret: Secret) -> str:
    return ", ".join(secret.variables) or kind


def _source(name: str, environ: Mapping[str, str], dotenv: Environment) -> str:
    if not environ.get(name):
        return DOTENV
    return (
        f"the environment (which goes before {DOTENV})" if dotenv.holds(name) else "the environment"
    )
