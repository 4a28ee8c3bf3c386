"""What a model does not support: forms of structured output, single parameters, long replies.

Compatible servers differ in what they accept, and lists of that become outdated. So everything is
asked for first, and a refusal that states its reason is learned from, once for each model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from engine.providers.attempts import Meaning, beside_the_request, classify, meaning_of
from engine.providers.failures import Cause, Failure, FailureKind
from engine.providers.model import once_per_schema


class Step(StrEnum):
    """How an answer of a given shape is asked for, strictest first."""

    JSON_SCHEMA = "json_schema"
    JSON_OBJECT = "json_object"
    PROMPT = "prompt"


@dataclass(frozen=True, slots=True)
class ModelCapabilities:
    """What is known of one model."""

    step: Step = Step.JSON_SCHEMA
    dropped: frozenset[str] = frozenset()
    """Parameters that it refused, and that are left out since."""
    room: int | None = None
    """The most tokens of a reply, if more were refused. Not kept beyond a run."""

    def __or__(self, other: ModelCapabilities) -> ModelCapabilities:
        """Combine what is known."""
        order = list(Step)
        # the less strict of two, as each was learned from a refusal
        step = max(self.step, other.step, key=order.index)
        room = min((known.room for known in (self, other) if known.room is not None), default=None)
        return ModelCapabilities(step, self.dropped | other.dropped, room)


@dataclass(slots=True)
class CapabilityMemory:
    """What was learned, by a name for the model and its address."""

    known: dict[str, ModelCapabilities] = field(default_factory=dict)
    keep: Callable[[str, ModelCapabilities], None] | None = None
    """Called with all that is known of a model when more of it is learned."""

    def recall(self, model: str) -> ModelCapabilities:
        """Return what is known; for an unknown model, that it supports everything."""
        return self.known.get(model, ModelCapabilities())

    def learn(self, model: str, learned: ModelCapabilities) -> None:
        """Replace what is known of a model."""
        self.known[model] = learned
        if self.keep is not None:
            self.keep(model, learned)


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How to ask instead."""

    learned: ModelCapabilities
    note: str
    """What a person should know about it."""
    certain: bool
    """Whether the server stated the reason; otherwise it is kept only once it has helped."""


FOLDED_SYSTEM: Final = "system"
"""Dropped if a model's template has no system role: its text is put before the first message."""

BOUNDS: Final = "bounds"
"""Dropped if a server accepts a schema, but no counts and ranges in it."""

BARE_REPLIES: Final = "bare replies"
"""Dropped if a model wants the reasoning of its earlier replies back beside them."""
SUMMARIES: Final = "reasoning_summary"
"""Dropped if a model or an account gets no summary of what was thought."""
REASONING: Final = "reasoning_content"
"""Dropped if a server refuses that reasoning."""

_LESSONS: Final[Mapping[Meaning | None, tuple[str, str]]] = {
    Meaning.NO_SYSTEM: (
        FOLDED_SYSTEM,
        "has no system role: the system prompt goes into the first message",
    ),
    Meaning.WANTS_REASONING: (
        BARE_REPLIES,
        "wants its earlier reasoning: it is sent back beside each reply from now on",
    ),
    Meaning.NO_REASONING: (
        REASONING,
        "refuses its earlier reasoning: it is not sent back from now on",
    ),
}
"""What the words of vendors teach: what is dropped, and a note."""

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
    "max_output_tokens": ("max_output_tokens",),
    SUMMARIES: ("reasoning.summary", "summary", "reasoning summaries"),
}
"""Each parameter, with its names in refusals."""

_ABOUT_SHAPE: Final = re.compile(
    r"response_format|json_schema|json_object|output_config|output_format|structured[ _-]output"
    r"|guided|schema|json mode",
    re.IGNORECASE,
)
_A_BOUND: Final = re.compile(
    r"\b(minItems|maxItems|multipleOf|exclusiveM(?:in|ax)imum)\b"
    # plain words, which mean a keyword only where they stand as one
    r"|['\"`](minimum|maximum)['\"`]|\bpropert(?:y|ies) (minimum|maximum)\b"
)
_NAMES_FORM: Final = re.compile(
    r"response_format|json_schema|json_object|output_config|output_format|guided_json",
    re.IGNORECASE,
)
"""Words in the message of a server that fails on an unknown form, with a status that would
otherwise be worth another try."""
_OF_A_SHAPE: Final = frozenset({400, 422, 501})
"""Statuses of servers that do not know a form, if they do not say so."""
_OF_A_SETTING: Final = frozenset({400, 422})
_UNKNOWN: Final = re.compile(
    r"unsupported|not support|unrecogni[sz]ed|unknown|unexpected|not permitted|not allowed"
    r"|extra inputs|deprecated|removed|not available|cannot be used|use .{0,3}max_",
    re.IGNORECASE,
)
_A_VALUE: Final = re.compile(
    r"unsupported[ _]value|invalid[ _]value|does not support ['\"`\d]|supported values|should be"
    r"|\bone of\b|not a valid|invalid (?:reasoning|effort)|only the default|may only be"
    r"|only \w+=\S+ is supported",
    re.IGNORECASE,
)
_OUT_OF_RANGE: Final = re.compile(
    r"must be|between|less than|greater than|at least|at most|maximum|minimum"
    r"|too (large|small|high|low)|out of range|exceeds",
    re.IGNORECASE,
)


