"""Single values of the configuration and the messages for invalid ones; the known sources, and the
names of the offline models."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from ipaddress import ip_address
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from engine.addresses import PUBLIC_ADDRESSES
from engine.benchmark import AnswerForm, Stance, name_fault
from engine.checks import UserAuditMode
from engine.config.faults import kind_of
from engine.config.secrets import VARIABLE, Environment
from engine.config.wording import either_of, nearest_word, quotable
from engine.config.yaml_text import KeyPath, YamlDocument
from engine.errors import Problem
from engine.json_template import FROM_HEADER, path_fault
from engine.jury import People
from engine.people import ReviewMode
from engine.scripted import Pace

OFFLINE: Final = "offline"
HTTP: Final = "http"
"""An application over HTTP, called with its target's `request`."""
PYTHON: Final = "python"
"""A function of the workspace, named by its target's `call`."""

LOCAL: Final = "local"
"""A language model whose file is on this machine, and which Crosswind runs itself."""

OFFLINE_MODELS: Final = frozenset(
    {
        "generator",
        "generator-terse",
        "user",
        "user-blunt",
        "steadfast",
        "erratic",
        "pushover",
        "evaluator",
        "evaluator-strict",
    }
)
"""Scripts in place of language models; they need no key and cost nothing."""
OFFLINE_JUDGES: Final = frozenset({"evaluator", "evaluator-strict"})
"""The scripts that are written to judge."""

KNOWN_SOURCES: Final = frozenset({OFFLINE, LOCAL, *PUBLIC_ADDRESSES})
"""Sources whose address is known; any other needs a `base_url`."""


EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SERVED: Final = ("any", "same")
_NO_STREAM: Final = "none"
EACH_MESSAGE: Final = "none"
PER_CONVERSATION: Final = "per conversation"
SESSIONS: Final = (EACH_MESSAGE, PER_CONVERSATION)
_NO_ADDRESS: Final = "this is no address, expected `https://host/path`"


