"""Asks a model for an answer of a given shape; shows one string field while the answer is still
arriving."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from itertools import count
from typing import Any, Final, NoReturn, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import from_json

from engine.errors import AnswerError, UnfitAnswerError
from engine.prompts import render, without_marks
from engine.providers.capabilities import form_in_words
from engine.providers.model import Finish, JsonSchema, Message, MessageRole, Model, OnText, Reply

Shape = TypeVar("Shape", bound=BaseModel)

LOOKED_AT: Final = 1_000_000
"""The most characters that are examined, some several times, to find objects in one text."""
ONE_TRY: Final = 100
"""What a try to read an object takes, in characters that could be examined instead: an error of
`json` counts the lines before it."""

_REASONING: Final = re.compile(
    # up to the first closing tag: the rest is the answer, whatever it quotes
    r"\A\s*(?:<(think|thinking|thought|reasoning)>.*?</\1>|\[THINK\].*?\[/THINK\])",
    re.DOTALL | re.IGNORECASE,
)
_TOKEN: Final = re.compile(
    r'"(?:[^"\\]|\\.)*+"'
    r"|'(?:[^'\\]|\\.)*+'"
    r"|,(?=\s*+[}\]])|\b(?:True|False|None)\b|[{}\[\]]",
    re.DOTALL,
)
"""What Python and JSON write differently, and what must be passed over to find it."""
_LITERALS: Final = {"True": "true", "False": "false", "None": "null", ",": ""}

JsonValue = dict[str, Any]


def parse_answer(text: str, shape: type[Shape], quotable: Sequence[str] = ()) -> Shape:
    """Return the one object of this shape in a text; equal ones count as one.

    An object that stands in one of the `quotable` texts is a quotation and no answer. Raises
    `ValueError`, which says in plain words what is wrong.
    """
    body = _REASONING.sub("", text.removeprefix("\ufeff"), count=1).strip()
    if not body:
        raise ValueError("it was empty")
    objects, fault = _objects_in(body)
    answers: list[Shape] = []
    quoted = [part for said in quotable for part in _parts_in(said)]
    was_quotation = False
    for value in objects:
        for part, answer in _fitting(value, shape):
            if part in quoted:
                was_quotation = True
            elif answer not in answers:
                answers.append(answer)
    match answers:
        case [answer]:
            return answer
        case []:
            if was_quotation:
                raise ValueError("its object is a quotation from the conversation, not an answer")
            raise ValueError(_misfit(objects, shape) or fault)
        case _:
            raise ValueError(f"it held {len(answers)} different objects of that shape")


def is_bare(text: str) -> bool:
    """Whether a text is one JSON object and nothing else."""
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except (ValueError, RecursionError):
        return False


def _fitting(value: JsonValue, shape: type[Shape]) -> Iterator[tuple[JsonValue, Shape]]:
    """Yield the outermost parts of a value that have the shape."""
    try:
        yield value, shape.model_validate(value, strict=True)
    except ValidationError:
        for part in _children(value):
            yield from _fitting(part, shape)


def _children(value: JsonValue) -> Iterator[JsonValue]:
    for member in value.values():
        for part in member if isinstance(member, list) else [member]:
            if isinstance(part, dict):
                yield part


def _parts_in(text: str) -> Iterator[JsonValue]:
    """Yield every object in a text, and every object in these."""
    if "{" in text:
        left = _objects_in(text)[0]
        while left:
            value = left.pop()
            yield value
            left += _children(value)


def _misfit(objects: Sequence[JsonValue], shape: type[BaseModel]) -> str:
    """Why the longest object does not fit; empty where there is no object."""
    if not objects:
        return ""
    try:
        shape.model_validate(max(objects, key=len), strict=True)
    except ValidationError as error:
        return faults_in(error)
    return ""


def faults_in(error: ValidationError) -> str:
    """What does not fit, each with its place, without what was found there."""
    return "; ".join(
        f"{'.'.join(str(part) for part in fault['loc']) or 'the answer'}: {fault['msg']}"
        for fault in error.errors(include_input=False, include_url=False)[:5]
    )


def _objects_in(text: str) -> tuple[list[JsonValue], str]:
    """The outermost objects in a text, and what is wrong with the first that cannot be read."""
    objects: list[JsonValue] = []
    fault = ""
    at, left = text.find("{"), LOOKED_AT
    while at >= 0 and left > 0:
        left -= ONE_TRY
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            raise ValueError("it was nested too deeply") from None
        except ValueError as error:
            fault = fault or _words(error)
            left -= error.pos - at if isinstance(error, json.JSONDecodeError) else 0
            value, end = _as_python_writes(text, at)
            left -= end - at
            if value is None:
                end = at + 1
        if value is not None:
            objects.append(value)
        at = text.find("{", end)
    return objects, fault or "it was not one JSON object (there is none in it)"


def _as_python_writes(text: str, start: int) -> tuple[JsonValue | None, int]:
    """The object from `start` on, in which commas may trail and literals be Python's; None where it
    is none. And where the search ended."""
    pieces: list[str] = []
    depth, copied, end = 0, start, len(text)
    for token in _TOKEN.finditer(text, start):
        word = token[0]
        depth += (word in ("{", "[")) - (word in ("}", "]"))
        if word in _LITERALS or word[0] == "'":
            instead = _LITERALS[word] if word in _LITERALS else _json_string(word)
            pieces += [text[copied : token.start()], instead]
            copied = token.end()
        if depth == 0:
            end = token.end()
            break
    else:
        return None, end
    try:
        value = _DECODER.decode("".join([*pieces, text[copied:end]]))
    except (ValueError, RecursionError):
        return None, end
    return value if isinstance(value, dict) else None, end


def _json_string(word: str) -> str:
    """A string in Python's quotation marks as JSON writes it."""
    # between two escaped backslashes, a backslash belongs to what follows it
    parts = (
        part.replace("\\'", "'").replace('\\"', '"').replace('"', '\\"')
        for part in word[1:-1].split("\\\\")
    )
    return '"' + "\\\\".join(parts) + '"'


