"""Problems between several values of `config.yaml`, its judges among them.

They are found in the plain data, not in the validated shapes, so that they are reported together
with those of the shapes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from engine.benchmark import AnswerForm, name_fault
from engine.config.applications import APPLICATIONS, application_problems, source_of
from engine.config.faults import doubles
from engine.config.secrets import (
    VARIABLE,
    Environment,
    Secret,
    miswritten_variable,
    texts_in,
)
from engine.config.values import (
    KNOWN_SOURCES,
    LOCAL,
    OFFLINE,
    OFFLINE_MODELS,
    extra_body_problems,
)
from engine.config.wording import did_you_mean, nearest_word, quotable
from engine.config.yaml_text import NO_BREAK_SPACE, KeyPath, YamlDocument, dotted_path
from engine.errors import InputError, Problem
from engine.local_models import KNOWN_MODELS, is_file_name
from engine.trust import NOWHERE

MAX_VARIANTS: Final = 1_000
"""The most demographic combinations; each is a rewriting call for every base scenario, and a
conversation for every target and sample."""

PINPOINT: Final = "pinpoint"
"""What ImpactBench calls `landmarks`."""
_OF_A_TARGET: Final = frozenset({"id", "system_prompt"})
"""Keys of a target that do not describe its model."""
_ROLES: Final = ("user_model", "evaluator_model", "generator_model")
_PREFIX: Final = "openai/"
_REFERRING: Final = ("model", "apikey", "base_url")
"""Keys of a model whose texts may refer to variables."""
_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
SECRET_HEADER: Final = re.compile("auth|key|token|secret|cookie", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class _WrittenModel:
    """The keys of one model, as they are written. Without a `repr`, as they may hold a key."""

    at: KeyPath
    keys: dict[str, Any]

    def text(self, key: str) -> str | None:
        value = self.keys.get(key)
        return value if isinstance(value, str) else None


def with_sent_names(document: YamlDocument) -> YamlDocument:
    """The document with the names of models as they are sent."""
    document = replace(document, data=deepcopy(document.data))
    for spec in _specs(document):
        if (name := _sent_name(spec)) is not None:
            spec.keys["model"] = name
    return document


def _sent_name(spec: _WrittenModel) -> str | None:
    """The name without the provider that ImpactBench puts before it and does not send; None where
    it has none. A source that is not `openai` keeps its names, as those of OpenRouter begin so."""
    name = spec.text("model") or ""
    bare = name.removeprefix(_PREFIX)
    is_openai = (spec.text("source") or "").strip().lower() == "openai"
    return bare if is_openai and bare not in {"", name} else None


def with_names_resolved(document: YamlDocument, environment: Environment) -> YamlDocument:
    """The document with variables in the names of scripts filled in, which must be known. Any other
    name stays as it is written, as it may hold what is secret. So do those whose variables are not
    set, for whoever opens the model."""
    document = replace(document, data=deepcopy(document.data))
    for spec in _specs(document):
        name = spec.text("model")
        is_script = (spec.text("source") or "").strip().lower() == OFFLINE
        if name is not None and is_script and VARIABLE.search(name):
            with suppress(InputError):
                spec.keys["model"] = environment.resolve(name, where="model", to=NOWHERE)
    return document


def contradictions(document: YamlDocument) -> list[Problem]:
    """Every problem between values, or in how YAML reads them."""
    problems = [*_surprising_numbers(document)]
    for spec in _specs(document):
        problems += _spec_problems(spec, document)
    targets = document.data.get("targets")
    ids = [
        (("targets", n, "id"), target.get("id"))
        for n, target in enumerate(targets if isinstance(targets, list) else [])
        if isinstance(target, dict)
    ]
    problems += doubles(ids, document, "two targets have this id")
    problems += doubles(_keys(document, "models"), document, "two models have this name")
    problems += _condition_problems(document)
    problems += _check_problems(document)
    return problems + _demographic_problems(document)


def _surprising_numbers(document: YamlDocument) -> Iterator[Problem]:
    """YAML reads `010` as eight and `1:30` as ninety, which is never intended here."""
    for at, written in document.written.items():
        value = document.value(at)
        # not `isinstance`: in Python, booleans are integers
        if type(value) is int and not _DECIMAL.fullmatch(written):
            what = f"YAML reads `{quotable(written)}` as the number {value}"
            yield document.problem(at, what, hint="write a plain number, or put it in quotes")


def _specs(document: YamlDocument) -> Iterator[_WrittenModel]:
    places: list[KeyPath] = [(role,) for role in _ROLES]
    for section in ("evaluators", "targets", "models"):
        match document.data.get(section):
            case list() as members:
                places += [(section, n) for n in range(len(members))]
            case dict() as members:
                places += [(section, name) for name in members]
            case _:
                pass
    for at in places:
        keys = document.value(at)
        if isinstance(keys, dict):
            yield _WrittenModel(at, keys)


def _spec_problems(spec: _WrittenModel, document: YamlDocument) -> Iterator[Problem]:
    yield from _reference_problems(spec, document)
    at = (*spec.at, "extra_body")
    yield from extra_body_problems(spec.keys.get("extra_body"), at, document)
    yield from application_problems(spec.at, spec.keys, document)
    yield from _batch_problems(spec, document)
    source, model = source_of(spec.keys), spec.text("model")
    if spec.keys.get("api") is not None and source in _NOT_OPENAIS:
        what = f"`source: {source}` speaks neither of the two protocols of OpenAI"
        hint = "delete it, or name a source that does"
        yield document.problem((*spec.at, "api"), what, hint=hint, of_key=True)
    # the schema reports that it is missing; the rest depends on it
    if not source:
        return
    if source == OFFLINE:
        if model and model not in OFFLINE_MODELS:
            what = f"there is no offline model `{quotable(model)}`"
            hint = did_you_mean(model, OFFLINE_MODELS)
            yield document.problem((*spec.at, "model"), what, hint=hint)
        if spec.keys.get("form") == AnswerForm.PLAIN:
            what = "scripts know who they play by the JSON that they are asked for"
            yield document.problem((*spec.at, "form"), what, hint="delete it", of_key=True)
        return
    if source in APPLICATIONS:
        return
    if source == LOCAL:
        yield from _local_problems(spec, model, document)
    if source not in KNOWN_SOURCES and spec.keys.get("base_url") is None:
        yield document.problem(
            (*spec.at, "source"),
            f"the source `{quotable(source)}` is not known, so it needs a `base_url`",
            hint=_source_hint(source),
        )
    params = spec.keys.get("params")
    if isinstance(params, dict) and params.get("pace") is not None:
        what = "only offline models have a pace"
        yield document.problem((*spec.at, "params", "pace"), what, hint="delete it", of_key=True)


def _reference_problems(spec: _WrittenModel, document: YamlDocument) -> Iterator[Problem]:
    """Texts that would be sent as they stand, although they mean a variable or an address."""
    texts: dict[KeyPath, object] = {(key,): spec.keys.get(key) for key in _REFERRING}
    for section in ("extra_headers", "headers"):
        headers = spec.keys.get(section)
        if isinstance(headers, dict):
            texts |= {(section, name): value for name, value in headers.items()}
    texts |= dict(texts_in(spec.keys.get("extra_body"), ("extra_body",)))
    for at, text in texts.items():
        if not isinstance(text, str):
            continue
        name = miswritten_variable(text)
        # in the headers of an application, `$model` and the like are placeholders; a body may hold
        # any text
        if name is not None and (at[0] not in {"headers", "extra_body"} or name.isupper()):
            what = "a variable is written with braces, and nothing else is in them"
            hint = f"did you mean `${{{name}}}`?"
            yield document.problem((*spec.at, *at), what, hint=hint)
        elif NO_BREAK_SPACE in text and at[0] != "extra_body":
            what = "there is a no-break space in it, which looks like a space"
            yield document.problem((*spec.at, *at), what, hint="delete it")


def _local_problems(
    spec: _WrittenModel, model: str | None, document: YamlDocument
) -> Iterator[Problem]:
    is_name = model and not VARIABLE.search(model) and not is_file_name(model)
    if model and is_name and model not in KNOWN_MODELS:
        what = f"there is no local model `{quotable(model)}`"
        hint = f"write {', '.join(KNOWN_MODELS)}, or the path of a GGUF file"
        yield document.problem((*spec.at, "model"), what, hint=hint)
    for key in ("base_url", "apikey", "extra_headers"):
        if spec.keys.get(key) is not None:
            what = f"`source: {LOCAL}` does not have this key: Crosswind runs the model itself"
            yield document.problem((*spec.at, key), what, hint="delete it", of_key=True)


def _batch_problems(spec: _WrittenModel, document: YamlDocument) -> Iterator[Problem]:
    if not spec.keys.get("batch"):
        return
    what = None
    if spec.at[0] in {"targets", "user_model"}:
        what = "each turn of a conversation waits for the one before it, and a batch takes a day"
    elif source_of(spec.keys) in {OFFLINE, LOCAL, *APPLICATIONS}:
        what = "only models of a provider that has batches can be asked in them"
    if what is not None:
        yield document.problem((*spec.at, "batch"), what, hint="delete it", of_key=True)
    extra = spec.keys.get("extra_body")
    if isinstance(extra, dict) and "service_tier" in extra:
        what = "a batch has no service tier: choose one of the two"
        yield document.problem((*spec.at, "batch"), what, hint="delete it", of_key=True)


_NOT_OPENAIS: Final = frozenset({OFFLINE, LOCAL, "anthropic", *APPLICATIONS})


def _source_hint(source: str) -> str:
    meant = nearest_word(source, KNOWN_SOURCES)
    if meant is not None:
        return f"did you mean `{meant}`?"
    return f"add the address, or use one of: {', '.join(sorted(KNOWN_SOURCES))}"


def _keys(document: YamlDocument, section: str) -> list[tuple[KeyPath, object]]:
    mapping = document.data.get(section)
    return [((section, key), key) for key in mapping] if isinstance(mapping, dict) else []


def crossed_id(target: str, condition: str) -> str:
    """The id of a target in a condition."""
    return f"{target}.{condition}"


def _condition_problems(document: YamlDocument) -> Iterator[Problem]:
    conditions = list(_ids(document, "conditions"))
    yield from doubles(conditions, document, "two conditions have this id")
    first: dict[str, tuple[str, str]] = {}
    for (_, target), (at, condition) in product(_ids(document, "targets"), conditions):
        name = crossed_id(target, condition)
        if fault := name_fault(name):
            what = f"with the target `{quotable(target)}` this makes a name that cannot be: {fault}"
            yield document.problem(at, what, hint="choose a shorter one")
        known = first.setdefault(name.casefold(), (target, condition))
        if known[1] != condition:
            what = (
                f"`{quotable(name)}` is the target `{quotable(target)}` in this condition, and "
                f"also `{quotable(known[0])}` in `{quotable(known[1])}`"
            )
            yield document.problem(at, what, hint="choose another id")


def _ids(document: YamlDocument, section: str) -> Iterator[tuple[KeyPath, str]]:
    listed = document.data.get(section)
    for number, entry in enumerate(listed if isinstance(listed, list) else []):
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            yield (section, number, "id"), entry["id"]


def _check_problems(document: YamlDocument) -> Iterator[Problem]:
    checks = document.data.get("checks")
    if not isinstance(checks, dict):
        return
    name, known = checks.get("model"), named_models(document)
    if isinstance(name, str) and name not in known:
        yield nobody_called(document, ("checks", "model"), name, known)
    is_off = document.data.get("user_audit") in {"off", False}
    if checks.get("landmarks") is True and is_off:
        what = "this looks for faults of the user model, and `user_audit: off` says not to look"
        hint = "write `user_audit: flag`, or delete this"
        yield document.problem(("checks", "landmarks"), what, hint=hint, of_key=True)


def named_models(document: YamlDocument) -> Mapping[str, Any]:
    """The models by name: targets by their ids, and those in `models`."""
    targets, models = document.data.get("targets"), document.data.get("models")
    return {
        target["id"]: {key: value for key, value in target.items() if key not in _OF_A_TARGET}
        for target in (targets if isinstance(targets, list) else [])
        if isinstance(target, dict)
        and isinstance(target.get("id"), str)
        and source_of(target) not in APPLICATIONS
    } | {
        name: spec
        for name, spec in (models.items() if isinstance(models, dict) else ())
        if isinstance(name, str)
    }


def nobody_called(
    document: YamlDocument, at: KeyPath, name: str, known: Mapping[str, Any]
) -> Problem:
    """The problem of a name that is no model's."""
    what = f"no model is called `{quotable(name)}`, expected a name in `models` or a target's id"
    return document.problem(at, what, hint=did_you_mean(name, known))


