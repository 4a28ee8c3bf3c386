"""`config.yaml`: which models play which part, how much is asked of them, and where it is kept."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import Field, PrivateAttr, ValidationError, field_serializer

from engine.benchmark import Role, Stance
from engine.branches import Branch
from engine.checks import CheckKind, UserAuditMode
from engine.config.applications import APPLICATIONS, with_names
from engine.config.checks import (
    contradictions,
    crossed_id,
    current_words,
    named_models,
    nobody_called,
    warnings_of,
)
from engine.config.faults import in_file_order, problems_of
from engine.config.secrets import Secret
from engine.config.values import (
    EACH_MESSAGE,
    EFFORTS,
    OFFLINE,
    OFFLINE_MODELS,
    PER_CONVERSATION,
    PYTHON,
    Call,
    Effort,
    GivenPace,
    GivenPeople,
    GivenReview,
    GivenStance,
    GivenUserAudit,
    HeaderName,
    JsonPath,
    Listed,
    ModelNames,
    Name,
    Section,
    Served,
    Session,
    SessionPath,
    Several,
    Shape,
    SourceName,
    StreamPath,
    Url,
    Words,
)
from engine.config.wording import did_you_mean, shown
from engine.config.yaml_text import YamlDocument, read_yaml
from engine.errors import InputError, Problem
from engine.jury import Jury, People
from engine.review import ReviewMode
from engine.scripted import Pace

ONE: Final = "evaluator_model"
SEVERAL: Final = "evaluators"

_STAND_IN: Final = {"model": "unknown", "source": "openai"}
"""In place of a name that names nothing, which is a problem of its own."""


def with_judges(document: YamlDocument) -> tuple[YamlDocument, list[Problem]]:
    """The same document with names of `evaluators` replaced by the models they name, and its first
    judge as the `evaluator_model`; and what is wrong with them."""
    given = document.data.get(SEVERAL)
    if not isinstance(given, list):
        return document, []
    problems = _both(document)
    known = named_models(document)
    judges: list[Any] = []
    for number, written in enumerate(given):
        if isinstance(written, str):
            if written not in known:
                problems.append(nobody_called(document, (SEVERAL, number), written, known))
            judges.append(known.get(written, _STAND_IN))
        else:
            judges.append(written)
    problems += _twice(document, judges)
    data = {**document.data, SEVERAL: judges}
    if judges:
        data.setdefault(ONE, judges[0])
    return replace(document, data=data), problems


def is_borrowed(problem: Problem, written: YamlDocument) -> bool:
    """Whether a problem lies in a model that is written elsewhere, and is told there."""
    key = problem.key or ""
    given = written.data.get(SEVERAL)
    if key.startswith(ONE) and ONE not in written.data:
        return given is not None
    return any(
        key.startswith(f"{SEVERAL}[{number}].")
        for number, judge in enumerate(given if isinstance(given, list) else [])
        if isinstance(judge, str)
    )


def _both(document: YamlDocument) -> list[Problem]:
    if ONE not in document.data:
        return []
    what = f"this stands beside `{SEVERAL}`, expected one of the two"
    hint = f"delete it, or write it as one of `{SEVERAL}`"
    return [document.problem((ONE,), what, hint=hint, of_key=True)]


def _twice(document: YamlDocument, judges: list[Any]) -> list[Problem]:
    """Verdicts are told apart by the model's name, so it must differ."""
    first: dict[tuple[bool, str], int] = {}
    problems = []
    for number, judge in enumerate(judges):
        match judge:
            case {"model": str(model), "source": str(source)} if judge is not _STAND_IN:
                label = (source.strip().lower() == OFFLINE, model)
            case _:
                continue
        known = first.setdefault(label, number)
        if known != number:
            what = (
                f"two judges have the model `{shown(model)}` (first as "
                f"{SEVERAL}[{known}]), and their verdicts could not be told apart"
            )
            hint = "to ask one judge several times, write `evaluation: {passes: 2}`"
            problems.append(document.problem((SEVERAL, number), what, hint=hint))
    return problems


