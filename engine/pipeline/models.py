"""Opens each configured model once: where it is reached, with what, and at which price."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import Any, Final, NamedTuple

from engine.benchmark import AnswerForm, Role
from engine.config.benchmark_file import Definition
from engine.config.checks import SECRET_HEADER
from engine.config.schema import Config, ModelId, ModelSpec, Target, UserModel
from engine.config.secrets import VARIABLE, Environment, Secret, variables_in
from engine.config.values import BATCH_FIRST, filled_in
from engine.errors import InputError, Problem
from engine.identity import digest
from engine.local_models import model_file
from engine.providers.accounts import Accounts
from engine.providers.batches.queue import BatchLedger, ModelBatches
from engine.providers.capabilities import CapabilityMemory, ModelCapabilities, Step
from engine.providers.endpoint import (
    Application,
    AsWritten,
    Endpoint,
    ExtraBody,
    RequestParams,
    application_address,
    model_address,
    no_extra_body,
    no_key,
)
from engine.providers.functions.model import FunctionModel, FunctionPlace, FunctionPool
from engine.providers.limiter import HeldCalls
from engine.providers.local.child import LONGEST_REPLY
from engine.providers.local.fitness import SLOTS, unfit_reason
from engine.providers.local.server import ADDRESS, LocalServer
from engine.providers.model import (
    Model,
)
from engine.providers.pricing import SERVICE_TIER, Price
from engine.providers.protocols.anthropic import LIMIT_UNASKED
from engine.providers.protocols.base import Tokens
from engine.providers.real import RealModel, real_model
from engine.providers.redaction import Redactor
from engine.providers.scripted.models import offline_model
from engine.providers.served_model import A_FALLBACK_OF
from engine.store.model_settings import SYSTEM_PROMPT
from engine.store.reader import Reader
from engine.store.tables import (
    LearnedRow,
    SettingsRow,
)
from engine.trust import NOWHERE


class OtherModel(NamedTuple):
    """A reply that came from another model than the requested one."""

    role: Role
    target: str | None
    """The target for which it was requested, if any."""
    asked: str
    served: str
    route: str | None

    @property
    def words(self) -> str:
        """What a person should know about it and can do."""
        is_target = self.role is Role.TARGET
        who = role_words(self.role, self.target)
        who = who if is_target else f"the {who}"
        way = "" if self.route is None else f" ({self.route})"
        counts = "counts as the target's" if is_target else "is used as that model's"
        return (
            f"{who}: {self.served} answered in place of {self.asked}{way}, and what it says "
            f"{counts}; {refuse_or_name(self.served)}"
        )


def refuse_or_name(served: str) -> str:
    """What a person can do about a substitute model."""
    name = served.removeprefix(A_FALLBACK_OF)
    return (
        "write `served_model: same` beside the model to refuse that, or "
        f"`served_as: {name}` if that is the model you mean"
    )


def role_words(role: Role, target: str | None) -> str:
    """`user model`, or `target alpha`."""
    return f"target {target}" if role is Role.TARGET and target else _ROLE_NAMES[role]


_ROLE_NAMES: Final = {
    Role.GENERATOR: "generator",
    Role.USER: "user model",
    Role.EVALUATOR: "evaluator",
    Role.CHECKER: "checker",
    Role.TARGET: "target",
}


def caller_words(role: Role, target: str | None, label: str) -> str:
    """`target alpha (gpt-4o)`: who failed, as several targets and roles may have one model."""
    who = role_words(role, target)
    return who if label == target else f"{who} ({label})"


MOST_OTHERS: Final = 50
"""The most kinds of these reported in one run: a server may invent names without end."""


def model_digest(spec: ModelSpec) -> str:
    """A digest of everything that a model's answers depend on: not its key or a script's pace."""
    params = spec.params.model_dump(mode="json", exclude_none=True, exclude={"pace"})
    made_of: list[object] = [spec.source, spec.weights, spec.base_url, params]
    if isinstance(spec, Target) and spec.is_application:
        made_of += [spec.call, spec.url, spec.request, spec.reply, spec.stream, spec.session]
        # only where it is given, so that digests in older stores stay what they are
        made_of += [] if spec.session_from is None else [spec.session_from]
    if spec.extra_body:
        made_of.append(dict(spec.extra_body))
    return digest(made_of)


def model_settings(spec: ModelSpec) -> dict[str, Any]:
    """What a model is asked with, each parameter by its name in the configuration; None where the
    provider decides."""
    settings = spec.params.model_dump(mode="json", exclude={"pace"})
    settings["max_tokens"] = settings["max_tokens"] or _LIMITS_UNASKED.get(spec.source)
    return {**settings, **({"extra_body": dict(spec.extra_body)} if spec.extra_body else {})}


_LIMITS_UNASKED: Final = {"anthropic": LIMIT_UNASKED, "local": LONGEST_REPLY}


def settings_rows(
    config: Config, definitions: Iterable[Definition], stored: Container[str]
) -> Iterator[SettingsRow]:
    """What the digests stand for that this configuration may leave in rows, without those that are
    stored."""
    specs = [*config.every_model, config.generator]
    found = {model_digest(spec): model_settings(spec) for spec in specs if not spec.is_offline}
    own = [target.system_prompt for target in config.targets]
    usual = [definition.user_context for definition in definitions]
    for prompt in filter(None, [config.default_system_prompt, *own, *usual]):
        found[digest(prompt)] = {SYSTEM_PROMPT: prompt}
    # of targets that have none
    found[digest("")] = {SYSTEM_PROMPT: ""}
    for name, settings in found.items():
        if name not in stored:
            yield SettingsRow(digest=name, settings=settings)


def named_spec(spec: ModelSpec) -> str:
    """`model gpt-4o`, or `target shop`: what a problem with a model's values names."""
    if isinstance(spec, Target) and spec.url is not None:
        return f"target {spec.id}"
    return f"model {spec.model}"


