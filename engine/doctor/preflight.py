"""Checks before a run, without cost, for what would make every call fail.

Only certain failures stop a run: a missing variable, a refused key, an untrusted certificate, a
model that a complete list does not have. All else is a warning, as the run itself waits for
servers that are not up yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from engine.config.schema import Config, ModelSpec, Target
from engine.config.secrets import Environment
from engine.config.yaml_text import read_yaml
from engine.doctor.findings import Diagnostic, Effect
from engine.doctor.models import ModelInUse, in_use
from engine.errors import InputError, Problem, merged_problems
from engine.pipeline.models import function_place, unfit_local_model
from engine.providers.functions.model import unusable_reason

LONGEST_S: Final = 4.0
"""How long each account may take to answer."""


def look_first(
    specs: Sequence[ModelSpec], config: Config, root: Path, environ: Mapping[str, str]
) -> Sequence[str]:
    """Warnings about the models that a run will call.

    Raises `InputError` with everything that would make it fail.
    """
    environment = Environment(root, environ)
    calls = dict.fromkeys(
        spec.call for spec in specs if isinstance(spec, Target) and spec.call is not None
    )
    models = [in_use(spec, environment) for spec in specs if spec.is_remote]
    problems = _unfit(specs, config.path, environment)
    warnings: Sequence[str] = ()
    if models or calls:
        others, warnings = asyncio.run(_looked_at(models, list(calls), config.path, environment))
        problems += others
    if problems:
        raise InputError(problems)
    return warnings


def _unfit(
    specs: Sequence[ModelSpec], config_path: Path, environment: Environment
) -> list[Problem]:
    """Why local models cannot be run here; once for each."""
    local = {spec.model: spec for spec in specs if spec.is_local}
    reasons = (unfit_local_model(spec, environment) for spec in local.values())
    found = [replace(reason, path=config_path) for reason in reasons if reason is not None]
    return merged_problems(dict.fromkeys(found))


def missing_values(
    specs: Sequence[ModelSpec], config_path: Path, root: Path, environ: Mapping[str, str]
) -> Sequence[Problem]:
    """What these models lack to be called at all, such as a key, without asking any server."""
    environment = Environment(root, environ)
    models = [in_use(spec, environment) for spec in specs if spec.is_remote]
    missing = merged_problems(problem for model in models for problem in _missing(model))
    return [*missing, *_unfit(specs, config_path, environment)]


async def _looked_at(
    models: Sequence[ModelInUse],
    calls: Sequence[str],
    path: Path,
    environment: Environment,
) -> tuple[Sequence[Problem], Sequence[str]]:
    """The problems and the warnings about models and functions."""
    # imported here: 40 ms for the HTTP clients, which what is said of keys does not need
    from engine.doctor.reachability import check_reachability, names_by_destination

    wrong = [problem async for problem in _not_callable(calls, path, environment)]
    lacking = [(model, list(_missing(model))) for model in models]
    wanted = names_by_destination(model for model, problems in lacking if not problems)
    found = await check_reachability(wanted, longest_s=LONGEST_S, again=False)
    wrong += merged_problems(
        [
            *(problem for _, problems in lacking for problem in problems),
            *(
                Problem(_said(one), path, hint=one.remedy)
                for one in found
                if one.effect is Effect.STOPS
            ),
        ]
    )
    return wrong, tuple(dict.fromkeys(_said(one) for one in found if one.effect is Effect.WARNS))


def _said(finding: Diagnostic) -> str:
    return f"{finding.subject}: {finding.sentence}"


async def _not_callable(
    calls: Sequence[str], path: Path, environment: Environment
) -> AsyncIterator[Problem]:
    """A problem for each function that cannot be imported, with its place in the configuration. One
    at a time, as a module may need much memory."""
    for call in calls:
        why = await unusable_reason(function_place(call, environment))
        if why is not None:
            document = read_yaml(path)
            for number, target in enumerate(document.data.get("targets", [])):
                if target.get("call") == call:
                    what = f"`{call}` cannot be called: {why}"
                    yield document.problem(("targets", number, "call"), what, hint=_OF_A_FUNCTION)


_OF_A_FUNCTION: Final = (
    "it is imported with the workspace's folder first on the path, by the Python that Crosswind "
    "runs on"
)


def _missing(model: ModelInUse) -> Iterator[Problem]:
    endpoint = model.endpoint
    if model.fault is not None:
        yield from model.fault.problems
    if endpoint is None:
        return
    for look_up in (endpoint.key, endpoint.headers, endpoint.extra_body):
        try:
            look_up()
        except InputError as error:
            yield from error.problems