def _words(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it was not one JSON object ({error.msg}, line {error.lineno})"
    return str(error)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"it held {name}, which is not JSON")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("it held the same key twice")
    return members


_DECODER: Final = json.JSONDecoder(
    # raw line breaks in strings, which some servers allow, are harmless
    strict=False,
    parse_constant=_no_constant,
    object_pairs_hook=_no_duplicates,
)


ASK_AGAIN: Final = 2
"""How often a model is asked again after an answer that does not fit."""


def messages_of(system: str, prompt: str, /, **values: str) -> list[Message]:
    """The messages to a model that is asked once, from the prompts of these names."""
    return [
        Message(MessageRole.SYSTEM, render(system)),
        Message(MessageRole.USER, render(prompt, **values)),
    ]


def fence_of(body: str) -> str:
    """What the tags around a text of others are called. It cannot be guessed from inside the text:
    changing that changes it."""
    return hashlib.blake2b(body.encode("utf-8", "replace"), digest_size=6).hexdigest()


class Answer(BaseModel):
    """The base of every shape: no additional keys, no type coercion."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


T = TypeVar("T", bound=Answer)
R = TypeVar("R")


def at_most(items: int) -> dict[str, Any]:
    """The bound of a list that a model is asked for; a longer answer is read all the same."""
    return {"maxItems": items}


Check = Callable[[T], str | None]
"""Says what is wrong with an answer of the right shape; None where nothing is."""


@cache
def schema_of(shape: type[Answer]) -> JsonSchema:
    """The shape as a strict JSON schema: every key is required, and no other is allowed.

    Lengths of texts are left out, and checked when the answer is read: in a widespread grammar
    implementation, a counted string cannot contain escapes, so no quotation mark or line break.
    """
    schema: dict[str, Any] = shape.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        for field in part.get("properties", {}).values():
            for keyword in ("minLength", "maxLength", "default"):
                field.pop(keyword, None)
        if "properties" in part:
            part["required"] = list(part["properties"])
    return schema


def asked_again(messages: Sequence[Message], standing: str, note: str) -> list[Message]:
    """The request to rewrite something that exists, following a person's note."""
    *before, last = messages
    more = render("generate_again", standing=without_marks(standing), note=without_marks(note))
    return [*before, Message(last.role, f"{last.text.rstrip()}\n\n{more.strip()}\n")]


class NotesForm(ABC):
    """A model of which is noted that it does not keep to the form of answers."""

    __slots__ = ()

    @abstractmethod
    def note_form(self) -> None: ...

    @abstractmethod
    def note_unusable(self, answer: str, fault: str) -> None: ...