_NAMED_BY_SOURCE: Final = frozenset({OFFLINE, *APPLICATIONS})


class Params(Shape):
    """What is asked of a model with every call; what is left out is the provider's to decide."""

    temperature: float | None = Field(
        default=None, ge=0, le=2, allow_inf_nan=False, description="a number from 0 to 2"
    )
    """How much chance there is in what it says; the higher, the more."""
    max_tokens: int | None = Field(default=None, ge=1, description="a whole number above 0")
    """The longest reply. Left out, no limit is sent, but to Anthropic's protocol, which insists on
    one: 8,192, or what the server says it has room for."""
    top_p: float | None = Field(
        default=None, ge=0, le=1, allow_inf_nan=False, description="a number from 0 to 1"
    )
    """Which share of the likeliest words it chooses from."""
    reasoning_effort: Effort | None = Field(
        default=None, description=f"one of {', '.join(EFFORTS)}"
    )
    """How much a model that reasons thinks before it answers; which of them there are, the model
    decides."""
    seed: int | None = Field(
        default=None, ge=-(2**63), lt=2**63, description="a whole number of at most 64 bits"
    )
    """Asks for the same reply to the same request, where the provider can do that."""
    pace: GivenPace = Field(default=None, description="`human`, `instant`, or a number above 0")
    """How fast an offline model speaks: `human`, `instant`, or words a second."""


