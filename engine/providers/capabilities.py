"""What a model turned out not to take: the forms of structured output, single parameters, and a
longer reply than there is room for.

Compatible servers differ in what they accept, and lists of who takes what go out of date. So the
most is asked for, and a refusal that names its reason is learned from, once for each model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from engine.providers.attempts import Cause, Failure, FailureKind


class Step(StrEnum):
    """How an answer of a given shape is asked for, from the strictest down."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """What is known of one model."""

    step: Step = Step.JSON_SCHEMA
    dropped: frozenset[str] = frozenset()
    """Parameters that it refused and that are left out since."""
    room: int | None = None
    """Tokens of a reply that it has room for, where more were refused. Not kept beyond a run."""

    def __or__(self, other: ModelCapabilities) -> ModelCapabilities:
        """What is known from both."""
        order = list(Step)
        # the less strict of two, as each was learned by a refusal
        step = max(self.step, other.step, key=order.index)
        room = min((one.room for one in (self, other) if one.room is not None), default=None)
        return ModelCapabilities(step, self.dropped | other.dropped, room)


class CapabilityMemory(Protocol):
    """Keeps what was learned, by a name for the model and its address."""

    def recall(self, model: str) -> ModelCapabilities:
        """What is known; of a model that was never learned of, that it takes everything."""
        ...

    def learn(self, model: str, learned: ModelCapabilities) -> None:
        """Keep what is known from now on, all of it."""
        ...


class InMemoryCapabilities:
    """Keeps it for as long as the process lives."""

    def __init__(self) -> None:
        self._learned: dict[str, ModelCapabilities] = {}

    def recall(self, model: str) -> ModelCapabilities:
        return self._learned.get(model, ModelCapabilities())

    def learn(self, model: str, learned: ModelCapabilities) -> None:
        self._learned[model] = learned


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What to ask for instead."""

    learned: ModelCapabilities
    note: str
    """What a person should know of it."""
    certain: bool
    """Whether the server named the reason; a guess is kept only once it has worked."""


FOLDED_SYSTEM: Final = "system"
"""Dropped where a model's template has no system role: its text goes before the first message."""

BOUNDS: Final = "bounds"
"""Dropped where a server takes a schema, but no counts and ranges in it."""

_DROPPABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p",),
    "seed": ("seed",),
    "max_tokens": ("max_tokens",),
    "max_completion_tokens": ("max_completion_tokens",),
    "reasoning_effort": ("reasoning_effort", "output_config.effort", "effort"),
    "stream_options": ("stream_options", "include_usage"),
    "prompt_cache_key": ("prompt_cache_key",),
    "cache_control": ("cache_control",),
}
"""Each parameter, and the names under which refusals speak of it."""

_ABOUT_SHAPE: Final = re.compile(
    r"response_format|json_schema|json_object|output_config|output_format|structured[ _-]output"
    r"|guided|schema|json mode",
    re.IGNORECASE,
)
_A_BOUND: Final = re.compile(r"\b(?:(?:min|max)(?:Items|imum)|multipleOf)\b")
_NAMES_FORM: Final = re.compile(
    r"response_format|json_schema|json_object|output_config|output_format|guided_json",
    re.IGNORECASE,
)
"""What a server says that breaks on a form which it does not know, with a status that is otherwise
worth another try."""
_MODEL_KEY: Final = re.compile(r"""["']model\\?["']\s*:""")
"""Where a server shows the request that it refused."""
_OF_A_SHAPE: Final = frozenset({400, 422, 501})
"""What servers answer to a form that they do not know, where they do not say so."""
_NO_SYSTEM: Final = re.compile(
    r"system (role|message|prompt|instruction)s? (is |are )?not (supported|enabled|allowed)"
    r"|does not support (the )?system|developer instruction is not enabled",
    re.IGNORECASE,
)
_UNKNOWN: Final = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|deprecated|removed|not available|cannot be used|use .{0,3}max_",
    re.IGNORECASE,
)
_OUT_OF_RANGE: Final = re.compile(
    r"must be|between|less than|greater than|at least|at most|maximum|minimum"
    r"|too (large|small|high|low)|out of range|exceeds",
    re.IGNORECASE,
)