async def ask(
    model: Model,
    messages: Sequence[Message],
    shape: type[T],
    *,
    schema: JsonSchema | None = None,
    seed: int = 0,
    check: Check[T] | None = None,
    quotable: Sequence[str] = (),
    on_text: OnText | None = None,
) -> T:
    """Ask for an answer of this shape; if it does not fit, say why and ask again.

    `schema` replaces the shape's own, with limits that apply to this question only. `quotable` are
    texts of others that the model is shown: an object in one of them is no answer.

    Raises `AnswerError` after the last attempt, and `ModelError` if the call itself fails.
    """
    schema = schema_of(shape) if schema is None else schema

    def read(text: str) -> T:
        answer = parse_answer(text, shape, quotable)
        if fault := (check(answer) if check else None):
            raise ValueError(fault)
        if isinstance(model, NotesForm) and not is_bare(text):
            model.note_form()
        return answer

    form = form_in_words(schema)
    reply = partial(model.reply, schema=schema, seed=seed, on_text=on_text)
    return await _ask_until_read(model, messages, read, reply, form, on_text)


async def ask_for_text(
    model: Model,
    messages: Sequence[Message],
    *,
    seed: int = 0,
    check: Callable[[str], str | None],
    on_text: OnText | None = None,
) -> str:
    """As `ask`, for a text without any form. The same is asked again: a model that writes nothing
    but messages takes a note for one, and answers it."""
    seeds = count(seed)

    def read(text: str) -> str:
        text = text.strip()
        if fault := "it was empty" if not text else check(text):
            raise ValueError(fault)
        return text

    def reply(asked: Sequence[Message]) -> Awaitable[Reply]:
        return model.reply(asked, seed=next(seeds), on_text=on_text)

    return await _ask_until_read(model, messages, read, reply, None, on_text)


async def _ask_until_read(
    model: Model,
    messages: Sequence[Message],
    read: Callable[[str], R],
    reply_to: Callable[[Sequence[Message]], Awaitable[Reply]],
    form: str | None,
    on_text: OnText | None,
) -> R:
    """Ask until `read` raises no `ValueError`, which says what is wrong; `form` says how to answer
    better, None to ask the same again."""
    asked, fault, was_cut = list(messages), "", False
    reply: Reply | None = None
    for _ in range(1 + ASK_AGAIN):
        if reply is not None and on_text is not None:
            on_text(None)
        reply = await reply_to(asked)
        try:
            if reply.finish is Finish.LENGTH and not was_cut:
                # without its answer, which may be a list without end and would take up the room
                was_cut = True
                fault = f"it was cut at {_limit(reply)}, and so must be shorter"
                asked = [*messages, *_again(fault, form)]
                continue
            refuse_unfinished(reply)
            return read(reply.text)
        except ValueError as error:
            fault = str(error)
        except AnswerError as error:
            _keep_unusable(model, reply, str(error))
            raise
        if again := _again(fault, form):
            # its answer is included: a model that sees what it wrote corrects it, one that does not
            # writes something else
            asked += [Message(MessageRole.ASSISTANT, reply.text), *again]
    _keep_unusable(model, reply, fault)
    words = f"{model.label} was asked {1 + ASK_AGAIN} times and its answer: {fault}"
    raise UnfitAnswerError(words)


def _again(fault: str, form: str | None) -> list[Message]:
    """What a model is told of its answer."""
    if form is None:
        return []
    return [Message(MessageRole.USER, render("ask_again", fault=fault, form=form))]


def _limit(reply: Reply) -> str:
    return reply.limit or "the model's limit of output"


def _keep_unusable(model: Model, reply: Reply | None, fault: str) -> None:
    """So that a person can read what could not be used."""
    if reply is not None and reply.text.strip() and isinstance(model, NotesForm):
        model.note_unusable(reply.text, fault)


@cache
def _with_any_items(shape: type[Answer], field: str) -> type[Answer]:
    """The shape with a list of anything, whose items are looked at one by one."""
    fields: dict[str, Any] = {field: (list[Any], ...)}
    return create_model(shape.__name__, __base__=Answer, **fields)