def adaptation_from(
    failure: Failure,
    learned: ModelCapabilities,
    *,
    sent: Collection[str],
    steps: tuple[Step, ...],
    shaped: bool,
) -> Adaptation | None:
    """Return what a refusal teaches; None if the request itself is to blame.

    `sent` are the parameters of the request, `steps` the forms of the protocol, and `shaped` says
    whether a schema was asked for.
    """
    if failure.cause is Cause.NO_JSON:
        note = "passes over the form of an answer: asked for JSON in the prompt"
        return Adaptation(replace(learned, step=Step.PROMPT), note, certain=False)
    broke_on_form = failure.status == 500 and shaped and _NAMES_FORM.search(failure.message)
    refused_pair = failure.status == 404 and _no_endpoint_takes(failure.message.lower())
    # some servers fail on an unknown form with a status that says nothing about it
    teaches = classify(failure) is FailureKind.FATAL_REQUEST or refused_pair or broke_on_form
    if failure.cause is not Cause.STATUS or not teaches:
        return None
    # a quoted request contains the names of all parameters, and blames none
    if not broke_on_form:
        failure = replace(failure, message=beside_the_request(failure.message))
    dropped, note = _LESSONS.get(meaning_of(failure), ("", ""))
    if dropped in sent and dropped not in learned.dropped:
        return Adaptation(replace(learned, dropped=learned.dropped | {dropped}), note, certain=True)
    text = f"{failure.param} {failure.code} {failure.message}"
    about_shape = bool(_ABOUT_SHAPE.search(text))
    # what was left out already cannot be the reason
    name = None if broke_on_form else _refused_parameter(failure, set(sent) - learned.dropped)
    # a message about a schema may mention parameters: only one in `param` counts then
    if name is not None and not (about_shape and shaped and not failure.param):
        return _leave_out(name, learned)
    if (without := _without_bounds(text, learned, sent)) is not None:
        return without
    lower = next_step(learned.step, steps)
    if lower is not None and not about_shape and not refused_pair:
        # nothing named: go straight to what every server accepts
        lower = steps[-1]
    could_be_shape = failure.status in _OF_A_SHAPE or about_shape or refused_pair
    if shaped and lower is not None and could_be_shape:
        note = (
            "takes no JSON schema: asked for any JSON object, in the prompt for its shape"
            if lower is Step.JSON_OBJECT
            else "takes no form of structured output: asked for JSON in the prompt"
        )
        # a bare 400 may have another reason: kept once asking differently has helped
        return Adaptation(replace(learned, step=lower), note, certain=about_shape or refused_pair)
    return None


def _without_bounds(
    text: str, learned: ModelCapabilities, sent: Collection[str]
) -> Adaptation | None:
    """Return what a refusal teaches of the counts and ranges in a schema: also where it gives no
    reason at all, as the schema without them is more than none."""
    if BOUNDS not in sent or BOUNDS in learned.dropped:
        return None
    bound = _A_BOUND.search(text)
    if bound is None and _ABOUT_SHAPE.search(text):
        return None
    name = "counts" if bound is None else next(filter(None, bound.groups()))
    return Adaptation(
        replace(learned, dropped=learned.dropped | {BOUNDS}),
        f"takes no {name} in a schema: counts and ranges are left out from now on",
        certain=bound is not None,
    )


def _no_endpoint_takes(message: str) -> bool:
    """Whether a gateway has no provider that supports the parameters that were sent."""
    return "parameter" in message.partition("no endpoints found")[2]


def next_step(step: Step, steps: tuple[Step, ...]) -> Step | None:
    """Return the next less strict form; None if there is none."""
    order = list(Step)
    return next((lower for lower in order[order.index(step) + 1 :] if lower in steps), None)


def _leave_out(name: str, learned: ModelCapabilities) -> Adaptation:
    dropped = learned.dropped | {name}
    return Adaptation(
        replace(learned, dropped=dropped),
        f"does not take {name}: left out from now on",
        certain=True,
    )


