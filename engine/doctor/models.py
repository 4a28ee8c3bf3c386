"""Findings about each model and Python function: its roles, address, proxy and price."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from engine.config.schema import Config, ModelSpec, Target, secret_values
from engine.config.secrets import VARIABLE, Environment
from engine.config.wording import quotable
from engine.doctor.findings import Area, Diagnostic, Severity, of_error
from engine.errors import InputError
from engine.pipeline.models import (
    endpoint_of,
    function_place,
    model_digest,
    price_of,
    tier_of,
    unfit_local_model,
)
from engine.providers.endpoint import Endpoint
from engine.providers.functions.model import unusable_reason
from engine.providers.http.proxies import no_proxy_entry, proxy_for
from engine.providers.pricing import Prices
from engine.providers.protocols.base import Tokens
from engine.providers.redaction import Redactor
from engine.trust import UntrustedError

_SAMPLE: Final = 1_000
"""Tokens to compute a price from: too few to reach a separate price for long prompts."""


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """A model with all its roles."""

    spec: ModelSpec
    roles: tuple[str, ...]
    endpoint: Endpoint | None
    """None for a script or a function, and where there is a `fault`."""
    fault: InputError | None = None

    @property
    def address(self) -> str:
        """Its address, without the path if a variable is in it, as that may be a key."""
        if self.endpoint is None:
            return ""
        named = ", ".join(f"${{{name}}}" for name in self._variables)
        return self.without_path(self.endpoint.base_url) + (f" (from {named})" if named else "")

    def without_path(self, text: str) -> str:
        """A text about it, with the path of its address removed if a variable is in it."""
        if self.endpoint is None or not self._variables:
            return text
        parts = urlsplit(self.endpoint.base_url)
        tail = parts.path + (f"?{parts.query}" if parts.query else "")
        return text.replace(tail, "/…") if tail else text

    @property
    def hides_path(self) -> bool:
        """Whether a variable is in its address, so that the path may be a key."""
        return bool(self._variables)

    @property
    def _variables(self) -> list[str]:
        return VARIABLE.findall(written_address(self.spec))


def written_address(spec: ModelSpec) -> str:
    """The address as it is written, with variables; empty where there is none."""
    url = spec.url if isinstance(spec, Target) else None
    return url or spec.base_url or ""


def models_in_use(config: Config, environment: Environment) -> list[ModelInUse]:
    """All models in the order of the configuration, identical ones merged."""
    known: dict[object, tuple[ModelSpec, list[str]]] = {}
    for role, spec in _roles(config):
        headers = tuple(sorted(spec.sent_headers.items(), key=lambda header: header[0]))
        same = (
            spec.source,
            spec.model,
            spec.base_url,
            spec.apikey,
            headers,
            spec.params,
            spec.price,
            json.dumps(spec.extra_body, sort_keys=True),
            (spec.served_as, spec.served_model),
            model_digest(spec),
        )
        known.setdefault(same, (spec, []))[1].append(role)
    return [in_use(spec, environment, tuple(roles)) for spec, roles in known.values()]


def _roles(config: Config) -> Iterator[tuple[str, ModelSpec]]:
    yield "user model", config.user_model
    for judge in config.judges:
        yield "evaluator", judge
    yield "generator", config.generator
    if config.checks.kinds:
        yield "checker", config.checker
    for target in config.targets:
        yield f"target {target.id}", target
    for name, spec in config.models.items():
        yield f"models.{name}", spec


def in_use(spec: ModelSpec, environment: Environment, roles: tuple[str, ...] = ()) -> ModelInUse:
    """A model with its endpoint, or with the fault that prevents one."""
    if not spec.is_remote:
        return ModelInUse(spec, roles, None)
    try:
        return ModelInUse(spec, roles, endpoint_of(spec, environment))
    except InputError as error:
        return ModelInUse(spec, roles, None, error)


def model_findings(models: Sequence[ModelInUse]) -> list[Diagnostic]:
    """Findings about each model that take no call: its roles, address, proxy and price."""
    return [finding for model in models for finding in _model(model)]


def _model(model: ModelInUse) -> Iterator[Diagnostic]:
    spec, endpoint, roles = model.spec, model.endpoint, ", ".join(model.roles)
    say = partial(Diagnostic, Area.MODELS, spec.label)
    if isinstance(model.fault, UntrustedError):
        what = f"{roles}: where it is called is not looked up: nobody has allowed it"
        yield say(Severity.NOTE, what)
        return
    if model.fault is not None:
        for fault in of_error(Area.MODELS, spec.label, model.fault):
            yield say(fault.state, f"{roles}: {fault.sentence}", fault.remedy)
        return
    if spec.is_local:
        yield say(
            Severity.OK, f"{roles} · on this machine, in a server that each run starts: no key"
        )
        return
    if endpoint is None and not spec.is_application:
        what = "a script and no language model: no key, no network, no cost"
        yield say(Severity.OK, f"{roles} · {what}")
        return
    price = _price(spec, "" if endpoint is None else endpoint.base_url)
    where = ["a function, in a process of its own"]
    if endpoint is not None:
        try:
            way = way_to(endpoint.base_url)
        except InputError as error:
            yield from of_error(Area.MODELS, spec.label, error)
            way = "no usable proxy"
        where = [model.address, way]
    yield say(Severity.OK, " · ".join([roles, *where, price or "price not known"]))
    if price is None:
        yield say(
            Severity.NOTE,
            "its price is not known: costs are shown without it, and with a budget no run begins",
            "write `price: {input: …, output: …}` beside it, in US dollars per million tokens",
        )
    if endpoint is not None and endpoint.unencrypted:
        yield say(
            Severity.NOTE,
            f"{endpoint.host} is reached over http: key and messages can be read on the way",
            f"write https:// in {endpoint.address_key}, if the server speaks it",
        )


def _price(spec: ModelSpec, base_url: str = "") -> str | None:
    own, prices, tier = price_of(spec), Prices(), tier_of(spec)
    sent, received = Tokens(_SAMPLE, output=0, tier=tier), Tokens(0, output=_SAMPLE, tier=tier)
    input_usd = prices.cost_usd(own, spec.model, base_url, sent)
    output_usd = prices.cost_usd(own, spec.model, base_url, received)
    if input_usd is None or output_usd is None:
        return None
    scale = 1_000_000 / _SAMPLE
    return f"${input_usd * scale:.4g} in, ${output_usd * scale:.4g} out per million tokens"


def way_to(url: str) -> str:
    """The proxy that a run would use for this address, without its password, in words.

    Raises `InputError` for one that a run could not use.
    """
    proxy = proxy_for(url)
    if proxy is None:
        entry = no_proxy_entry(url)
        return "no proxy" if entry is None else f"no proxy (NO_PROXY has {quotable(entry)})"
    parts = urlsplit(proxy)
    port = "" if parts.port is None else f":{parts.port}"
    return f"by the proxy {parts.scheme}://{parts.hostname}{port}"


def secrets_of(models: Sequence[ModelInUse], environment: Environment) -> Redactor:
    """A redactor of all secrets of these models that can be resolved."""
    return Redactor(secret_values((model.spec for model in models), environment))


async def look_at_own_processes(
    models: Sequence[ModelInUse], environment: Environment
) -> tuple[list[Diagnostic], list[ModelInUse]]:
    """What keeps Python functions and local models from being called, one finding each, in the
    order of the models; and those models that can be."""
    problems, usable = list[Diagnostic](), list[ModelInUse]()
    for model in models:
        spec = model.spec
        problem: tuple[str, str | None] | None = None
        if isinstance(spec, Target) and spec.call is not None:
            why = await unusable_reason(function_place(spec.call, environment))
            if why is not None:
                problem = f"cannot be called: {why}", "see `call` in config.yaml"
        elif not spec.is_local:
            continue
        elif (unfit := unfit_local_model(spec, environment)) is not None:
            problem = unfit.what, unfit.hint
        if problem is None:
            usable.append(model)
        else:
            what, remedy = problem
            problems.append(Diagnostic(Area.MODELS, spec.label, Severity.PROBLEM, what, remedy))
    return problems, usable


def not_called(model: ModelInUse) -> Diagnostic:
    """The finding about a model on this machine that can be called, and is not."""
    done = "can be run here" if model.spec.is_local else "was imported"
    sentence = f"{done}; `crosswind doctor --call` calls it"
    return Diagnostic(Area.MODELS, model.spec.label, Severity.OK, sentence)
