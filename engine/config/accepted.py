"""Single values of the configuration: what each may be, and what is said where it is not."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any, Final, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from engine.benchmark import name_fault
from engine.config.secret import VARIABLE
from engine.config.shown import shown
from engine.config.suggest import did_you_mean

_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_SERVED: Final = ("any", "same")
_NO_ADDRESS: Final = "this is no address, expected `https://host/path`"


class Shape(BaseModel):
    """The root of every shape: no key too many, no type bent into another, nothing shown."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", hide_input_in_errors=True)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("found empty text, expected some words")
    return text


def _safe_name(name: str) -> str:
    fault = name_fault(name)
    if fault is not None:
        raise ValueError(f"`{shown(name)}` cannot be a name: {fault}")
    return name


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
        raise ValueError(f"`{shown(name)}` cannot be the name of a header")
    return name


def _known_effort(word: str) -> str:
    if word not in _EFFORTS:
        hint = did_you_mean(word, _EFFORTS)
        raise ValueError(f"found `{shown(word)}`, expected one of {', '.join(_EFFORTS)}; {hint}")
    return word


def _usable_pace(value: object) -> object:
    """Checked whole: a union of types would have one complaint for each of them."""
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


def _whom_to_take(word: str) -> str:
    if word not in _SERVED:
        hint = did_you_mean(word, _SERVED)
        raise ValueError(f"found `{shown(word)}`, expected `any` or `same`; {hint}")
    return word


def _names_of_models(value: object) -> object:
    """One name, or a list of them. Checked whole, as with a pace."""
    names: list[Any] = [value] if isinstance(value, str) else []
    if isinstance(value, list | tuple):
        names = list(value)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError("expected a model's name, or a list of them, as the server writes it")
    return tuple(names)


def _usable_url(url: str) -> str:
    """What is wrong is said without the address: it may have a key in it."""
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


def empty_for_none(value: object) -> object:
    """A section whose lines are all commented out says nothing, which is no mistake."""
    return {} if value is None else value


Words = Annotated[str, Field(min_length=1), AfterValidator(_not_blank)]
Source = Annotated[Words, AfterValidator(lambda word: word.strip().lower())]
Name = Annotated[str, AfterValidator(_safe_name)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
Effort = Annotated[str, AfterValidator(_known_effort)]
Pace = Annotated[Literal["human", "instant"] | float | None, BeforeValidator(_usable_pace)]
Url = Annotated[str, AfterValidator(_usable_url)]
Served = Annotated[str, AfterValidator(_whom_to_take)]
ModelNames = Annotated[tuple[str, ...], BeforeValidator(_names_of_models)]

T = TypeVar("T")
Section = Annotated[T, BeforeValidator(empty_for_none)]
"""Keys and values that may be left out, or left empty."""
# YAML has no tuples, so a list is taken for one; its members stay strict.
Listed = Annotated[tuple[T, ...], Field(strict=False)]
Several = Annotated[tuple[T, ...], Field(strict=False, min_length=1)]