def endpoint_of(spec: ModelSpec, environment: Environment) -> Endpoint:
    """How a model is reached. Keys and headers are looked up for each call.

    Raises `InputError` for an invalid address, or one whose variable is not set.
    """
    if isinstance(spec, Target) and spec.url is not None and spec.request is not None:
        return _application_of(spec, spec.url, spec.request, environment)
    apikey, headers = spec.apikey, spec.sent_headers
    where = named_spec(spec)
    to = spec.destination

    def all_headers() -> Mapping[str, str]:
        return {
            name: environment.header(value, where=where, to=to) for name, value in headers.items()
        }

    def extra_body() -> ExtraBody:
        return ExtraBody(*filled_in(spec.extra_body, environment, where=where, to=to))

    model, source = environment.resolve(spec.model, where=where, to=to), spec.source.strip().lower()
    written = spec.base_url and environment.resolve(spec.base_url, where=where, to=to)
    base_url = ADDRESS if spec.is_local else written
    return Endpoint(
        model,
        source,
        model_address(model, source, base_url, has_key=apikey is not None),
        no_key if apikey is None else (lambda: environment.key(apikey, where=where, to=to)),
        all_headers,
        RequestParams(**spec.params.model_dump(exclude={"pace"})),
        extra_body if spec.extra_body else no_extra_body,
        served_as=tuple(environment.resolve(name, where=where, to=to) for name in spec.served_as),
        only_this=spec.served_model == "same",
        secrets=environment.hidden_values([spec.model, spec.address, *spec.served_as]),
        speaks_responses=spec.speaks_responses,
        slots=spec.slots,
    )