class Shape(BaseModel):
    """The base of every shape: no unknown keys, no type coercion, no input in error messages."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("found empty text, expected some words")
    return text


def _safe_name(name: str) -> str:
    fault = name_fault(name)
    if fault is not None:
        raise ValueError(f"`{quotable(name)}` cannot be a name: {fault}")
    return name


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError(f"`{quotable(name)}` cannot be the name of a header")
    return name


def one_of_words(known: Iterable[str], expected: str) -> AfterValidator:
    """A validator that takes one of these words; a refusal says what is `expected`, and the nearest
    of them."""

    def checked(word: str) -> str:
        if word in known:
            return word
        meant = nearest_word(word, known)
        hint = f"; did you mean `{meant}`?" if meant else ""
        raise ValueError(f"found `{quotable(word)}`, expected {expected}{hint}")

    return AfterValidator(checked)


def _usable_pace(value: object) -> object:
    """Validated as a whole: a union of types would report one error for each of them."""
    match value:
        case None | "human" | "instant":
            return value
        case bool():
            pass
        case int() | float() if math.isfinite(value) and value > 0:
            return float(value)
        case _:
            pass
    raise ValueError("expected `human`, `instant`, or a number of words a second above 0")


def _one_of(words: type[StrEnum]) -> BeforeValidator:
    """A validator that takes one of these words. YAML 1.1 reads a bare `off` as false."""

    def member(value: object) -> StrEnum:
        word = "off" if value is False else value
        if isinstance(word, str) and word in set(words):
            return words(word)
        raise ValueError(f"found `{quotable(str(value))}`, expected {either_of(words)}")

    return BeforeValidator(member)


def _names_of_models(value: object) -> object:
    """One name, or a list of them; validated as a whole, as in `_usable_pace`."""
    names: list[Any] = [value] if isinstance(value, str) else []
    if isinstance(value, list | tuple):
        names = list(value)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("expected a model's name, or a list of them, as the server writes it")
    return tuple(names)


def _usable_url(url: str) -> str:
    """Error messages do not contain the address: it may hold a key."""
    if VARIABLE.search(url):
        return url
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  (reading it is what checks it)
    except ValueError:
        raise ValueError(_NO_ADDRESS) from None
    if not parts.hostname or parts.scheme not in {"http", "https"} or re.search(r"\s", url):
        raise ValueError(_NO_ADDRESS)
    if parts.username is not None or parts.password is not None:
        raise ValueError("this address has a name or password in it, expected it in `apikey`")
    return url


def _path(path: str) -> str:
    fault = path_fault(path)
    if fault is not None:
        raise ValueError(f"`{quotable(path)}` is no path into JSON: {fault}")
    return path


def _path_or_none(path: str) -> str | None:
    return None if path == _NO_STREAM else _path(path)


def _call(name: str) -> str:
    module, colon, function = name.partition(":")
    parts = [*module.split("."), *function.split(".")]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"`{quotable(name)}` names no function, expected `package.module:function`"
        )
    return name


def _session_path(where: str) -> str:
    name = where.removeprefix(FROM_HEADER)
    return _path(where) if name == where else FROM_HEADER + _header_name(name.strip())


def empty_for_none(value: object) -> object:
    """An empty mapping for a section whose lines are all commented out."""
    return {} if value is None else value


Words = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
SourceName = Annotated[Words, AfterValidator(lambda word: word.strip().lower())]
ShortName = Annotated[str, AfterValidator(_safe_name)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
Effort = Annotated[str, one_of_words(EFFORTS, f"one of {', '.join(EFFORTS)}")]
GivenPace = Annotated[Pace | None, BeforeValidator(_usable_pace)]
Url = Annotated[str, AfterValidator(_usable_url)]
JsonPath = Annotated[Words, AfterValidator(_path)]
SessionPath = Annotated[Words, AfterValidator(_session_path)]
StreamPath = Annotated[Words | None, AfterValidator(_path_or_none)]
Call = Annotated[str, AfterValidator(_call)]
SessionChoice = Annotated[str, one_of_words(SESSIONS, either_of(SESSIONS))]
Served = Annotated[str, one_of_words(_SERVED, either_of(_SERVED))]
GivenStance = Annotated[Stance, _one_of(Stance)]
GivenApi = Literal["chat", "responses"] | None
RESPONSES_ONLY: Final = frozenset(
    """o1-pro o1-pro-2025-03-19 o3-pro o3-pro-2025-06-10 o3-deep-research
    o3-deep-research-2025-06-26 o4-mini-deep-research o4-mini-deep-research-2025-06-26
    computer-use-preview computer-use-preview-2025-03-11 gpt-5.5-pro gpt-5.5-pro-2026-04-23
    gpt-5-codex gpt-5-pro gpt-5-pro-2025-10-06 gpt-5.1-codex-max gpt-daybreak-blue-latest
    gpt-daybreak-red-latest gpt-5.6-cyber gpt-6-cyber gpt-rosalind-research
    gpt-6-rosalind""".split()
)
"""Models of OpenAI that are not reached by chat completions, as the types of its client list
them."""
BATCH_FIRST: Final = "first"
GivenBatch = bool | Literal["first"]
"""Whether calls are made in batches; `first`, if only those that are no repetition."""
GivenForm = Annotated[AnswerForm | None, _one_of(AnswerForm)]
GivenUserAudit = Annotated[UserAuditMode, _one_of(UserAuditMode)]
GivenReview = Annotated[ReviewMode, _one_of(ReviewMode)]
GivenPeople = Annotated[People, _one_of(People)]
ModelNames = Annotated[tuple[str, ...], BeforeValidator(_names_of_models)]

T = TypeVar("T")
ConfigSection = Annotated[T, BeforeValidator(empty_for_none)]
"""Keys and values that may be left out, or left empty."""
# YAML has no tuples, so lists are accepted; their members stay strict
Listed = Annotated[tuple[T, ...], Field(strict=False)]
Several = Annotated[tuple[T, ...], Field(strict=False, min_length=1)]


DEEPEST: Final = 8
"""The most levels of nested mappings and lists in an `extra_body` or a `request`."""
LONGEST: Final = 16_384
"""The most characters of one as JSON."""

_OWN: Final = {
    **dict.fromkeys(
        ("temperature", "top_p", "max_tokens", "reasoning_effort", "seed"),
        "write it under `params`",
    ),
    "max_completion_tokens": "write `max_tokens` under `params`",
    "model": "write it as the model's own `model`",
    "n": "each request is for one reply; `generation: {num_samples: 2}` asks for several",
    **dict.fromkeys(
        ("messages", "system", "stream", "stream_options", "response_format", "output_config"),
        "delete it",
    ),
    "prompt_cache_key": "delete it",
}
"""Keys that Crosswind sends itself, each with what to write instead."""
_SECRET_KEY: Final = re.compile(
    r"(^|_|-)(api_?key|key|auth|authorization|secret|password|token|cookie)$", re.IGNORECASE
)


def extra_body_problems(value: object, at: KeyPath, document: YamlDocument) -> Iterator[Problem]:
    """The problems of an `extra_body`. They show no value of it."""
    if not isinstance(value, dict):
        return
    for key in value:
        if key in _OWN:
            what = f"`{key}` is sent by Crosswind itself"
            yield document.problem((*at, key), what, hint=_OWN[key], of_key=True)
    yield from json_problems(value, at, document)


def json_problems(
    value: Mapping[str, Any], at: KeyPath, document: YamlDocument
) -> Iterator[Problem]:
    """Problems of nesting, length, values that JSON cannot hold, and keys in plain text."""
    faults = list(_faults(value, at, document, 1))
    yield from faults
    if not faults and len(json.dumps(value)) > LONGEST:
        what = f"this is too long, expected at most {LONGEST:,} characters as JSON"
        yield document.problem(at, what, of_key=True)


def _faults(value: object, at: KeyPath, document: YamlDocument, depth: int) -> Iterator[Problem]:
    """As `json_problems`, but for the length."""
    match value:
        case dict() | list() if depth > DEEPEST:
            what = f"this is nested too deeply, expected at most {DEEPEST} levels"
            yield document.problem(at, what)
        case dict():
            for key, inner in value.items():
                if isinstance(inner, str) and _SECRET_KEY.search(key):
                    yield from _open_secret(inner, (*at, key), document)
                yield from _faults(inner, (*at, key), document, depth + 1)
        case list():
            for place, inner in enumerate(value):
                yield from _faults(inner, (*at, place), document, depth + 1)
        case None | bool() | int() | str():
            pass
        case float() if math.isfinite(value):
            pass
        case _:
            what = f"found {kind_of(value)} that JSON cannot hold, expected text or a number"
            yield document.problem(at, what, hint="put it in quotes")


def _open_secret(text: str, at: KeyPath, document: YamlDocument) -> Iterator[Problem]:
    if VARIABLE.search(text) is None:
        what = "this seems to be a key in plain text, and would be kept with every run"
        hint = 'put it into .env and write its variable here, as in "${NAME}"'
        yield document.problem(at, what, hint=hint)


def filled_in(
    body: Mapping[str, Any], environment: Environment, *, where: str, to: str
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body with every `${NAME}` looked up, to be sent there, and the secret texts that it now
    contains.

    Raises `InputError` for a variable that is not set.
    """
    secrets: list[str] = []

    def of(value: object) -> Any:
        match value:
            case str() if VARIABLE.search(value):
                text = environment.resolve(value, where=where, to=to)
                secrets.append(text)
                secrets.extend(
                    environment.resolve(f"${{{name}}}", where=where, to=to)
                    for name in VARIABLE.findall(value)
                )
                return text
            case Mapping():
                return {key: of(inner) for key, inner in value.items()}
            case list() | tuple():
                return [of(inner) for inner in value]
            case _:
                return value

    return {key: of(value) for key, value in body.items()}, tuple(dict.fromkeys(secrets))


