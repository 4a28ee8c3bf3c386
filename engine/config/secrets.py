"""Keys: looked up at the moment of use, and wrapped so that nothing shows one by accident."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, Self, SupportsIndex

from dotenv.parser import parse_stream
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from engine.errors import InputError, Problem
from engine.files import open_regular
from engine.trust import NOWHERE, Permission, Trust

VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable."""
_MISWRITTEN: Final = re.compile(r"(?<![A-Za-z0-9$])\$\{?\s*([A-Za-z_][A-Za-z0-9_]*)")


def texts_in(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, str]]:
    """Every text in a structure, with its place."""
    match value:
        case str():
            yield at, value
        case Mapping():
            for key, inner in value.items():
                yield from texts_in(inner, (*at, key))
        case list() | tuple():
            for place, inner in enumerate(value):
                yield from texts_in(inner, (*at, place))


def texts_with_variables(value: object) -> list[str]:
    """Every text in it that has a `${NAME}`, as it is written."""
    return [text for _, text in texts_in(value) if VARIABLE.search(text)]


def variables_in(value: object) -> tuple[str, ...]:
    """Every variable that a text, or a structure of texts, refers to, in order of appearance."""
    names = (name for _, text in texts_in(value) for name in VARIABLE.findall(text))
    return tuple(dict.fromkeys(names))


def miswritten_variable(text: str) -> str | None:
    """The variable that a text means as a shell would read it, as `$NAME` or `${NAME:-word}`, which
    is no reference here; None where there is none."""
    match = _MISWRITTEN.search(VARIABLE.sub(" ", text))
    return None if match is None else match[1]


class Secret:
    """Text that may be or contain a key. Only `template` returns it; all else shows a mask."""

    __slots__ = ("_template",)
    _template: str

    def __init__(self, template: str) -> None:
        # bypasses our own `__setattr__`, which refuses
        object.__setattr__(self, "_template", template)

    @property
    def template(self) -> str:
        """The text as it is written, with variables not filled in."""
        return self._template

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables it refers to."""
        return tuple(VARIABLE.findall(self._template))

    @property
    def is_reference(self) -> bool:
        """Whether it is a single variable and nothing else, so that the file holds no key."""
        return VARIABLE.fullmatch(self._template.strip()) is not None

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("a secret does not change")

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._template == other._template

    def __hash__(self) -> int:
        return hash((Secret, self._template))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        # pickled, it would be plain text wherever a process or a cache puts it
        raise TypeError("a secret is not to be pickled")

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validated from text, and always serialised as a mask."""
        return core_schema.no_info_after_validator_function(
            cls,
            core_schema.str_schema(strict=True, min_length=1),
            # as the mask, so that `model_dump` and JSON of a configuration show no key
            serialization=core_schema.plain_serializer_function_ser_schema(str),
        )


MAX_BYTES: Final = 1024 * 1024

_KEY: Final = re.compile(r"[\x21-\x7e]+")
_HEADER: Final = re.compile(r"[\x20-\x7e]+")