def _demographic_problems(document: YamlDocument) -> list[Problem]:
    axes = document.data.get("demographics")
    if not isinstance(axes, dict):
        return []
    problems = list(doubles(_keys(document, "demographics"), document, "two axes have this name"))
    lists = {axis: values for axis, values in axes.items() if isinstance(values, list)}
    for axis, values in lists.items():
        words = [(("demographics", axis, n), value) for n, value in enumerate(values)]
        problems += doubles(words, document, "this value stands here twice")
    variants = math.prod(len(values) for values in lists.values())
    if variants > MAX_VARIANTS:
        what = f"these axes have {variants:,} combinations, expected at most {MAX_VARIANTS:,}"
        hint = "each is a scenario of its own; use fewer axes or values"
        problems.append(document.problem(("demographics",), what, hint=hint, of_key=True))
    return problems


def warnings_of(document: YamlDocument) -> tuple[str, ...]:
    """Notes about what is allowed, but probably not intended. They never show a value."""
    warnings = []
    if PINPOINT in document.data:
        what = "is the old name of `landmarks`; please rename it"
        warnings.append(_warning(document, (PINPOINT,), what))
    if document.value(("run", "verbose")) is True:
        what = "changes nothing: it is read because files of ImpactBench have it"
        warnings.append(_warning(document, ("run", "verbose"), what))
    for spec in _specs(document):
        warnings += _secret_warnings(spec, document)
        if (name := _sent_name(spec)) is not None:
            what = f"is sent as `{quotable(name)}`; if the server's name begins with `{_PREFIX}`, "
            what += "write another word for `source` beside its `base_url`"
            warnings.append(_warning(document, (*spec.at, "model"), what))
        warnings += _end_warnings(spec, document)
    warnings += _equal_targets(document)
    return tuple(warnings)


