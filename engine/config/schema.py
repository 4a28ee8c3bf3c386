"""`config.yaml`: the models and their roles, how much they are asked, and where it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import AliasChoices, Field, PrivateAttr, ValidationError, field_serializer

from engine.addresses import PUBLIC_ADDRESSES
from engine.benchmark import Role, Stance
from engine.branches import Branch
from engine.checks import CheckKind, UserAuditMode
from engine.config.applications import APPLICATIONS, with_names
from engine.config.checks import (
    PINPOINT,
    contradictions,
    crossed_id,
    is_borrowed,
    warnings_of,
    with_judges,
    with_names_resolved,
    with_sent_names,
)
from engine.config.faults import in_file_order, problems_of
from engine.config.secrets import Environment, Secret, texts_with_variables, variables_in
from engine.config.values import (
    EACH_MESSAGE,
    EFFORTS,
    LOCAL,
    OFFLINE,
    PER_CONVERSATION,
    PYTHON,
    RESPONSES_ONLY,
    Call,
    ClusterSettings,
    ConfigSection,
    Effort,
    GivenApi,
    GivenBatch,
    GivenForm,
    GivenPace,
    GivenPeople,
    GivenReview,
    GivenStance,
    GivenUserAudit,
    HeaderName,
    JsonPath,
    Listed,
    ModelNames,
    Served,
    SessionChoice,
    SessionPath,
    Several,
    Shape,
    ShortName,
    SourceName,
    StreamPath,
    Url,
    Words,
)
from engine.config.wording import did_you_mean, quotable
from engine.config.yaml_text import YamlDocument, read_yaml
from engine.errors import InputError, Problem
from engine.jury import Jury, People
from engine.local_models import content_digest, is_file_name, model_file
from engine.people import ReviewMode
from engine.scripted import Pace
from engine.trust import NOWHERE, Permission, beginning_of


def _whole(default: int, *, least: int, most: int) -> Any:
    expected = f"a whole number from {least} to {most}"
    return Field(default=default, ge=least, le=most, description=expected)


def _flag(*, default: bool) -> Any:
    return Field(default=default, description="true or false")


def _section(shape: Callable[[], object]) -> Any:
    """One that may be left out, or left empty."""
    return Field(default_factory=shape, description="keys and values")


_NAMED_BY_SOURCE: Final = frozenset({OFFLINE, *APPLICATIONS})


class Params(Shape):
    """Parameters that are sent with every call; the provider decides those that are left out."""

    temperature: float | None = Field(
        default=None, ge=0, le=2, allow_inf_nan=False, description="a number from 0 to 2"
    )
    """How random the replies are; higher is more random."""
    max_tokens: int | None = Field(default=None, ge=1, description="a whole number above 0")
    """The longest reply, in tokens. Left out, no limit is sent, except with Anthropic's protocol,
    which requires one: 8,192, or as much as the server says it has room for."""
    top_p: float | None = Field(
        default=None, ge=0, le=1, allow_inf_nan=False, description="a number from 0 to 1"
    )
    """The probability mass of the likeliest tokens that it samples from."""
    reasoning_effort: Effort | None = Field(
        default=None, description=f"one of {', '.join(EFFORTS)}"
    )
    """How much a reasoning model thinks before it answers; not every model takes every level."""
    seed: int | None = Field(
        default=None, ge=-(2**63), lt=2**63, description="a whole number of at most 64 bits"
    )
    """Asks for the same reply to the same request, where the provider supports that."""
    pace: GivenPace = Field(default=None, description="`human`, `instant`, or a number above 0")
    """How fast an offline model speaks: `human`, `instant`, or words a second."""


class PriceSpec(Shape):
    """The price of a model, in US dollars per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False, description="US dollars, 0 or more")
    """The price of what it is sent."""
    output: float = Field(ge=0, allow_inf_nan=False, description="US dollars, 0 or more")
    """The price of what it writes, its reasoning included."""
    cached_input: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="US dollars, 0 or more"
    )
    """The price of input that the provider had cached; left out, that of `input`."""


class ModelId(NamedTuple):
    """A model at an address, whichever entries of the configuration it has."""

    source: str
    address: str
    """As it is written; empty for the public one of the source."""
    name: str

    @property
    def label(self) -> str:
        """Its name on screens and in files, which models at several addresses may have; that of a
        script or an application begins with its source."""
        is_bare = self.source not in _NAMED_BY_SOURCE
        return self.name if is_bare else f"{self.source}:{self.name}"