def _refused_parameter(failure: Failure, sent: Collection[str]) -> str | None:
    """Return the sent parameter that is refused as such. A refused value is a fault of the
    configuration, which a person must learn of, so it is not simply left out."""
    # "max_tokens must be at most 4096" names a parameter without refusing it
    if _OUT_OF_RANGE.search(failure.message) and not _UNKNOWN.search(failure.message):
        return None
    if _A_VALUE.search(f"{failure.code} {failure.message}"):
        return None
    param = failure.param.lower()
    for name, spellings in _DROPPABLE.items():
        if name in sent and any(param == word or param.endswith(f".{word}") for word in spellings):
            return name
    first: tuple[int, str] | None = None
    for name, spellings in _DROPPABLE.items():
        match = re.search(
            rf"(?<![\w-])({'|'.join(map(re.escape, spellings))})(?!\w)", failure.message
        )
        # the first one named, as a list of supported parameters often follows
        if name in sent and match and (first is None or match.start() < first[0]):
            first = (match.start(), name)
    if first is None and param.split(".")[0] in {"stream_options", "cache_control"} & set(sent):
        return param.split(".")[0]
    return None if first is None else first[1]


def refused_setting(failure: Failure, settings: Collection[str]) -> str | None:
    """Return the one of these keys of a person's configuration that a server refuses, by its name
    or for its value, as it then refuses every request."""
    if failure.cause is not Cause.STATUS or failure.status not in _OF_A_SETTING:
        return None
    setting = failure.param.removeprefix("body.").partition(".")[0]
    if setting in settings:
        return setting
    message = beside_the_request(failure.message)
    said = _UNKNOWN.search(message) or _OUT_OF_RANGE.search(message) or _A_VALUE.search(message)
    if not said:
        return None
    # a word without an underscore, such as "provider", may mean something else unless it is marked
    return next(
        (
            name
            for name in settings
            if any("_" in word and word in message for word in _DROPPABLE.get(name, (name,)))
            or any(
                marked in message for marked in (f"'{name}'", f'"{name}"', f"`{name}`", f"{name}=")
            )
            or message.startswith((f"body.{name} ", f"{name} ", f"{name}: "))
        ),
        None,
    )


@once_per_schema
def form_in_words(schema: Mapping[str, Any]) -> str:
    """Describe an answer's fields for a prompt: a server that enforces a schema does not show it to
    the model."""
    fields = _fields(schema, schema)
    return f"Answer with one JSON object and nothing else. Its fields: {fields}."


def _fields(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    fields: Mapping[str, Any] = part.get("properties", {})
    return ", ".join(f"{name} ({_field_type(field, root)})" for name, field in fields.items())


def _field_type(field: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    if "$ref" in field:
        field = root["$defs"][field["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in field:
        return " or ".join(_field_type(variant, root) for variant in field["anyOf"])
    if "enum" in field:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in field["enum"])
    match field.get("type"):
        case "array":
            count = _count_in_words(field.get("minItems"), field.get("maxItems"))
            return f"a list{count}, each: {_field_type(field.get('items', {}), root)}"
        case "object":
            return f"an object with the fields {_fields(field, root)}"
        case kind:
            return _KINDS.get(kind, "a value")


def _count_in_words(least: int | None, most: int | None) -> str:
    if most is None:
        return ""
    return f" of exactly {most}" if least == most else f" of at most {most}"


_KINDS: Final[Mapping[object, str]] = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
}


def in_words(schema: Mapping[str, Any]) -> str:
    """Describe the whole schema for a prompt, for models that cannot be held to it otherwise."""
    shape = json.dumps(schema, ensure_ascii=False)
    return (
        "Give your whole answer as one JSON object that fits this JSON schema. Write nothing before"
        f" or after it, and no Markdown around it.\n{shape}"
    )


FEWEST: Final = 256
"""Tokens of a reply. With room for fewer, the conversation no longer fits."""

_LOOKED_AT: Final = 1000
"""Characters of a refusal that are searched for numbers."""
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
"""The server stopped counting at this number."""


@dataclass(frozen=True, slots=True)
class TokenLimits:
    """What a server allows, in tokens."""

    now: int
    """For the reply to this request."""
    always: int
    """For most requests: what is left if a request fills half of the context."""
    context: int | None
    """Shared by request and reply; None if only replies are limited."""


def room_in(message: str) -> TokenLimits | None:
    """Read the limits in a refusal; None if it is not about the length of a reply, or has no
    numbers."""
    # the text is cut, so that no server's message can make the patterns slow
    text = message[:_LOOKED_AT]
    context = _matched_number(_SUM, text) or _matched_number(_CONTEXT, text)
    if context is None:
        most = _matched_number(_MOST, text) if _OF_A_REPLY.search(text) else None
        return None if most is None else TokenLimits(most, most, None)
    asked = None if _ABOUT.search(text) else _matched_number(_ASKED, text)
    half = context // 2
    return TokenLimits(half if asked is None else context - asked, half, context)


def _matched_number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return None if match is None else next(int(group) for group in match.groups() if group)