def _application_of(
    target: Target, url: str, request: Mapping[str, Any], environment: Environment
) -> Endpoint:
    """Raises `InputError`."""
    where = named_spec(target)
    to = target.destination

    def all_headers() -> Mapping[str, str]:
        sent = target.sent_headers
        return {name: environment.header(value, where=where, to=to) for name, value in sent.items()}

    return Endpoint(
        environment.resolve(target.model, where=where, to=to),
        "http",
        application_address(environment.resolve(url, where=where, to=to)),
        headers=all_headers,
        extra_body=lambda: ExtraBody(*filled_in(request, environment, where=where, to=to)),
        application=Application(
            target.reply,
            target.stream,
            target.keeps_session,
            target.session_from,
            target.follow_redirects,
        ),
        served_as=tuple(environment.resolve(name, where=where, to=to) for name in target.served_as),
        only_this=target.served_model == "same",
        secrets=environment.hidden_values([target.model, url, *target.served_as]),
        slots=target.slots,
    )


def price_of(spec: ModelSpec) -> Price | None:
    """The price of a model in the configuration; one that runs here costs nothing without one."""
    if (written := spec.price) is None:
        return Price(Decimal(0), Decimal(0)) if spec.is_local else None
    # by their text, as `Decimal(0.1)` has 55 digits
    cached = written.cached_input
    return Price(
        Decimal(str(written.input)),
        Decimal(str(written.output)),
        None if cached is None else Decimal(str(cached)),
    )


def tier_of(spec: ModelSpec) -> str | None:
    """The service tier that a model is asked for in the configuration."""
    tier = spec.extra_body.get(SERVICE_TIER)
    return tier if isinstance(tier, str) else None


def stored_memory(reader: Reader, tell: Callable[[LearnedRow], None]) -> CapabilityMemory:
    """Remembers across runs, in the store, what each model turned out not to accept. A write is
    not awaited: a lost row costs one more refusal."""
    known = {
        model: ModelCapabilities(Step(step), dropped)
        for model, (step, dropped) in reader.learned().items()
    }

    def keep(model: str, learned: ModelCapabilities) -> None:
        tell(LearnedRow(model=model, step=learned.step, dropped=tuple(sorted(learned.dropped))))

    return CapabilityMemory(known, keep)


# Endpoints whose requests a worker agent makes, which looks up the keys itself

_SALT: Final = token_bytes(16)
_KEY: Final = "the apikey"
"""Not a valid name of a header."""