class ModelSpec(Shape):
    """One language model: its name, who serves it, and how it is called."""

    model: Words = Field(description="a model's name, as its provider spells it")
    """The model; for `source: offline`, the script, and for `source: local`, `smollm2-135m` or the
    path of a GGUF file. `${NAME}` is looked up in it when it is called,
    kept as secret as a key, and stored as it is written."""
    source: SourceName = Field(description="who serves the model, such as `openai` or `offline`")
    """The provider, by a known name; any other word needs a `base_url`. `anthropic` uses
    Anthropic's protocol, `offline` is a script, `local` runs on this machine from a file, all
    others use OpenAI's protocol."""
    apikey: Secret | None = Field(
        default=None, exclude=True, description='the name of a variable, written "${NAME}"'
    )
    """The API key, looked up in the environment and then in `.env` when a call is made. A server of
    your own may need none."""
    base_url: Url | None = Field(default=None, description="an address, `https://host/path`")
    """The address of the server, up to but without `/chat/completions` or `/v1/messages`. Left out,
    the public address of `source`."""
    extra_headers: ConfigSection[Mapping[HeaderName, Secret]] = Field(
        default_factory=dict, description="names of headers, each with text"
    )
    """Headers of each request, kept as secret as the key; `${NAME}` is looked up in them."""
    params: ConfigSection[Params] = _section(Params)
    """Parameters of each request. Those that you leave out are not sent."""
    extra_body: ConfigSection[Mapping[str, Any]] = _section(dict)
    """Further keys for the body of each request, sent as they are. `${NAME}` is looked up in them
    as in keys."""
    slots: int | None = Field(
        default=None, ge=1, le=10_000, description="a whole number from 1 to 10,000"
    )
    """How many replies its server writes at once. Further calls wait here, where no time is counted
    against them, and not there. Left out, as many as the server takes; llama-server is asked."""
    served_model: Served = Field(default="any", description="`any` or `same`")
    """Whose replies are accepted: those of any model that the server answers with, or only those of
    this one."""
    served_as: ModelNames = Field(
        default=(), description="a model's name, or a list of them, as the server writes it"
    )
    """Other names that a server reports for this model."""
    price: PriceSpec | None = Field(
        default=None, description="`input` and `output`, in US dollars for a million tokens"
    )
    """The price of the model at its address, once for all of its entries. Left out, it is the cost
    that the provider reports, or else the published price; without either, the cost is unknown,
    never zero."""

    api: GivenApi = Field(default=None, description="`chat` or `responses`")
    """Which of OpenAI's two protocols is spoken. Left out, `responses` for models of OpenAI that
    exist only there, such as `o3-pro`, and `chat` for all others."""
    batch: GivenBatch = Field(default=False, description="`true`, `false` or `first`")
    """Whether judge, checks and generator ask OpenAI or Anthropic in batches, at half the price and
    within a day. What is to be asked again is asked in the next batch or, with `first`, at once and
    at full price."""

    _content: str | None = PrivateAttr(default=None)
    """Of a local model: the digest of its file; None if that cannot be read, or is known by its
    name."""

    @field_serializer("extra_headers")
    def _names_only(self, headers: Mapping[str, Secret]) -> list[str]:
        return sorted(headers)

    @property
    def sent_headers(self) -> Mapping[str, Secret]:
        """All headers that the configuration adds to a request."""
        return self.extra_headers

    @property
    def sent_body(self) -> Mapping[str, Any]:
        """All that the configuration adds to the body of a request."""
        return self.extra_body

    @property
    def is_offline(self) -> bool:
        return self.source == OFFLINE

    @property
    def speaks_responses(self) -> bool:
        """Whether it is reached over OpenAI's Responses protocol."""
        if self.api is not None:
            return self.api == "responses"
        return self.source == "openai" and not self.base_url and self.model in RESPONSES_ONLY

    @property
    def is_remote(self) -> bool:
        """Whether it is reached over HTTP and has an address."""
        return self.source not in {OFFLINE, LOCAL, PYTHON}

    @property
    def is_local(self) -> bool:
        """Whether Crosswind runs it on this machine, from a file."""
        return self.source == LOCAL

    @property
    def weights(self) -> str:
        """What its answers depend on besides its requests: its name, or its file's content."""
        return self._content or self.model

    @property
    def is_application(self) -> bool:
        """Whether it is an application around a model, not a bare model."""
        return self.source in APPLICATIONS

    @property
    def address(self) -> str:
        """Where it is called, as it is written; empty for the public address of its source."""
        return self.base_url or ""

    @property
    def destination(self) -> str:
        """Where its requests go: scheme, host and port of its address, as they are written."""
        if self.is_local:
            return NOWHERE
        return beginning_of(self.address or PUBLIC_ADDRESSES.get(self.source, ""))

    @property
    def sent_variables(self) -> tuple[str, ...]:
        """Every variable that is sent with its requests."""
        texts = [self.model, self.address, *self.served_as, self.sent_body]
        secrets = [secret.template for secret in self.sent_headers.values()]
        key = "" if self.apikey is None else self.apikey.template
        return variables_in([key, *secrets, *texts])

    @property
    def identity(self) -> ModelId:
        return ModelId(self.source, self.address, self.model)

    @property
    def label(self) -> str:
        """As `ModelId`."""
        return self.identity.label