_SCHEMES: Final = ("tls", "tcp")


def is_address(scheduler: str) -> bool:
    """Whether this is the address of a scheduler, not the path of a scheduler file."""
    return "://" in scheduler


def checked_address(address: str) -> str:
    """Return the address: `tls://HOST:PORT`, or `tcp://HOST:PORT` on the loopback interface. Raises
    `ValueError` for any other."""
    scheme, host, port = _split_address(address)
    if not host or not port or scheme not in _SCHEMES:
        raise ValueError(
            f"found `{quotable(address)}`, expected tls://HOST:PORT, or the path of the file that "
            "`dask scheduler --scheduler-file` writes"
        )
    if scheme == "tcp" and not _is_loopback(host):
        raise ValueError(
            f"`{quotable(address)}` is neither encrypted nor on this machine: whoever reaches such "
            "a scheduler runs code as you; start scheduler and workers with TLS and write "
            "tls://HOST:PORT"
        )
    return address


def _split_address(address: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port; without host and port where it is invalid."""
    try:
        parts = urlsplit(address)
        return parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "", None, None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked_scheduler(written: str) -> str:
    return checked_address(written) if is_address(written) else written


class ClusterSettings(Shape):
    """A Dask cluster whose workers make the calls. TLS is as in Dask's own configuration."""

    scheduler: Annotated[Words, AfterValidator(_checked_scheduler)] = Field(
        description="`tls://HOST:PORT`, or a path"
    )
    """Its scheduler: the address, or the path of the file that `dask scheduler --scheduler-file`
    writes, relative to the workspace. It must use TLS or be on this machine."""
