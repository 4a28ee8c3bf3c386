"""Where a model is reached, said in such a way that whoever makes the request looks the keys up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from secrets import token_bytes
from typing import Any, Final

from engine.config.checks import SECRET_HEADER
from engine.config.schema import ModelSpec, Target
from engine.config.secrets import VARIABLE, Environment, Secret, variables_in
from engine.errors import InputError, Problem
from engine.providers.endpoint import AsWritten, Endpoint, ExtraBody

_SALT: Final = token_bytes(16)
_KEY: Final = "the apikey"
"""No header has a name like that."""


@dataclass(frozen=True, slots=True)
class GivenValues:
    """What agents are told of keys, which else they look up where they are."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    """By the name of a variable; filled as models are opened."""
    forwards: bool = False
    """Whether every variable of the configuration is told, which a person asked for."""
    at_home: bool = False
    """Whether agents are processes of this engine's, on this machine."""


def written_endpoint(
    found: Endpoint, spec: ModelSpec, environment: Environment, given: GivenValues
) -> Endpoint:
    """The endpoint for requests that an agent makes: key, headers and body keep their variables.

    Raises `InputError` for a key in plain text where that may not be told.
    """
    url, body = _address_and_body(spec)
    if not VARIABLE.search(url):
        url = found.base_url
    sent = {name: _told(name, secret, spec, given) for name, secret in _secrets(spec).items()}
    key = sent.pop(_KEY, None)
    names = variables_in([url, key or "", sent, body])
    if given.forwards:
        held = [name for name in names if environment.holds(name)]
        given.values.update({name: environment.resolve(f"${{{name}}}", where="") for name in held})
    return replace(
        found,
        key=found.key if key is None else lambda: key,
        headers=lambda: sent,
        extra_body=lambda: ExtraBody(body),
        as_written=AsWritten(url, names),
    )


def _address_and_body(spec: ModelSpec) -> tuple[str, Mapping[str, Any]]:
    if isinstance(spec, Target) and spec.url is not None:
        return spec.url, spec.request or {}
    return spec.base_url or "", spec.extra_body


def _secrets(spec: ModelSpec) -> Mapping[str, Secret]:
    """The headers, and the key."""
    headers = spec.sent_headers
    return headers if spec.apikey is None else {**headers, _KEY: spec.apikey}


def _told(name: str, secret: Secret, spec: ModelSpec, given: GivenValues) -> str:
    """What a request to an agent says of a key or header."""
    if secret.variables or not (name == _KEY or SECRET_HEADER.search(name)):
        return secret.template
    if not (given.at_home or given.forwards):
        what = f"{name} of {spec.label} is a key in plain text, and no worker is told one"
        hint = "write its variable, and set that where the workers run; or use --forward-keys"
        raise InputError(Problem(what, hint=hint))
    # a name that says nothing to whoever sees it
    digest = blake2b(secret.template.encode(), key=_SALT, digest_size=8).hexdigest()
    variable = f"CROSSWIND_GIVEN_{digest}"
    given.values[variable] = secret.template.strip()
    return f"${{{variable}}}"