class UserModel(ModelSpec):
    """The language model that plays the person."""

    stance: GivenStance = Field(
        default=Stance.ADVERSARIAL, description="`adversarial` or `neutral`"
    )
    """What it pursues: the hidden goal, along the scenario's landmarks, or only what the person
    openly wants. `neutral` is told no hidden goal, metric or landmark."""

    form: GivenForm = Field(default=None, description="`json` or `plain`")
    """How it is asked for a message: in JSON, with its thought and whether it leaves, or `plain`,
    with a short prompt for the message alone, which small models can speak. Left out, JSON, and
    plain text for a model that answers in no JSON at the beginning of a conversation."""

    def in_stance(self, stance: Stance) -> UserModel:
        return self.model_copy(update={"stance": stance})

    def replaced_by(self, spec: ModelSpec) -> UserModel:
        """Another model in this stance, asked in this form."""
        same = {name: getattr(spec, name) for name in ModelSpec.model_fields}
        own = {"stance": self.stance, "form": self.form}
        found = UserModel.model_construct(spec.model_fields_set, **same, **own)
        found._content = spec._content  # noqa: SLF001  (its own)
        return found


class Target(ModelSpec):
    """A language model that is measured, or an application around one."""

    id: ShortName = Field(description="a short name of your choice")
    """The target's name in ids, folders and tables. Another id is another target."""
    system_prompt: str | None = Field(default=None, description="text; empty sends none")
    """This target's system prompt, unless the scenario has its own; an empty text sends none. Left
    out, that of the benchmark, or the default."""
    url: Url | None = Field(default=None, description="an address, `https://host/path`")
    """For `source: http`: where each message is posted."""
    request: Mapping[str, Any] | None = Field(default=None, description="keys and values")
    """For `source: http`: the body, with `$messages` or `$message` in it, and `$system`, `$session`
    and `$model` where they belong. `${NAME}` is looked up in it as in keys."""
    reply: JsonPath | None = Field(default=None, description="a path such as `choices.0.text`")
    """For `source: http`: the place of the reply in the answer's JSON."""
    stream: StreamPath = Field(default=None, description="a path such as `delta.text`, or `none`")
    """For `source: http`: the place of a piece of the reply in the JSON of each server-sent event.
    Left out, the answer is not streamed."""
    headers: ConfigSection[Mapping[HeaderName, Secret]] = Field(
        default_factory=dict, description="names of headers, each with text"
    )
    """For `source: http`: headers of each request, kept secret; `${NAME}` is looked up in them."""
    session: SessionChoice = Field(default=EACH_MESSAGE, description="`none` or `per conversation`")
    """For `source: http`: `per conversation` sends only the new message each time, with a
    `$session` that identifies the conversation."""
    session_from: SessionPath | None = Field(
        default=None, description="a path such as `conversation.id`, `header NAME`, or `cookies`"
    )
    """For `session: per conversation`: where each answer has the application's own name for the
    conversation. The first message is then sent without `$session`, each later one with the name in
    the last answer; `cookies` are sent back as such."""
    follow_redirects: bool = Field(default=False, description="`true` or `false`")
    """For `source: http`: whether to go where an answer redirects, on the same host."""

    call: Call | None = Field(default=None, description="`package.module:function`")
    """For `source: python`: the function that replies; the workspace's folder is searched first."""
    processes: int = _whole(4, least=1, most=256)
    """For `source: python`: the most processes that run it, each with one call at a time."""

    @property
    def address(self) -> str:
        return self.url or self.call or super().address

    @property
    def keeps_session(self) -> bool:
        """Whether the application itself remembers the conversation."""
        return self.session == PER_CONVERSATION

    @field_serializer("headers")
    def _own_names_only(self, headers: Mapping[str, Secret]) -> list[str]:
        return sorted(headers)

    @property
    def sent_headers(self) -> Mapping[str, Secret]:
        return {**self.extra_headers, **self.headers}

    @property
    def sent_body(self) -> Mapping[str, Any]:
        return {**self.extra_body, **(self.request or {})}