def lesson(
    failure: Failure,
    kind: FailureKind,
    learned: ModelCapabilities,
    *,
    sent: Collection[str],
    steps: tuple[Step, ...],
    shaped: bool,
) -> Adaptation | None:
    """What the refusal teaches; None where the request itself is to blame.

    `sent` names the parameters of the request, `steps` the forms this protocol has, `shaped` says
    whether an answer of a shape was asked for.
    """
    if failure.cause is Cause.NO_JSON:
        note = "passes over the form of an answer: asked for JSON in the prompt"
        return Adaptation(replace(learned, step=Step.PROMPT), note, certain=False)
    broke_on_form = failure.status == 500 and shaped and _NAMES_FORM.search(failure.message)
    refused_pair = failure.status == 404 and _no_endpoint_takes(failure.message.lower())
    # some servers break on a form that they do not know, with a status that says nothing of it
    teaches = kind is FailureKind.FATAL_REQUEST or refused_pair or broke_on_form
    if failure.cause is not Cause.STATUS or not teaches:
        return None
    # the request that a server shows has the names of all that is in it, and blames none of them
    if not broke_on_form:
        failure = replace(failure, message=_beside_the_request(failure.message))
    text = f"{failure.param} {failure.code} {failure.message}"
    about_shape = bool(_ABOUT_SHAPE.search(text))
    # what was left out already cannot be what it refuses now
    name = None if broke_on_form else _named(failure, set(sent) - learned.dropped)
    # a message about a schema mentions parameters by the way: only one that is named apart is meant
    if name is not None and not (about_shape and shaped and not failure.param):
        return _without(name, learned)
    if _NO_SYSTEM.search(failure.message) and FOLDED_SYSTEM not in learned.dropped:
        dropped = learned.dropped | {FOLDED_SYSTEM}
        note = "has no system role: the system prompt goes into the first message"
        return Adaptation(replace(learned, dropped=dropped), note, certain=True)
    bound = _A_BOUND.search(text) if shaped and learned.step is Step.JSON_SCHEMA else None
    if bound is not None and BOUNDS not in learned.dropped:
        note = f"takes no {bound.group()} in a schema: counts and ranges are left out from now on"
        return Adaptation(replace(learned, dropped=learned.dropped | {BOUNDS}), note, certain=True)
    lower = next_step(learned.step, steps)
    if lower is not None and not about_shape and not refused_pair:
        # what names nothing is answered once, by what every server takes
        lower = steps[-1]
    could_be_shape = failure.status in _OF_A_SHAPE or about_shape or refused_pair
    if shaped and lower is not None and could_be_shape:
        note = (
            "takes no JSON schema: asked for any JSON object, in the prompt for its shape"
            if lower is Step.JSON_OBJECT
            else "takes no form of structured output: asked for JSON in the prompt"
        )
        # a bare 400 may have had another reason: believed once asking differently has helped
        return Adaptation(replace(learned, step=lower), note, certain=about_shape or refused_pair)
    return None


def _beside_the_request(message: str) -> str:
    """What a refusal says, without the request that it shows."""
    shown = _MODEL_KEY.search(message)
    if shown is None:
        return message
    begin, end = message.rfind("{", 0, shown.start()), message.rfind("}")
    return message[: max(begin, 0)] + (message[end + 1 :] if end > begin else "")


def _no_endpoint_takes(message: str) -> bool:
    """Whether a gateway has nobody who takes the parameters that were sent."""
    return "parameter" in message.partition("no endpoints found")[2]


def next_step(step: Step, steps: tuple[Step, ...]) -> Step | None:
    """The next less strict form; None below the last."""
    order = list(Step)
    return next((lower for lower in order[order.index(step) + 1 :] if lower in steps), None)


def _without(name: str, learned: ModelCapabilities) -> Adaptation:
    dropped = learned.dropped | {name}
    return Adaptation(
        replace(learned, dropped=dropped),
        f"does not take {name}: left out from now on",
        certain=True,
    )