_NOT_ASKED: Final = frozenset({"id", "apikey", "price", "served_as", "served_model"})
"""Keys of a target on which no request depends."""


def _equal_targets(document: YamlDocument) -> Iterator[str]:
    """A note for each target that is asked as an earlier one is."""
    targets, first = document.data.get("targets"), dict[str, object]()
    for place, target in enumerate(targets if isinstance(targets, list) else ()):
        if isinstance(target, dict):
            asked = {key: value for key, value in target.items() if key not in _NOT_ASKED}
            asked["source"] = source_of(target)
            earlier = first.setdefault(json.dumps(asked, sort_keys=True, default=str), target)
            if earlier is not target and isinstance(earlier, dict):
                what = f"is asked with the same requests as `{quotable(str(earlier.get('id')))}`: "
                what += "they are one target, played several times"
                yield _warning(document, ("targets", place, "id"), what)


def _end_warnings(spec: _WrittenModel, document: YamlDocument) -> Iterator[str]:
    """A note of a model that its own provider stops to serve."""
    name, source = spec.text("model"), spec.text("source")
    if name is None or source is None or spec.text("base_url") is not None:
        return
    if (end := model_end(source.strip().lower(), name)) is not None:
        what = f"ends on {end.day}, as {end.told_by} says: what it has said cannot be played again "
        what += "after that"
        yield _warning(document, (*spec.at, "model"), what)