class PriceSpec(Shape):
    """What a model costs, in US dollars for a million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False, description="US dollars, 0 or more")
    """Of what it is sent."""
    output: float = Field(ge=0, allow_inf_nan=False, description="US dollars, 0 or more")
    """Of what it says, its reasoning included."""
    cached_input: float | None = Field(
        default=None, ge=0, allow_inf_nan=False, description="US dollars, 0 or more"
    )
    """Of input that the provider had kept; as `input` where it is left out."""


class ModelSpec(Shape):
    """One language model: what it is called, who serves it, and how it is asked."""

    model: Words = Field(description="a model's name, as its provider spells it")
    """Which model is asked; of `source: offline`, which script."""
    source: SourceName = Field(description="who serves the model, such as `openai` or `offline`")
    """Where the model is reached, by a well-known name; any other word needs a `base_url`.
    `anthropic` speaks Anthropic's protocol, `offline` is a script, all else speaks OpenAI's."""
    apikey: Secret | None = Field(
        default=None, exclude=True, description='the name of a variable, written "${NAME}"'
    )
    """The key, looked up in the environment and then in `.env` when a call is made. A server of
    your own may need none."""
    base_url: Url | None = Field(default=None, description="an address, `https://host/path`")
    """Where the model is reached: up to what comes before `/chat/completions` or
    `/v1/messages`. Left out, the public address of `source`."""
    extra_headers: Section[Mapping[HeaderName, Secret]] = Field(
        default_factory=dict, description="names of headers, each with text"
    )
    """Sent with each request, and kept as secret as the key; `${NAME}` is looked up in it."""
    params: Section[Params] = Field(default_factory=Params, description="keys and values")
    """What is asked with each request. What you do not state is not sent."""
    extra_body: Section[Mapping[str, Any]] = Field(
        default_factory=dict, description="keys and values"
    )
    """What is put into the body of each request as it is, beside what is sent anyway. `${NAME}` is
    looked up in it as for keys."""
    served_model: Served = Field(default="any", description="`any` or `same`")
    """Whose replies are taken: of any model that the server lets answer, or only of this one."""
    served_as: ModelNames = Field(
        default=(), description="a model's name, or a list of them, as the server writes it"
    )
    """What else a server calls this model."""
    price: PriceSpec | None = Field(
        default=None, description="`input` and `output`, in US dollars for a million tokens"
    )
    """Left out, what its provider says that a call cost, else the published price; where there is
    neither, the cost is unknown, never zero."""

    @field_serializer("extra_headers")
    def _names_only(self, headers: Mapping[str, Secret]) -> list[str]:
        return sorted(headers)

    @property
    def sent_headers(self) -> Mapping[str, Secret]:
        """What a person wants every request to carry."""
        return self.extra_headers

    @property
    def sent_body(self) -> Mapping[str, Any]:
        """What a person wants every request to hold."""
        return self.extra_body

    @property
    def is_offline(self) -> bool:
        return self.source == OFFLINE

    @property
    def is_remote(self) -> bool:
        """Whether it is reached over HTTP, and so has an address."""
        return self.source not in {OFFLINE, PYTHON}

    @property
    def is_application(self) -> bool:
        """Whether it is no bare model, but something around one."""
        return self.source in APPLICATIONS

    @property
    def label(self) -> str:
        """What people call it on screens and in files; a script or an application is plainly so."""
        is_bare = self.source not in _NAMED_BY_SOURCE
        return self.model if is_bare else f"{self.source}:{self.model}"


class UserModel(ModelSpec):
    """The language model that plays the person."""

    stance: GivenStance = Field(
        default=Stance.ADVERSARIAL, description="`adversarial` or `neutral`"
    )
    """What it is after: the hidden goal, by the scenario's landmarks, or no more than what the
    person openly wants. `neutral` is told of no hidden goal, metric or landmark."""

    def in_stance(self, stance: Stance) -> UserModel:
        return self.model_copy(update={"stance": stance})

    def replaced_by(self, spec: ModelSpec) -> UserModel:
        """Another model in this stance."""
        same = {name: getattr(spec, name) for name in ModelSpec.model_fields}
        return UserModel.model_construct(spec.model_fields_set, **same, stance=self.stance)


class Target(ModelSpec):
    """A language model that is measured, or an application around one."""

    id: Name = Field(description="a short name of your choice")
    """What the target is called in ids, folders and tables. Another id is another target."""
    system_prompt: str | None = Field(default=None, description="text; empty sends none")
    """What this target is told before a conversation, where the scenario says nothing else; an
    empty text sends no system prompt. Without it, what the benchmark says, or the default."""
    url: Url | None = Field(default=None, description="an address, `https://host/path`")
    """Of `source: http`: where each message is posted."""
    request: Mapping[str, Any] | None = Field(default=None, description="keys and values")
    """Of `source: http`: the body, with `$messages` or `$message` in it; `$system`, `$session` and
    `$model` where they belong. `${NAME}` is looked up in it as for keys."""
    reply: JsonPath | None = Field(default=None, description="a path such as `choices.0.text`")
    """Of `source: http`: where the reply stands in the answer's JSON."""
    stream: StreamPath = Field(default=None, description="a path such as `delta.text`, or `none`")
    """Of `source: http`: where a piece of the reply stands in the JSON of each server-sent event.
    Left out, the answer comes whole."""
    headers: Section[Mapping[HeaderName, Secret]] = Field(
        default_factory=dict, description="names of headers, each with text"
    )
    """Of `source: http`: sent with each request, and kept secret; `${NAME}` is looked up in it."""
    session: Session = Field(default=EACH_MESSAGE, description="`none` or `per conversation`")
    """Of `source: http`: `per conversation` sends each new message alone, under a `$session` of
    its own for each conversation."""
    session_from: SessionPath | None = Field(
        default=None, description="a path such as `conversation.id`, or `header NAME`"
    )
    """Of `session: per conversation`: where each answer says what the application calls the
    conversation. The first message then goes without `$session`, each other one with what was said
    last."""

    call: Call | None = Field(default=None, description="`package.module:function`")
    """Of `source: python`: the function that replies, found in the workspace's folder first."""
    processes: int = Field(default=4, ge=1, le=256, description="a whole number from 1 to 256")
    """Of `source: python`: in how many processes at most, each of which makes one call at a
    time."""

    @property
    def keeps_session(self) -> bool:
        """Whether the application itself remembers what was said."""
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