@dataclass(frozen=True, slots=True)
class GivenValues:
    """Keys that agents are told; all others they look up where they run."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    """By the name of a variable; filled as models are opened."""
    at_home: bool = False
    """Whether agents are local processes started by this engine."""


def written_endpoint(
    endpoint: Endpoint, spec: ModelSpec, environment: Environment, given: GivenValues
) -> Endpoint:
    """The endpoint for requests by an agent, with variables left in the key, headers and body.

    Raises `InputError` for a key in plain text that agents may not be told.
    """
    url, body = _address_and_body(spec)
    if not VARIABLE.search(url):
        url = endpoint.base_url
    sent = {
        name: _header_for_agent(name, secret, spec, given)
        for name, secret in _secrets(spec).items()
    }
    key = sent.pop(_KEY, None)
    names = variables_in([url, key or "", sent, body])
    environment.require(names, spec.destination)
    return replace(
        endpoint,
        key=endpoint.key if key is None else lambda: key,
        headers=lambda: sent,
        extra_body=lambda: ExtraBody(body),
        as_written=AsWritten(url, names),
    )


def _address_and_body(spec: ModelSpec) -> tuple[str, Mapping[str, Any]]:
    if isinstance(spec, Target) and spec.url is not None:
        return spec.url, spec.request or {}
    return spec.base_url or "", spec.extra_body


def _secrets(spec: ModelSpec) -> Mapping[str, Secret]:
    """The headers, and the key under `_KEY`."""
    headers = spec.sent_headers
    return headers if spec.apikey is None else {**headers, _KEY: spec.apikey}


def _header_for_agent(name: str, secret: Secret, spec: ModelSpec, given: GivenValues) -> str:
    """The value of a key or header as it is sent to an agent."""
    if secret.variables or not (name == _KEY or SECRET_HEADER.search(name)):
        return secret.template
    if not given.at_home:
        what = f"{name} of {spec.label} is a key in plain text, and no worker is told one"
        hint = "write its variable, and set that where the workers run"
        raise InputError(Problem(what, hint=hint))
    # a digest, so that the name reveals nothing
    digest = blake2b(secret.template.encode(), key=_SALT, digest_size=8).hexdigest()
    variable = f"CROSSWIND_GIVEN_{digest}"
    given.values[variable] = secret.template.strip()
    return f"${{{variable}}}"


Opener = Callable[[ModelSpec], Model]


def open_offline(spec: ModelSpec) -> Model:
    """Open a scripted model. Raises `InputError` for an unknown name."""
    return offline_model(spec.model, seed=spec.params.seed or 0, pace=spec.params.pace or "human")


@dataclass(frozen=True, slots=True)
class ModelOpener:
    """Opens scripted models, functions, and real models at their accounts."""

    environment: Environment
    accounts: Accounts
    on_note: Callable[[str], None]
    given: GivenValues | None = None
    """What agents are told of keys; None where this process makes the requests."""
    ledger: BatchLedger | None = None
    """What is known of batches; None where none are made."""
    _servers: dict[Path, tuple[LocalServer, Accounts]] = field(default_factory=dict, init=False)
    """The servers of local models by the file of each."""

    def __call__(self, spec: ModelSpec) -> Model:
        """Open a model. Raises `InputError`. Nothing connects before the first call."""
        if spec.is_offline:
            return open_offline(spec)
        if isinstance(spec, Target) and spec.call is not None:
            return self._function(spec, spec.call)
        if spec.is_local:
            return self._local(spec)
        place = endpoint_of(spec, self.environment)
        if self.given is not None and not spec.batch:
            place = written_endpoint(place, spec, self.environment, self.given)
        batches = None
        if spec.batch and self.ledger is not None:
            only_first = spec.batch == BATCH_FIRST
            batches = ModelBatches(self.ledger, self.accounts, only_first=only_first)
        return real_model(
            place,
            self.accounts,
            label=spec.label,
            price=price_of(spec),
            batches=batches,
            on_note=self.on_note,
        )

    def _local(self, spec: ModelSpec) -> Model:
        environment = self.environment
        model = local_model(spec, environment)
        path = model_file(model, environment.root, environment.environ)
        if path not in self._servers:
            server = LocalServer(path, path.name, self.on_note)
            self._servers[path] = server, self.accounts.of_own_server(server.at, SLOTS)
        server, accounts = self._servers[path]
        place = endpoint_of(spec, environment)
        place = replace(place, model=path.name, key=lambda: server.key)
        price = price_of(spec)
        return real_model(place, accounts, label=spec.label, price=price, on_note=self.on_note)

    def _function(self, target: Target, call: str) -> Model:
        place = function_place(call, self.environment)
        pool = FunctionPool(place, target.processes, self.accounts.stoppable)
        self.accounts.close_later(pool.close)
        redact = Redactor(self.environment.own_values().values())
        prices = self.accounts.prices
        cost = prices.cost_usd(price_of(target), target.model, "", Tokens())
        return FunctionModel(target.label, pool, self.accounts.retry_policy, redact, cost)


def local_model(spec: ModelSpec, environment: Environment) -> str:
    """The name or path of a local model, with its variables filled in. Raises `InputError`."""
    return environment.resolve(spec.model, where=named_spec(spec), to=NOWHERE)


def unfit_local_model(spec: ModelSpec, environment: Environment) -> Problem | None:
    """Why a local model cannot be run here, without its place in the configuration. Raises
    `InputError`."""
    return unfit_reason(local_model(spec, environment), environment.root, environment.environ)


def function_place(call: str, environment: Environment) -> FunctionPlace:
    return FunctionPlace(environment.root.absolute(), call, lambda: environment.variables(call))


CONVERSATIONS_WITHOUT_JSON: Final = 2
"""After so many in a row that a user model cannot begin in JSON, a run begins the others in plain
text at once."""


class Models:
    """The models of a configuration, each opened on first use."""

    def __init__(self, config: Config, opener: Opener) -> None:
        self._config = config
        self._opener = opener
        self._open: dict[int, tuple[ModelSpec, Model]] = {}
        """By identity: specifications that differ only in their keys are different models."""
        self._others: set[tuple[Role, str | None, str, str]] = set()
        self._loose: set[tuple[Role, str]] = set()
        self._without_json: defaultdict[ModelId, int] = defaultdict(int)
        """Conversations in a row that the user model could not begin in JSON."""

    def user_form(self, user: UserModel) -> AnswerForm:
        """How a user model is asked in a new conversation: as configured, or as its answers in this
        run have shown."""
        has_none = self._without_json[user.identity] >= CONVERSATIONS_WITHOUT_JSON
        return user.form or (AnswerForm.PLAIN if has_none else AnswerForm.JSON)

    def note_json(self, user: UserModel, *, came: bool) -> None:
        """Note whether a user model could begin a conversation in JSON."""
        self._without_json[user.identity] = 0 if came else self._without_json[user.identity] + 1

    def open(self, spec: ModelSpec) -> Model:
        """Return the model of a specification, opened once. Raises `InputError`."""
        # not by equality: equal specs share a label, but may look up different keys
        key = id(spec)
        if key not in self._open:
            self._open[key] = (spec, self._opener(spec))
        return self._open[key][1]

    def is_new(self, other: OtherModel) -> bool:
        """Whether this is the first of its kind in the run, for a target's replies by target."""
        target = other.target if other.role is Role.TARGET else None
        kind = (other.role, target, other.asked, other.served)
        if kind in self._others or len(self._others) >= MOST_OTHERS:
            return False
        self._others.add(kind)
        return True

    def writes_loosely(self, role: Role, label: str) -> bool:
        """Whether this is the first answer of this model in this role that had other text around
        it, in the run."""
        is_first = (role, label) not in self._loose
        self._loose.add((role, label))
        return is_first

    def target(self, target_id: str) -> Model:
        """Return the model of a target, opened once. Raises `InputError`."""
        return self.open(self.target_spec(target_id))

    def target_spec(self, target_id: str) -> Target:
        """Return the specification of a configured target."""
        return next(target for target in self._config.targets if target.id == target_id)

    def parked(self, target_id: str) -> str | None:
        """Why calls to this target are suspended; None where they are not."""
        model = self.target(target_id)
        return model.parked() if isinstance(model, RealModel) else None

    def unpark(self, target_id: str) -> None:
        """Resume calls to this target."""
        model = self.target(target_id)
        if isinstance(model, RealModel):
            model.unpark()

    def held(self) -> dict[ModelId, HeldCalls]:
        """What calls wait for, for models with waiting calls."""
        by_model: dict[ModelId, HeldCalls] = {}
        for identity, model in self._real():
            if (held := model.held()) is not None:
                before = by_model.get(identity)
                calls = held.calls + (0 if before is None else before.calls)
                by_model[identity] = (before or held)._replace(calls=calls)
        return by_model

    def limits(self) -> dict[ModelId, tuple[int, int]]:
        """The concurrency limit and number of waiting calls of models at their limit."""
        by_model: dict[ModelId, tuple[int, int]] = {}
        for identity, model in self._real():
            if (limit := model.limit()) is not None:
                at_once, waiting = limit
                # entries of one model share its limit, and each counts its own calls
                by_model[identity] = at_once, waiting + by_model.get(identity, (0, 0))[1]
        return by_model

    def _real(self) -> list[tuple[ModelId, RealModel]]:
        opened = list(self._open.values())
        return [(spec.identity, model) for spec, model in opened if isinstance(model, RealModel)]