def _secret_warnings(spec: _WrittenModel, document: YamlDocument) -> Iterator[str]:
    advice = 'put it into .env and write its variable here, as in "${OPENAI_API_KEY}"'
    key = spec.text("apikey")
    if key is not None and not Secret(key).is_reference:
        yield _warning(document, (*spec.at, "apikey"), f"holds a key in plain text; {advice}")
    for section in ("extra_headers", "headers"):
        headers = spec.keys.get(section)
        for name, value in headers.items() if isinstance(headers, dict) else ():
            if SECRET_HEADER.search(name) and not Secret(value).variables:
                at = (*spec.at, section, name)
                yield _warning(document, at, f"seems to hold a key in plain text; {advice}")
    if key is not None and _is_open_to_all(spec.text("base_url") or ""):
        what = "is http and not https: the key goes over the network for all to read"
        yield _warning(document, (*spec.at, "base_url"), what)


def _is_open_to_all(url: str) -> bool:
    parts = urlsplit(url)
    at_home = {"localhost", "127.0.0.1", "::1"}
    return parts.scheme == "http" and parts.hostname not in at_home


def _warning(document: YamlDocument, at: KeyPath, what: str) -> str:
    return f"{document.path}:{document.key_place(at).line}: {dotted_path(at)} {what}"