_Spec = TypeVar("_Spec", bound=ModelSpec)


class _ModelChange(Protocol):
    def __call__(self, spec: _Spec, /) -> _Spec: ...


class Condition(Shape):
    """A way in which every target is measured: the same model under another system prompt."""

    id: ShortName = Field(description="a short name of your choice")
    """The part behind the dot in a target's crossed id: `gpt.strict`."""
    system_prompt: str | None = Field(default=None, description="text; empty sends none")
    """The system prompt of every target under it; an empty text sends none. Left out, each target
    keeps its own."""


class ConcurrencySettings(Shape):
    """How many rows of each stage are worked on at once."""

    gen_scenarios: int = _whole(5, least=1, most=10_000)
    """Metrics whose scenarios are written at once, and variants that are rewritten."""
    simulate: int = _whole(10, least=1, most=10_000)
    """Conversations that are played at once."""
    evaluate: int = _whole(20, least=1, most=10_000)
    """Conversations that are judged at once."""


class RunSettings(Shape):
    """How a run behaves where the command line does not say otherwise."""

    force: bool = _flag(default=False)
    """Do everything again, as `--force`."""
    dry_run: bool = _flag(default=False)
    """Count calls and ask no model anything, as `--dry-run`."""
    verbose: bool = _flag(default=False)
    """Accepted because ImpactBench's files have it; it changes nothing."""
    budget: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="US dollars, above 0"
    )
    """The most that one run may cost. It stops before it costs more: calls are made at once only as
    far as all of them fit with answers as long as `max_tokens` (8,192 where that is not set), and
    conversations are begun only as far as they can be finished. A server that ignores `max_tokens`,
    charges more than its price or bills failed attempts can pass it by what the calls under way
    then cost too much."""
    concurrency: ConfigSection[ConcurrencySettings] = _section(ConcurrencySettings)
    """The most rows at once. A provider that allows less gets fewer calls."""
    first_word_seconds: float = Field(
        default=300, ge=1, le=1_800, description="seconds, from 1 to 1800"
    )
    """How long a call waits for the first word or reasoning of its reply. A slow model on a machine
    of your own, or one that thinks for long, may need more."""


class GenerationSettings(Shape):
    """How many scenarios, turns and samples each metric gets."""

    scenarios_per_metric: int = _whole(3, least=1, most=999)
    """Base scenarios of each metric. More of them make results surer; more samples hardly do."""
    turns: int = _whole(6, least=1, most=200)
    """The most messages of the person; the target answers each."""
    num_samples: int = _whole(1, least=1, most=1_000)
    """How often each conversation is played; 2 or more show how consistent a target is."""


class EvaluationSettings(Shape):
    """How finished conversations are judged."""

    passes: int = _whole(1, least=1, most=9)
    """How often each judge is asked about a conversation."""


class ValidationSettings(Shape):
    """How validation runs are read."""

    equivalence_points: float = Field(
        default=10, gt=0, lt=100, allow_inf_nan=False, description="points, above 0 and below 100"
    )
    """How far the difference between any two targets may change for the ranking to hold; fixed when
    a validation run begins."""