class Environment:
    """The variables that a workspace's configuration can refer to: those of the process, then
    `.env`. Its `repr` shows none, and it cannot be pickled."""

    def __init__(self, workspace_root: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._dotenv_path = workspace_root / ".env"
        self.trust = Trust(workspace_root, environ)
        self._environ = environ
        self._dotenv: Dotenv | None = None

    def __repr__(self) -> str:
        return f"Environment({str(self._dotenv_path.parent)!r})"

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("an environment holds keys and is not to be pickled")

    @property
    def root(self) -> Path:
        """The workspace, whose `.env` is read."""
        return self._dotenv_path.parent

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables of the process, without those in `.env`."""
        return self._environ

    def variables(self, call: str) -> dict[str, str]:
        """The variables of both places, for the process of a function of the workspace. Raises
        `UntrustedError`."""
        self.trust.require([Permission(NOWHERE, call)])
        return {**self.own_values(), **self._environ}

    def own_values(self) -> Mapping[str, str]:
        """The variables in `.env`."""
        return self._from_file().values

    def holds(self, variable: str) -> bool:
        """Whether the variable has a non-empty value in either place."""
        return bool(self._value(variable))

    def require(self, names: Iterable[str], to: str) -> None:
        """Raise `UntrustedError` unless these variables may be sent there."""
        if to:
            self.trust.require([Permission(to, name) for name in names])

    def resolve(self, text: str, *, where: str, to: str) -> str:
        """`text` with every `${VAR}` filled in, to be sent to an address that begins with `to`, or
        `NOWHERE`. Raises `UntrustedError`, and `InputError` for missing ones, whose message names
        `where`."""
        self.require(VARIABLE.findall(text), to)
        missing = [name for name in VARIABLE.findall(text) if not self.holds(name)]
        if missing:
            del text
            raise InputError([self._missing(name, where) for name in dict.fromkeys(missing)])
        return VARIABLE.sub(lambda match: self._value(match.group(1)), text)

    def hidden_values(self, texts: Iterable[str]) -> tuple[str, ...]:
        """The values of all variables in these texts, to be hidden wherever they appear; of a whole
        address the part behind the host."""
        values = [self._value(name) for name in variables_in(list(texts))]
        paths = [value.partition("://")[2].partition("/")[2].strip("/") for value in values]
        return tuple(
            hidden
            for value, path in zip(values, paths, strict=True)
            if (hidden := path if "://" in value else value)
        )

    def key(self, secret: Secret, *, where: str, to: str) -> str:
        """A key, ready to be sent there. Raises `InputError`, which never contains it."""
        text = self.resolve(secret.template, where=where, to=to)
        return _sendable(text, secret, where, allowed=_KEY, expected="letters, digits and signs")

    def header(self, secret: Secret, *, where: str, to: str) -> str:
        """The value of a header, ready to be sent there. Raises `InputError`, which never contains
        it."""
        text = self.resolve(secret.template, where=where, to=to)
        return _sendable(text, secret, where, allowed=_HEADER, expected="plain ASCII text")

    def _value(self, variable: str) -> str:
        """The value; empty where it is set in neither place. An empty variable counts as unset."""
        return self._environ.get(variable, "") or self._from_file().values.get(variable, "")

    def _from_file(self) -> Dotenv:
        if self._dotenv is None:
            self._dotenv = read_dotenv(self._dotenv_path)
        return self._dotenv

    def _missing(self, variable: str, where: str) -> Problem:
        dotenv = self._from_file()
        is_empty = variable in self._environ or variable in dotenv.values
        state = "is set, but empty" if is_empty else "is not set"
        looked = f"looked in the environment and in {self._dotenv_path}"
        if dotenv.unreadable_lines:
            lines = ", ".join(str(line) for line in dotenv.unreadable_lines)
            looked += f", where these lines cannot be read: {lines}"
        return Problem(
            f"the variable {variable} {state} ({looked})",
            key=where,
            hint=f"run `export {variable}=…`, or add a line `{variable}=…` to .env",
        )


def _sendable(
    text: str, secret: Secret, where: str, *, allowed: re.Pattern[str], expected: str
) -> str:
    # the HTTP library's error for a value with a line end or an invalid character would show the
    # value
    text = text.strip()
    if allowed.fullmatch(text):
        return text
    fault = "has a character that cannot be sent" if text else "is empty"
    del text
    source = ", ".join(f"${{{name}}}" for name in secret.variables)
    place = f" (it comes from {source})" if source else ""
    what = f"this key or header {fault}{place}, expected {expected}"
    raise InputError(Problem(what, key=where, hint="copy it anew from where you got it"))


@dataclass(frozen=True, slots=True, repr=False)
class Dotenv:
    """The content of `.env`. Without a `repr`, as it holds keys."""

    values: Mapping[str, str] = field(default_factory=dict)
    unreadable_lines: tuple[int, ...] = ()


def read_dotenv(path: Path) -> Dotenv:
    text = _dotenv_text(path)
    if isinstance(text, Problem):
        raise InputError(text)
    # not `dotenv_values`: it only logs the lines that it cannot read, and it fills in variables,
    # while a `$` in a key is part of the key
    bindings = list(parse_stream(io.StringIO(text)))
    return Dotenv(
        {
            binding.key: binding.value
            for binding in bindings
            if binding.key is not None and binding.value is not None
        },
        tuple(binding.original.line for binding in bindings if binding.error),
    )


def _dotenv_text(path: Path) -> str | Problem:
    try:
        if not path.exists():
            return ""
        if not path.is_file():
            return Problem("this is not a file, expected lines of the form NAME=value", path)
        with open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        return Problem(f"this file cannot be read: {error.strerror or 'unknown reason'}", path)
    if len(raw) > MAX_BYTES:
        return Problem(
            "this file is larger than 1 MiB, expected lines of the form NAME=value", path
        )
    try:
        # editors on Windows write a byte order mark, which would become part of the first name
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # the error object holds the whole file, so only the offset leaves this function
        offset = error.start
    return Problem(
        f"this file is not UTF-8 (the byte at offset {offset})", path, hint="save it as UTF-8"
    )