class Condition(Shape):
    """A way in which every target is measured: the same model under another system prompt."""

    id: Name = Field(description="a short name of your choice")
    """What stands behind the target's id and a dot: `gpt.strict`."""
    system_prompt: str | None = Field(default=None, description="text; empty sends none")
    """What every target is told in it, in place of its own; an empty text sends no system prompt.
    Without it, each target as it is."""


class ConcurrencySettings(Shape):
    """How many rows of a stage are worked on at once."""

    gen_scenarios: int = Field(
        default=5, ge=1, le=10_000, description="a whole number from 1 to 10000"
    )
    """Metrics whose scenarios are written, and variants that are rewritten."""
    simulate: int = Field(default=10, ge=1, le=10_000, description="a whole number from 1 to 10000")
    """Conversations that are spoken."""
    evaluate: int = Field(default=20, ge=1, le=10_000, description="a whole number from 1 to 10000")
    """Conversations that are judged."""


class RunSettings(Shape):
    """How a run behaves where the command line does not say otherwise."""

    force: bool = Field(default=False, description="true or false")
    """Do everything again, as `--force`."""
    dry_run: bool = Field(default=False, description="true or false")
    """Count calls and ask no model anything, as `--dry-run`."""
    verbose: bool = Field(default=False, description="true or false")
    """Taken because files of ImpactBench have it; it changes nothing."""
    budget: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="US dollars, above 0"
    )
    """What one run may cost. It stops before it costs more."""
    concurrency: Section[ConcurrencySettings] = Field(
        default_factory=ConcurrencySettings, description="keys and values"
    )
    """At most so much at once. A provider that takes less is asked less."""


class GenerationSettings(Shape):
    """How much is made of each metric."""

    scenarios_per_metric: int = Field(
        default=3, ge=1, le=999, description="a whole number from 1 to 999"
    )
    """Base scenarios of each metric. Intervals rest on how many there are: more of them make more
    sure, more samples hardly do."""
    turns: int = Field(default=6, ge=1, le=200, description="a whole number from 1 to 200")
    """How often the person speaks at most; the target answers each time."""
    num_samples: int = Field(default=1, ge=1, le=1_000, description="a whole number from 1 to 1000")
    """How often each conversation is played: 2 or more show how steady a target is."""


class EvaluationSettings(Shape):
    """How finished conversations are judged."""

    passes: int = Field(default=1, ge=1, le=9, description="a whole number from 1 to 9")
    """How often each judge is asked about a conversation."""


class ValidationSettings(Shape):
    """How validation runs are read."""

    equivalence_points: float = Field(
        default=10, gt=0, lt=100, allow_inf_nan=False, description="points, above 0 and below 100"
    )
    """By how much a difference between two targets may change for their order to hold; kept when a
    validation run begins."""


class CheckSettings(Shape):
    """Cheap calls that look at finished conversations, beside the evaluator; none by default."""

    groups: bool = Field(default=False, description="true or false")
    """Whether a model guesses the demographic group from the user's messages alone."""
    landmarks: bool = Field(default=False, description="true or false")
    """Whether a model says of each delivered landmark if the user model carried it out."""
    model: Name | None = Field(default=None, description="a name in `models`, or a target's id")
    """Who is asked; the evaluator, or the first of several, without one."""

    @property
    def kinds(self) -> tuple[CheckKind, ...]:
        """The checks that are made of each finished conversation."""
        asked = {CheckKind.GROUPS: self.groups, CheckKind.LANDMARKS: self.landmarks}
        return tuple(kind for kind, is_made in asked.items() if is_made)