async def ask_for_items(
    model: Model,
    messages: Sequence[Message],
    shape: type[Answer],
    item: type[T],
    *,
    fault: Callable[[T, Sequence[T]], str | None],
    enough: int = 1,
    schema: JsonSchema | None = None,
    seed: int = 0,
    quotable: Sequence[str] = (),
) -> list[T]:
    """Ask for an answer that is one list, and return its usable items, at least one unless none was
    given and `enough` is 0. Those of another form, or with a `fault` beside the ones before them,
    are left out. Where fewer than `enough` are usable, or none of those given, say why and ask
    again; at last, the answer with the most of them is taken.

    Raises as `ask`, where no answer had a usable item.
    """
    [field] = shape.model_fields
    best: list[T] = []

    def check(answer: Answer) -> str | None:
        kept: list[T] = []
        faults: list[str] = []
        for number, value in enumerate(getattr(answer, field), start=1):
            try:
                one = item.model_validate(value, strict=True)
                wrong = fault(one, kept)
            except ValidationError as error:
                wrong = faults_in(error)
            else:
                kept += [] if wrong else [one]
            faults += [f"{field}, number {number}: {wrong}"] if wrong else []
        best[:] = kept if len(kept) > len(best) else best
        if len(kept) >= enough and (kept or not faults):
            return None
        return "; ".join(faults[:5]) or f"{field}: {enough} expected, {len(kept)} found"

    try:
        await ask(
            model,
            messages,
            _with_any_items(shape, field),
            schema=schema or schema_of(shape),
            seed=seed,
            check=check,
            quotable=quotable,
        )
    except AnswerError:
        if not best:
            raise
    return best


def refuse_unfinished(reply: Reply) -> None:
    """Raise `AnswerError` for a refused or cut answer: asking again would get the same, once a
    shorter one has been asked for."""
    match reply.finish:
        case Finish.REFUSAL:
            raise AnswerError("the model refused to answer")
        case Finish.CONTENT_FILTER:
            raise AnswerError("the provider's content filter withheld the answer")
        case Finish.CONTEXT_FULL:
            raise AnswerError("the request is longer than the model's context")
        case Finish.LENGTH:
            raise AnswerError(f"the answer was cut at {_limit(reply)}")
        case Finish.STOP:
            pass


MOST_SHOWN: Final = 50_000
"""The most characters of one answer that are read while it is being written, from its beginning at
each piece. No regular answer has as many."""
_BLANKS: Final = str.maketrans("\n\r\t", "   ")
_NAMES: Final = {"latent_adversarial_goal": "hidden goal", "user_goal": "goal"}


def _read_so_far(text: str) -> Any:
    """What there is of a JSON answer that is being written; None where it cannot be read."""
    start = text.find("{")
    if start < 0 or len(text) > MOST_SHOWN:
        return None
    # raw line breaks in strings are none of JSON, but some servers allow them
    for readable in (text[start:], text[start:].translate(_BLANKS)):
        with suppress(ValueError):
            return from_json(readable, allow_partial="trailing-strings")
    return None


class StringField:
    """Passes on the text of one top-level string field, piece by piece, as it arrives.

    For display only: the result is parsed from the complete answer. So it never raises, and passes
    on nothing where the text is unexpected.
    """

    def __init__(self, field: str, on_text: OnText) -> None:
        self._field = field
        self._on_text = on_text
        self._answer, self._told = "", 0

    def feed(self, piece: str | None) -> None:
        """Process the next piece of the answer; None means that the answer begins again."""
        if piece is None:
            self._answer, self._told = "", 0
            self._on_text(None)
            return
        self._answer += piece
        found = _read_so_far(self._answer)
        text = found.get(self._field) if isinstance(found, dict) else None
        if isinstance(text, str) and len(text) > self._told:
            self._on_text(text[self._told :])
            self._told = len(text)


def strings_so_far(answer: str) -> str:
    """The strings of a JSON answer that is being written, but those in lists, each on a line of its
    own that begins with the name of its field."""
    return "\n".join(_named_strings(_read_so_far(answer), ""))


def _named_strings(value: object, name: str) -> Iterator[str]:
    match value:
        case dict():
            for key, inner in value.items():
                yield from _named_strings(inner, _NAMES.get(key, key.replace("_", " ")))
        case list():
            for inner in value:
                if isinstance(inner, dict):
                    yield from _named_strings(inner, name)
        case str() if value:
            yield f"{name}: {value}"
        case _:
            pass