TABLE: Final = Path(__file__).with_name("model_ends.txt")
SOURCES: Final = frozenset({"openai", "anthropic"})
"""The sources whose clients say it, of models at their own addresses."""


class ModelEnd(NamedTuple):
    day: str
    """As `2027-01-14`."""
    told_by: str
    """The client that says so, with its version."""


def model_end(source: str, name: str) -> ModelEnd | None:
    """When a source stops to serve a model, or has stopped; None if that is not known."""
    return _ends().get((source, name)) if source in SOURCES else None


@cache
def _ends() -> dict[tuple[str, str], ModelEnd]:
    ends: dict[tuple[str, str], ModelEnd] = {}
    told_by = ""
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("#"):
            told_by = line.removeprefix("# ")
        else:
            source, name, day = line.split()
            ends[source, name] = ModelEnd(day, told_by)
    return ends


ONE: Final = "evaluator_model"
SEVERAL: Final = "evaluators"

_STAND_IN: Final = {"model": "unknown", "source": "openai"}
"""Stands in for an unknown name, which is reported separately."""


def with_judges(document: YamlDocument) -> tuple[YamlDocument, list[Problem]]:
    """The document with each name in `evaluators` replaced by its model and the first judge as the
    `evaluator_model`; and the problems of `evaluators`."""
    written_judges = document.data.get(SEVERAL)
    if not isinstance(written_judges, list):
        return document, []
    problems = _exclusive_keys(document)
    known = named_models(document)
    judges: list[Any] = []
    for number, written in enumerate(written_judges):
        if isinstance(written, str):
            if written not in known:
                problems.append(nobody_called(document, (SEVERAL, number), written, known))
            judges.append(known.get(written, _STAND_IN))
        else:
            judges.append(written)
    problems += _duplicate_judges(document, judges)
    data = {**document.data, SEVERAL: judges}
    if judges:
        data.setdefault(ONE, judges[0])
    return replace(document, data=data), problems


def is_borrowed(problem: Problem, written: YamlDocument) -> bool:
    """Whether a problem is in a model that is written elsewhere, and is reported there."""
    key = problem.key or ""
    judges = written.data.get(SEVERAL)
    if key.startswith(ONE) and ONE not in written.data:
        return judges is not None
    return any(
        key.startswith(f"{SEVERAL}[{number}].")
        for number, judge in enumerate(judges if isinstance(judges, list) else [])
        if isinstance(judge, str)
    )


def _exclusive_keys(document: YamlDocument) -> list[Problem]:
    if ONE not in document.data:
        return []
    what = f"this stands beside `{SEVERAL}`, expected one of the two"
    hint = f"delete it, or write it as one of `{SEVERAL}`"
    return [document.problem((ONE,), what, hint=hint, of_key=True)]


def _duplicate_judges(document: YamlDocument, judges: list[Any]) -> list[Problem]:
    """A problem for each judge whose model another has, as verdicts are told apart by the model."""
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
                f"two judges have the model `{quotable(model)}` (first as "
                f"{SEVERAL}[{known}]), and their verdicts could not be told apart"
            )
            hint = "to ask one judge several times, write `evaluation: {passes: 2}`"
            problems.append(document.problem((SEVERAL, number), what, hint=hint))
    return problems