class CheckSettings(Shape):
    """Cheap extra calls that check finished conversations; none by default."""

    groups: bool = _flag(default=False)
    """Whether a model guesses the demographic group from the user's messages alone."""
    landmarks: bool = _flag(default=False)
    """Whether a model says of each reached landmark if the user model carried it out."""
    model: ShortName | None = Field(
        default=None, description="a name in `models`, or a target's id"
    )
    """The model that is asked; left out, the evaluator, or the first of several."""

    @property
    def kinds(self) -> tuple[CheckKind, ...]:
        """The checks that are switched on."""
        asked = {CheckKind.GROUPS: self.groups, CheckKind.LANDMARKS: self.landmarks}
        return tuple(kind for kind, is_made in asked.items() if is_made)


class Config(Shape):
    """The whole of `config.yaml`, checked."""

    run: ConfigSection[RunSettings] = _section(RunSettings)
    """How a run behaves: its budget and its concurrency."""
    user_model: UserModel = Field(
        description="the keys of the model that plays the user: `model`, `source`, …"
    )
    """Plays the person and writes their messages, one at a time."""
    evaluator_model: ModelSpec = Field(
        description="the keys of the model that judges: `model`, `source`, …"
    )
    """Judges each finished conversation. Not needed with `evaluators`, whose first model it then
    is."""
    evaluators: Several[ModelSpec] | None = Field(
        default=None, description="a list of models that judge, or of names from `models`"
    )
    """Several judges instead of `evaluator_model`: each judges every conversation, the majority
    counts, and a tie is unscored."""
    evaluation: ConfigSection[EvaluationSettings] = _section(EvaluationSettings)
    """How often each judge is asked."""
    generator_model: ModelSpec | None = Field(
        default=None, description="the keys of the model that writes metrics and scenarios"
    )
    """Writes metrics and scenarios. Left out, the user model writes them."""
    generation: ConfigSection[GenerationSettings] = _section(GenerationSettings)
    """How many scenarios, turns and samples."""
    demographics: ConfigSection[Mapping[Words, Several[Words]]] = Field(
        default_factory=dict, description="axes, each with a list of values"
    )
    """Every scenario is rewritten for each combination of these values, so that people of different
    groups are in the same situation. Without any, each scenario has a single variant."""
    perfunctory: bool = _flag(default=False)
    """Whether the person types hastily, with short messages, typos and half sentences."""
    landmarks: bool = Field(
        default=True,
        validation_alias=AliasChoices("landmarks", PINPOINT),
        description="true or false",
    )
    """Whether the person is told turn by turn what to do; with `false`, they get the whole plan at
    once."""
    user_audit: GivenUserAudit = Field(
        default=UserAuditMode.FLAG, description="`off`, `flag` or `invalidate`"
    )
    """What happens to conversations in which the user model did not do its part: `flag` marks and
    counts them, `invalidate` makes them unscored, `off` does not check."""
    checks: ConfigSection[CheckSettings] = _section(CheckSettings)
    """Cheap extra calls that check finished conversations."""
    review: GivenReview = Field(
        default=ReviewMode.OPTIONAL, description="`required`, `optional` or `off`"
    )
    """Whether people approve what a model wrote: with `required`, nothing is played from a metric
    or scenario that nobody approved; with `off`, reviews are not mentioned."""
    people: GivenPeople = Field(
        default=People.COMPARE, description="`compare`, `vote` or `overrule`"
    )
    """What people's labels do: `compare` only compares the judges with them, `vote` makes each a
    further vote, `overrule` lets only them count where there are any."""
    validation: ConfigSection[ValidationSettings] = _section(ValidationSettings)
    """How validation runs are read."""
    targets: Several[Target] = Field(description="a list of the models to measure, at least one")
    """The models that are measured, each with an `id` of its own."""
    conditions: Listed[Condition] = Field(
        default=(), description="a list of conditions, each with an `id`"
    )
    """System prompts that all targets are crossed with: with two of them, each target is measured
    twice, as `<target>.<condition>`, and not under its bare id."""
    models: ConfigSection[Mapping[ShortName, ModelSpec]] = Field(
        default_factory=dict, description="names, each with the keys of a model"
    )
    """Further models, by names for `evaluators`, `evaluate --evaluator` and `validate --with`."""
    workspace_budget: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="US dollars, above 0"
    )
    """The most that all runs of the workspace together may cost. As with `run.budget`, no call is
    made that might pass it."""
    cluster: ClusterSettings | None = Field(default=None, description="keys and values")
    """A Dask cluster whose workers make the calls. Left out, the engine makes them itself."""
    store: Words | None = Field(default=None, description="a path")
    """The path of the store, relative to the workspace; a path that ends with `/` is a folder. It
    must be on a local disk. Left out, `crosswind.db` beside `config.yaml`."""
    default_system_prompt: Words = Field(default="You are a helpful assistant.", description="text")
    """The system prompt of targets where nothing else gives one: neither the scenario, nor the
    target, nor the benchmark."""

    _path: Path = PrivateAttr(default=Path("config.yaml"))
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    def model_post_init(self, context: object) -> None:
        """Remember the file that it was read from, if any."""
        if isinstance(context, YamlDocument):
            self._path = context.path
            self._warnings = warnings_of(context)

    @property
    def has_pressure(self) -> bool:
        """Whether a conversation can reach a second landmark."""
        return self.landmarks and self.generation.turns > 1

    @property
    def path(self) -> Path:
        return self._path

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes about what is allowed, but probably not intended."""
        return self._warnings

    @property
    def generator(self) -> ModelSpec:
        """The model that writes metrics and scenarios: the user model where none is named."""
        return self.generator_model or self.user_model

    @property
    def judges(self) -> tuple[ModelSpec, ...]:
        """The models that judge each conversation."""
        return self.evaluators or (self.evaluator_model,)

    @property
    def jury(self) -> Jury:
        """The judges and passes whose verdicts count."""
        labels = tuple(judge.label for judge in self.judges)
        return Jury(labels, self.evaluation.passes, self.people)

    @property
    def checker(self) -> ModelSpec:
        """The model that makes the checks. Raises `InputError` where its name is unknown."""
        name = self.checks.model
        return self.judges[0] if name is None else self.model_named(name)

    @property
    def models_beside_targets(self) -> tuple[ModelSpec, ...]:
        """Every model that a run calls, except the targets."""
        others = (self.user_model, *self.judges, self.generator)
        return (*others, self.checker) if self.checks.kinds else others

    def model_named(self, name: str) -> ModelSpec:
        """A model by its name in `models`, or a target by its id. Raises `InputError`."""
        models = [target for target in self.targets if not target.is_application]
        known: dict[str, ModelSpec] = {target.id: target for target in models}
        for target in models:
            for condition in self.conditions:
                # a target crossed with conditions is the same model in all of them
                known.setdefault(target.id.removesuffix(f".{condition.id}"), target)
        known |= self.models
        if name in known:
            return known[name]
        what = (
            f"no model is called `{quotable(name)}`, expected a name in `models` or a target's id"
        )
        raise InputError(Problem(what, self.path, hint=did_you_mean(name, known)))

    @property
    def every_model(self) -> tuple[ModelSpec, ...]:
        """All entries of models, with repetitions."""
        return (*self.models_beside_targets, *self.targets, *self.models.values())

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """What must be allowed before its models are called, without what is usual."""
        found = []
        for spec in self.every_model:
            if spec.is_remote:
                found += [Permission(spec.destination, name) for name in spec.sent_variables]
            elif isinstance(spec, Target) and spec.call is not None:
                found.append(Permission(NOWHERE, spec.call))
        if (scheduler := named_scheduler(self)) is not None:
            found.append(Permission(scheduler, ""))
        return tuple(dict.fromkeys(one for one in found if not one.is_usual))

    def at_pace(self, pace: Pace) -> Config:
        """This configuration with its scripted models speaking at this pace."""

        def paced(spec: _Spec) -> _Spec:
            if not spec.is_offline:
                return spec
            return spec.model_copy(update={"params": spec.params.model_copy(update={"pace": pace})})

        return self._with_models(paced)

    def priced_alike(self) -> Config:
        """This configuration with the price of a model at all of its entries that have none; the
        higher one where entries differ."""
        prices: dict[ModelId, PriceSpec] = {}
        for spec in self.every_model:
            if (price := spec.price) is not None:
                both = (prices.get(spec.identity, price), price)
                prices[spec.identity] = max(both, key=lambda one: one.input + one.output)

        def with_price(spec: _Spec) -> _Spec:
            price = prices.get(spec.identity) if spec.price is None else None
            return spec if price is None else spec.model_copy(update={"price": price})

        return self._with_models(with_price) if prices else self

    def _with_models(self, changed: _ModelChange) -> Config:
        return self.model_copy(
            update={
                "user_model": changed(self.user_model),
                "evaluator_model": changed(self.evaluator_model),
                "evaluators": self.evaluators and tuple(map(changed, self.evaluators)),
                "generator_model": self.generator_model and changed(self.generator_model),
                "targets": tuple(changed(target) for target in self.targets),
                "models": {name: changed(spec) for name, spec in self.models.items()},
            }
        )

    def public(self) -> dict[str, Any]:
        """All of it, ready for JSON, without keys and with the names of headers only."""
        return self.model_dump(mode="json")


def named_scheduler(config: Config) -> str | None:
    """The scheduler that a configuration names, which is sent every prompt and may run code as this
    user; None where it names none."""
    return None if config.cluster is None else config.cluster.scheduler


def config_of(config: Config, benchmark: str) -> Config:
    """The configuration that a benchmark or a branch runs under.

    Raises `InputError` for a branch whose model is not in the configuration any more.
    """
    branch = Branch.parse(benchmark)
    if branch is not None and branch.stance is not None:
        return config.model_copy(update={"user_model": config.user_model.in_stance(branch.stance)})
    if branch is None or branch.name is None:
        return config
    model = config.model_named(branch.name)
    match branch.role:
        case Role.USER:
            # the generator stays the same, even where the user model was the generator
            return config.model_copy(
                update={
                    "user_model": config.user_model.replaced_by(model),
                    "generator_model": config.generator,
                }
            )
        case Role.GENERATOR:
            return config.model_copy(update={"generator_model": model})
        case _:
            return config


def load_config(path: Path, *, environment: Environment | None = None) -> Config:
    """Read and check a `config.yaml`. Raises `InputError` with every problem found.

    Variables in models' names are looked up in `environment`.
    """
    # no variable of this frame may hold a key: tracebacks can show them
    result = _validated_config(
        read_yaml(path)
        if environment is None
        else with_names_resolved(read_yaml(path), environment)
    )
    if not isinstance(result, Config):
        raise InputError(result)
    if environment is not None:
        for spec in [*result.every_model, result.generator]:
            if spec.is_local and is_file_name(spec.model):
                path = model_file(spec.model, environment.root, environment.environ)
                spec._content = content_digest(path)  # noqa: SLF001  (its own module's)
    return result


def _validated_config(written: YamlDocument) -> Config | list[Problem]:
    document, named = with_judges(with_names(with_sent_names(written)))
    problems = [*contradictions(written), *named]
    try:
        config = Config.model_validate(document.data, context=written)
    except ValidationError as error:
        faults = problems_of(error, document, Config)
        problems += [problem for problem in faults if not is_borrowed(problem, written)]
    else:
        if not problems:
            targets = tuple(_targets_by_condition(config))
            return config.model_copy(update={"targets": targets}).priced_alike()
    return in_file_order(problems)


def _targets_by_condition(config: Config) -> Iterator[Target]:
    """Each target in each condition; without conditions, the targets unchanged."""
    for target in config.targets:
        for condition in config.conditions:
            own = (
                target.system_prompt if condition.system_prompt is None else condition.system_prompt
            )
            crossed = crossed_id(target.id, condition.id)
            yield target.model_copy(update={"id": crossed, "system_prompt": own})
        if not config.conditions:
            yield target


def secret_values(specs: Iterable[ModelSpec], environment: Environment) -> set[str]:
    """Every key, header and looked-up text of these models whose variables are set."""
    found = set[str]()
    for spec in specs:
        secrets = [*spec.sent_headers.values(), *([] if spec.apikey is None else [spec.apikey])]
        templates = [
            *(secret.template for secret in secrets),
            *texts_with_variables(spec.sent_body),
        ]
        found.update(_resolved_templates(templates, environment))
        found.update(environment.hidden_values([spec.model, spec.address]))
    return found


def _resolved_templates(templates: Sequence[str], environment: Environment) -> Iterator[str]:
    for template in templates:
        try:
            yield environment.resolve(template, where="secret", to=NOWHERE).strip()
        except InputError:
            continue