def _named(failure: Failure, sent: Collection[str]) -> str | None:
    """The parameter that was sent and is refused as such. A value out of its range is a fault of
    the configuration, which a person must hear of, and so not answered by leaving it out."""
    # "max_tokens must be at most 4096" names a parameter and does not refuse it
    if _OUT_OF_RANGE.search(failure.message) and not _UNKNOWN.search(failure.message):
        return None
    given = failure.param.lower()
    for name, spellings in _DROPPABLE.items():
        if name in sent and any(given == word or given.endswith(f".{word}") for word in spellings):
            return name
    first: tuple[int, str] | None = None
    for name, spellings in _DROPPABLE.items():
        found = re.search(
            rf"(?<![\w-])({'|'.join(map(re.escape, spellings))})(?!\w)", failure.message
        )
        # the first that is named: what comes later is often a list of what is taken
        if name in sent and found and (first is None or found.start() < first[0]):
            first = (found.start(), name)
    if first is None and given.split(".")[0] in {"stream_options", "cache_control"} & set(sent):
        return given.split(".")[0]
    return None if first is None else first[1]


def form_in_words(schema: Mapping[str, Any]) -> str:
    """Which fields an answer has, as part of a prompt: a server that holds a model to a schema does
    not tell the model of it."""
    fields = _fields(schema, schema)
    return f"Answer with one JSON object and nothing else. Its fields: {fields}."


def _fields(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    fields: Mapping[str, Any] = part.get("properties", {})
    return ", ".join(f"{name} ({_kind(field, root)})" for name, field in fields.items())


def _kind(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "$ref" in field:
        field = root["$defs"][field["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in field:
        return " or ".join(_kind(one, root) for one in field["anyOf"])
    if "enum" in field:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in field["enum"])
    match field.get("type"):
        case "array":
            return f"a list, each: {_kind(field.get('items', {}), root)}"
        case "object":
            return f"an object with the fields {_fields(field, root)}"
        case kind:
            return _KINDS.get(kind, "a value")


_KINDS: Final[Mapping[object, str]] = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def in_words(schema: Mapping[str, Any]) -> str:
    """The shape as part of a prompt, for models that cannot be held to it otherwise."""
    shape = json.dumps(schema, ensure_ascii=False)
    return (
        "Give your whole answer as one JSON object that fits this JSON schema. Write nothing before"
        f" or after it, and no Markdown around it.\n{shape}"
    )


FEWEST: Final = 256
"""Tokens. Where there is room for fewer, the conversation no longer fits."""

_LOOKED_AT: Final = 1000
"""Characters of a refusal that its numbers are looked for in."""
_CONTEXT: Final = re.compile(
    r"context[ _](?:length|window|size|limit)(?: is| of|:)? {0,3}(\d{1,9})\b", re.IGNORECASE
)
_ASKED: Final = re.compile(
    r"(\d{1,9}) (?:prompt|input) tokens|(\d{1,9}) (?:tokens )?in the messages"
    r"|(\d{1,9}) \+ \d{1,9} > \d{1,9}",
    re.IGNORECASE,
)
_SUM: Final = re.compile(r"\d{1,9} \+ \d{1,9} > (\d{1,9})\b")
_MOST: Final = re.compile(
    r"max_(?:completion_)?tokens\W{1,3}\d{1,9} > (\d{1,9})\b"
    r"|(?:at most|less than or equal to|no more than|maximum of|<=) {0,2}[`'\"]?(\d{1,9})\b",
    re.IGNORECASE,
)
_OF_A_REPLY: Final = re.compile(r"max_(?:completion_)?tokens|completion|output tokens", re.I)
_ABOUT: Final = re.compile(r"at least \d")
"""The server stopped counting when it was too much."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What a server takes, in tokens."""

    now: int
    """For the reply to this request."""
    always: int
    """For most requests: what is left where a request fills half of a model's context."""
    context: int | None
    """What request and reply share; None where the limit is one on replies alone."""


def room_in(message: str) -> TokenLimits | None:
    """None where the refusal is not about the length of a reply, or gives no numbers."""
    # the patterns below are tried on what a server wrote: bounded, so that no answer can make them
    # slow
    text = message[:_LOOKED_AT]
    context = _number(_SUM, text) or _number(_CONTEXT, text)
    if context is None:
        most = _number(_MOST, text) if _OF_A_REPLY.search(text) else None
        return None if most is None else TokenLimits(most, most, None)
    asked = None if _ABOUT.search(text) else _number(_ASKED, text)
    half = context // 2
    return TokenLimits(half if asked is None else context - asked, half, context)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else next(int(group) for group in found.groups() if group)
