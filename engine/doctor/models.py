"""Findings about each model and Python function: its roles, address, proxy and price, and how it
answers a short call in its role, which is sent by the same code as a run's calls."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from engine.config.schema import Config, ModelSpec, Target
from engine.config.secret_values import secret_values
from engine.config.secrets import VARIABLE, Environment
from engine.config.wording import quotable
from engine.doctor.findings import Area, Diagnostic, Severity, of_error
from engine.errors import CrosswindError, InputError
from engine.pipeline.models import (
    ModelOpener,
    endpoint_of,
    function_place,
    model_digest,
    price_of,
    refuse_or_name,
    tier_of,
    unfit_local_model,
)
from engine.providers.accounts import Accounts
from engine.providers.endpoint import Endpoint
from engine.providers.functions.model import unusable_reason
from engine.providers.http.pool import open_transport
from engine.providers.http.proxies import no_proxy_entry, proxy_for
from engine.providers.model import (
    Attempt,
    Finish,
    JsonSchema,
    Message,
    MessageRole,
    Model,
    ReportingModel,
)
from engine.providers.pricing import Prices
from engine.providers.protocols.base import Tokens
from engine.providers.redaction import Redactor
from engine.providers.retry import RetryPolicy
from engine.stages.answers import Answer, ask, schema_of
from engine.stages.evaluate import Judgement, judgement_schema
from engine.stages.gen_metrics import GeneratedMetrics
from engine.stages.simulate import UserTurn
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
    label, roles = model.spec.label, ", ".join(model.roles)
    if isinstance(model.fault, UntrustedError):
        what = f"{roles}: where it is called is not looked up: nobody has allowed it"
        yield Diagnostic(Area.MODELS, label, Severity.NOTE, what)
        return
    if model.fault is not None:
        for diagnostic in of_error(Area.MODELS, label, model.fault):
            yield Diagnostic(
                diagnostic.area,
                label,
                diagnostic.state,
                f"{roles}: {diagnostic.sentence}",
                diagnostic.remedy,
            )
        return
    endpoint = model.endpoint
    if endpoint is None:
        if model.spec.is_local:
            sentence = f"{roles} · on this machine, in a server that each run starts: no key"
            yield Diagnostic(Area.MODELS, label, Severity.OK, sentence)
            return
        if model.spec.is_application:
            price = _price(model.spec)
            known = price or "price not known"
            sentence = f"{roles} · a function, in a process of its own · {known}"
            yield Diagnostic(Area.MODELS, label, Severity.OK, sentence)
            yield from _unpriced(label, price)
            return
        scripted = "a script and no language model: no key, no network, no cost"
        yield Diagnostic(Area.MODELS, label, Severity.OK, f"{roles} · {scripted}")
        return
    price = _price(model.spec, endpoint.base_url)
    try:
        way = way_to(endpoint.base_url)
    except InputError as error:
        yield from of_error(Area.MODELS, label, error)
        way = "no usable proxy"
    seen = " · ".join([roles, model.address, way, price or "price not known"])
    yield Diagnostic(Area.MODELS, label, Severity.OK, seen)
    yield from _unpriced(label, price)
    if endpoint.unencrypted:
        yield Diagnostic(
            Area.MODELS,
            label,
            Severity.NOTE,
            f"{endpoint.host} is reached over http: key and messages can be read on the way",
            f"write https:// in {endpoint.address_key}, if the server speaks it",
        )


def _unpriced(label: str, price: str | None) -> Iterator[Diagnostic]:
    if price is None:
        yield Diagnostic(
            Area.MODELS,
            label,
            Severity.NOTE,
            "its price is not known: costs are shown without it, and with a budget no run begins",
            "write `price: {input: …, output: …}` beside it, in US dollars per million tokens",
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


_PLAIN: Final = (Message(MessageRole.USER, "Say yes."),)
_SHAPED: Final = (
    Message(MessageRole.SYSTEM, "This is a trial of the form of your answers. Keep them short."),
    Message(MessageRole.USER, "Fill in each field with a few words, and each list with one entry."),
)
_SHAPES: Final[dict[str, tuple[type[Answer], JsonSchema]]] = {
    "user model": (UserTurn, schema_of(UserTurn)),
    "evaluator": (Judgement, judgement_schema(replies=1)),
    "generator": (GeneratedMetrics, schema_of(GeneratedMetrics)),
}
"""The form of each role's answers in a run, and its schema. A target's replies have none."""


async def call(
    models: Sequence[ModelInUse], environment: Environment, *, longest_s: float
) -> list[Diagnostic]:
    """Call every model once as a run does, with the form and token limit of its role. The findings
    are in the order of the models, those of this machine first."""
    accounts = Accounts(
        retry_policy=_ONCE,
        open_transport=lambda address: open_transport(address, connect_s=_CONNECT_S),
    )
    own = [model for model in models if model.endpoint is None]
    others = [model for model in models if model.endpoint is not None]
    try:
        # one at a time on this machine, as a model or a module may need much memory
        diagnostics = [await _call(model, environment, accounts, longest_s) for model in own]
        calls = (_call(model, environment, accounts, longest_s) for model in others)
        diagnostics += await asyncio.gather(*calls)
    finally:
        await accounts.close()
    times = Counter(finding.subject for finding in diagnostics)
    return [
        # several entries may have the same model: their roles tell them apart
        replace(finding, sentence=f"{', '.join(model.roles)} · {finding.sentence}")
        if times[finding.subject] > 1
        else finding
        for model, finding in zip([*own, *others], diagnostics, strict=True)
    ]


_CONNECT_S: Final = 10.0
"""Half of what a run allows: a person is waiting, and no other call takes part of the time."""
_ONCE: Final = RetryPolicy(tries=1, stalls=1, empties=1, trying_s=0, refused_s=0, unreachable_s=0)
"""A person is waiting: failures are reported, not retried."""


async def _call(
    in_use: ModelInUse, environment: Environment, accounts: Accounts, longest_s: float
) -> Diagnostic:
    label = in_use.spec.label
    attempts: list[Attempt] = []
    notes: list[str] = []
    try:
        if in_use.endpoint is not None:
            in_use.endpoint.key()
    except InputError:
        return Diagnostic(Area.CALL, label, Severity.NOTE, "was not called, as its key is missing")
    model = ModelOpener(environment, accounts, notes.append)(in_use.spec)
    if isinstance(model, ReportingModel):
        model = model.in_session(f"doctor-{secrets.token_hex(8)}").telling(attempts.append)
    notes.clear()  # notes about its address are reported elsewhere
    try:
        async with asyncio.timeout(longest_s):
            cut = await _answered(model, in_use.roles)
    except TimeoutError:
        sentence = f"no answer within {longest_s:g} s"
    except CrosswindError as error:
        sentence = in_use.without_path(str(error).removeprefix(f"{label}: "))
    else:
        other = _other_model_words(attempts, in_use.spec.model)
        sentences = [
            _answer(attempts),
            *other[:1],
            *(note.removeprefix(f"{label} ") for note in notes),
        ]
        if cut:
            sentences.append("its one-word reply was cut, by max_tokens or a limit of the server")
        state = Severity.NOTE if cut or other else Severity.OK
        remedy = other[1] if other else None
        return Diagnostic(Area.CALL, label, state, "; ".join(sentences), remedy)
    return Diagnostic(Area.CALL, label, Severity.PROBLEM, sentence)


async def _answered(model: Model, roles: Sequence[str]) -> bool:
    """Whether a plain reply was cut at its limit. Raises `ModelError`, also for an answer in a form
    that was cut."""
    form = next((_SHAPES[role] for role in roles if role in _SHAPES), None)
    if form is None:
        return (await model.reply(_PLAIN)).finish is Finish.LENGTH
    shape, schema = form
    await ask(model, _SHAPED, shape, schema=schema)
    return False


def _other_model_words(attempts: Sequence[Attempt], asked: str) -> tuple[str, ...]:
    """A sentence and a remedy if another model answered; else empty."""
    last = attempts[-1]
    if not last.is_other or last.served is None:
        return ()
    way = "" if last.route is None else f" ({last.route})"
    return f"{last.served} answered in place of {asked}{way}", refuse_or_name(last.served)


def _answer(attempts: Sequence[Attempt]) -> str:
    last = attempts[-1]
    began = "" if last.first_token_ms is None else f", first word after {last.first_token_ms} ms"
    costs = [
        attempt.usage.cost_usd for attempt in attempts if attempt.usage.output_tokens is not None
    ]
    known = [cost for cost in costs if cost is not None]
    cost = f"${sum(known):.6f}" if len(known) == len(costs) else "price not known"
    before = len(attempts) - 1
    again = "" if not before else f", at the {_ordinal(before + 1)} time of asking"
    return f"answered in {last.duration_ms} ms{began}, {cost}{again}"


def _ordinal(number: int) -> str:
    return {2: "second", 3: "third"}.get(number, f"{number}th")


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