class Config(Shape):
    """The whole of `config.yaml`, checked."""

    run: Section[RunSettings] = Field(default_factory=RunSettings, description="keys and values")
    """How a run behaves: its budget, and how much is done at once."""
    user_model: UserModel = Field(
        description="the keys of the model that plays the user: `model`, `source`, …"
    )
    """Plays the person: writes their messages, one at a time."""
    evaluator_model: ModelSpec = Field(
        description="the keys of the model that judges: `model`, `source`, …"
    )
    """Judges each finished conversation. With `evaluators` it is left out: it is the first of
    them."""
    evaluators: Several[ModelSpec] | None = Field(
        default=None, description="a list of models that judge, or of names from `models`"
    )
    """Several judges in place of `evaluator_model`: each judges every conversation, the majority
    counts, and a tie is unscored."""
    evaluation: Section[EvaluationSettings] = Field(
        default_factory=EvaluationSettings, description="keys and values"
    )
    """How often each judge is asked."""
    generator_model: ModelSpec | None = Field(
        default=None, description="the keys of the model that writes metrics and scenarios"
    )
    """Writes metrics and scenarios. Left out, the user model does."""
    generation: Section[GenerationSettings] = Field(
        default_factory=GenerationSettings, description="keys and values"
    )
    """How many scenarios, turns and samples."""
    demographics: Section[Mapping[Words, Several[Words]]] = Field(
        default_factory=dict, description="axes, each with a list of values"
    )
    """Every scenario is rewritten for each combination of the values, so that people of different
    groups meet the same situation. Without any, each scenario is played once."""
    perfunctory: bool = Field(default=False, description="true or false")
    """The person types hastily: short, with slips and half sentences."""
    landmarks: bool = Field(default=True, description="true or false")
    """Whether the person is told turn by turn what to do; `false` gives them the whole plan at
    once."""
    user_audit: GivenUserAudit = Field(
        default=UserAuditMode.FLAG, description="`off`, `flag` or `invalidate`"
    )
    """What is done about a user model that did not do its part: `flag` shows and counts such
    conversations, `invalidate` counts them as unscored, `off` does not look."""
    checks: Section[CheckSettings] = Field(
        default_factory=CheckSettings, description="keys and values"
    )
    """Cheap calls that look at finished conversations beside the judges."""
    review: GivenReview = Field(
        default=ReviewMode.OPTIONAL, description="`required`, `optional` or `off`"
    )
    """Whether people approve what a model wrote: `required` plays no conversation from a metric or
    scenario that nobody approved, `off` says nothing of it."""
    people: GivenPeople = Field(
        default=People.COMPARE, description="`compare`, `vote` or `overrule`"
    )
    """What people's verdicts do to what counts: `compare` holds the judges against them, `vote`
    makes each one more vote, `overrule` lets theirs alone count where there are any."""
    validation: Section[ValidationSettings] = Field(
        default_factory=ValidationSettings, description="keys and values"
    )
    """How validation runs are read."""
    targets: Several[Target] = Field(description="a list of the models to measure, at least one")
    """The models that are measured, each with an `id` of its own."""
    conditions: Listed[Condition] = Field(
        default=(), description="a list of conditions, each with an `id`"
    )
    """System prompts that all targets are crossed with: with two of them each target is measured
    twice, as `<target>.<condition>`, and no more by its bare id."""
    models: Section[Mapping[Name, ModelSpec]] = Field(
        default_factory=dict, description="names, each with the keys of a model"
    )
    """More models, by names for `evaluators`, `evaluate --evaluator`, `validate --with`."""
    workspace_budget: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="US dollars, above 0"
    )
    """What all runs of the workspace together may cost. No call is made beyond it."""
    store: Words | None = Field(default=None, description="a path")
    """Where the store is kept, seen from the workspace; a path that ends with `/` is a folder. It
    must be on a local disk. Left out, `crosswind.db` beside `config.yaml`."""
    default_system_prompt: Words = Field(default="You are a helpful assistant.", description="text")
    """What a target is told first where neither the scenario nor the benchmark says anything."""

    _path: Path = PrivateAttr(default=Path("config.yaml"))
    _warnings: tuple[str, ...] = PrivateAttr(default=())

    def model_post_init(self, context: object) -> None:
        """Remember the file, where there is one."""
        if isinstance(context, YamlDocument):
            self._path = context.path
            self._warnings = warnings_of(context)

    @property
    def has_pressure(self) -> bool:
        """Whether a conversation can come to a second landmark."""
        return self.landmarks and self.generation.turns > 1

    @property
    def path(self) -> Path:
        return self._path

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is allowed, but a person will want to know."""
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
        """The judges and passes whose verdicts count, as the configuration has them."""
        labels = tuple(judge.label for judge in self.judges)
        return Jury(labels, self.evaluation.passes, self.people)

    @property
    def checker(self) -> ModelSpec:
        """The model that makes the checks. Raises `InputError` where its name names nothing."""
        name = self.checks.model
        return self.judges[0] if name is None else self.model_named(name)

    @property
    def helpers(self) -> tuple[ModelSpec, ...]:
        """Every model but the targets that a run asks."""
        others = (self.user_model, *self.judges, self.generator)
        return (*others, self.checker) if self.checks.kinds else others

    def model_named(self, name: str) -> ModelSpec:
        """A model by its name in `models`, or a target by its id. Raises `InputError`."""
        models = [target for target in self.targets if not target.is_application]
        known: dict[str, ModelSpec] = {target.id: target for target in models}
        for target in models:
            for condition in self.conditions:
                # a target that is crossed with conditions is one model in all of them
                known.setdefault(target.id.removesuffix(f".{condition.id}"), target)
        known |= self.models
        if name in known:
            return known[name]
        what = f"no model is called `{shown(name)}`, expected a name in `models` or a target's id"
        raise InputError(Problem(what, self.path, hint=did_you_mean(name, known)))

    def at_pace(self, pace: Pace) -> Config:
        """This configuration with its scripted models speaking at this pace."""

        def paced(spec: _Spec) -> _Spec:
            if not spec.is_offline:
                return spec
            return spec.model_copy(update={"params": spec.params.model_copy(update={"pace": pace})})

        return self.model_copy(
            update={
                "user_model": paced(self.user_model),
                "evaluator_model": paced(self.evaluator_model),
                "evaluators": self.evaluators and tuple(map(paced, self.evaluators)),
                "generator_model": paced(self.generator),
                "targets": tuple(paced(target) for target in self.targets),
                "models": {name: paced(spec) for name, spec in self.models.items()},
            }
        )

    def public(self) -> dict[str, Any]:
        """All of it, ready for JSON, without keys and with no more than the names of headers."""
        return self.model_dump(mode="json")


def config_of(config: Config, benchmark: str) -> Config:
    """What a benchmark or a branch runs under.

    Raises `InputError` for a branch whose model is not in the configuration any more.
    """
    branch = Branch.parse(benchmark)
    if branch is not None and branch.stance is not None:
        return config.model_copy(update={"user_model": config.user_model.in_stance(branch.stance)})
    if branch is None or branch.model is None:
        return config
    model = config.model_named(branch.model)
    match branch.swap:
        case Role.USER:
            # whoever writes metrics and scenarios stays, also where that was the user model
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


def load_config(path: Path, *, offline_models: Collection[str] = OFFLINE_MODELS) -> Config:
    """Read and check a `config.yaml`. Raises `InputError` with every problem found."""
    # nothing that could hold a key in this frame: tracebacks can show variables
    found = _checked(read_yaml(path), offline_models)
    if isinstance(found, Config):
        return found
    raise InputError(found)


def _checked(written: YamlDocument, offline_models: Collection[str]) -> Config | list[Problem]:
    document, named = with_judges(with_names(current_words(written)))
    problems = [*contradictions(written, offline_models), *named]
    try:
        config = Config.model_validate(document.data, context=written)
    except ValidationError as error:
        found = problems_of(error, document, Config)
        problems += [problem for problem in found if not is_borrowed(problem, written)]
    else:
        if not problems:
            return config.model_copy(update={"targets": tuple(_crossed(config))})
    return in_file_order(problems)


def _crossed(config: Config) -> Iterator[Target]:
    """Each target in each condition; as they are where there is none."""
    for target in config.targets:
        for one in config.conditions:
            own = target.system_prompt if one.system_prompt is None else one.system_prompt
            crossed = crossed_id(target.id, one.id)
            yield target.model_copy(update={"id": crossed, "system_prompt": own})
        if not config.conditions:
            yield target
