"""Checks before a run, without cost, for what would make every call fail.

Only certain failures stop a run: a missing variable, a refused key, an untrusted certificate, a
model that a complete list does not have. All else is a warning, as the run itself waits for
servers that are not up yet.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from engine.config.schema import Config, ModelSpec, Target
from engine.config.secrets import Environment
from engine.config.yaml_text import read_yaml
from engine.display import one_line
from engine.doctor.models import ModelInUse, in_use
from engine.doctor.reachability import (
    OF_CERTIFICATES,
    Destination,
    ModelListing,
    destinations,
    listed,
)
from engine.errors import InputError, Problem, merged_problems
from engine.pipeline.models import function_place, unfit_local_model
from engine.providers.attempts import (
    describe,
    refuses_key,
    server_words,
)
from engine.providers.functions.model import unusable_reason
from engine.providers.http.transport import Fault
from engine.providers.redaction import Redactor

LONGEST_S: Final = 4.0
COMPLETE: Final = frozenset(
    {
        "api.openai.com",
        "api.anthropic.com",
        "api.groq.com",
        "api.mistral.ai",
        "api.x.ai",
        "openrouter.ai",
    }
)
"""Hosts that list every model that they serve to a key. Other servers accept unlisted names:
llama-server takes any, gateways have wildcards, some load models on demand."""
_MAY_NOT_LIST: Final = (b"scope", b"permission")
"""What a refusal says where the key is good, but not for lists."""


@dataclass(frozen=True, slots=True)
class PreflightResult:
    """Certain failures, and warnings."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()


async def preflight(models: Sequence[ModelInUse], config_path: Path) -> PreflightResult:
    """Ask every account for its list of models, concurrently, each for at most `LONGEST_S`
    seconds."""
    problems = [problem for model in models for problem in _missing(model)]
    warnings: list[str] = []
    wanted = _names_by_destination(models)
    asked = await asyncio.gather(*(listed(place, longest_s=LONGEST_S) for place in wanted))
    for (place, names), listing in zip(wanted.items(), asked, strict=True):
        wrong, doubts = _listing_problems(place, names, listing, config_path)
        problems += wrong
        warnings += doubts
    return PreflightResult(tuple(merged_problems(problems)), tuple(dict.fromkeys(warnings)))


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
    wrong = [problem async for problem in _not_callable(calls, path, environment)]
    if not models:
        return wrong, ()
    preflight_result = await preflight(models, path)
    return [*wrong, *preflight_result.problems], preflight_result.warnings


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


def _names_by_destination(models: Sequence[ModelInUse]) -> dict[Destination, list[str]]:
    """The accounts whose keys are set, each with the names of the models wanted from it."""
    wanted: dict[Destination, list[str]] = {}
    for model in models:
        if model.endpoint is None or any(_missing(model)):
            continue
        for place in destinations([model]):
            wanted.setdefault(place, []).append(model.endpoint.model)
    return wanted


def _listing_problems(
    place: Destination, names: Sequence[str], listing: ModelListing, config_path: Path
) -> tuple[list[Problem], list[str]]:
    """What is certainly wrong, and what a person should know but only the run can tell."""
    host, failure, body = place.subject, listing.failure, bytes(listing.body)
    if failure is not None:
        if listing.silence:
            return [], [f"{host} {listing.silence}; a run tries it again"]
        what = describe(failure)
        if failure.cause in OF_CERTIFICATES:
            return [Problem(f"{host}: {what}", hint=OF_CERTIFICATES[failure.cause])], []
        if failure.cause is Fault.TLS:
            return [], [f"{host} was not reached: {what}; every call fails"]
        if failure.cause is Fault.NOT_HTTP:
            return [], [f"{host} does not answer as a server of models does: it is not valid HTTP"]
        return [], [f"{host} was not reached: {what}; a run waits for it"]
    # an application has no list of models: any answer is enough
    if place.wire.is_application:
        return [], []
    if refuses_key(listing.status, body):
        # a key that may call and not list is answered like a wrong one, but for the words
        if any(word in body.lower() for word in _MAY_NOT_LIST):
            return [], []
        own = place.redactor()(server_words(listing.status, body))
        what = f"{host} refuses the key {place.key_name} ({listing.status})"
        what += f", and says: {own}" if own else ""
        hint = "check the key: is it of this provider, and still valid?"
        return [Problem(what, config_path, hint=hint)], []
    # without a list nothing is known of the names; the run will find what is wrong
    if not 200 <= (listing.status or 0) < 300:
        return [], []
    known, redact = model_names(body), place.redactor()
    unknown = [name for name in dict.fromkeys(names) if known and not is_listed(name, known)]
    if place.subject in COMPLETE:
        hint = "see the provider's list, or leave the model out"
        wrong = [
            Problem(f"{host} has no model {redact(name)!r} for this key", config_path, hint=hint)
            for name in unknown
        ]
        return wrong, []
    return [], [
        f"{host} does not list a model {redact(name)!r}; it lists {_some_names(known, redact)}"
        for name in unknown
    ]


def _some_names(known: Collection[str], redact: Redactor) -> str:
    first = sorted(known)[:3]
    more = f" and {len(known) - len(first)} more" if len(known) > len(first) else ""
    return ", ".join(one_line(redact(name), 80) for name in first) + more


def model_names(body: bytes) -> frozenset[str]:
    """The names in a list of models; empty for an invalid list, or only its first page."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return frozenset()
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or answer.get("has_more"):
        return frozenset()
    ids = (model.get("id") for model in data if isinstance(model, dict))
    names = frozenset(name for name in ids if isinstance(name, str) and name)
    # a gateway that forwards any name lists a pattern, in which no name is missing
    return frozenset() if any("*" in name for name in names) else names


_DATED: Final = re.compile(r"[-@]?(\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest)\Z")
_LONGEST_DATE: Final = len("-2025-01-31")


def is_listed(name: str, known: Collection[str]) -> bool:
    """Whether a list may include this name. Providers accept aliases, dated snapshots, fine-tuned
    models and variants whose base alone is listed, or with a prefix."""
    # a fine-tuned model belongs to its owner and is in no list
    if name.startswith("ft:"):
        return True
    wanted = _bases(name)
    return any(not wanted.isdisjoint(_bases(listed)) for listed in known)


def _bases(name: str) -> frozenset[str]:
    whole = name.casefold()
    short = whole.removeprefix("models/").partition(":")[0]
    return frozenset({whole, short, _undated(short)})


def _undated(name: str) -> str:
    return name[:-_LONGEST_DATE] + _DATED.sub("", name[-_LONGEST_DATE:])
