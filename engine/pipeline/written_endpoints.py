"""Describes endpoints so that a worker agent, which makes the request, looks up the keys itself."""

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
"""Not a valid name of a header."""


@dataclass(frozen=True, slots=True)
class GivenValues:
    """Keys that agents are told; all others they look up where they run."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    """By the name of a variable; filled as models are opened."""
    at_home: bool = False
    """Whether agents are local processes started by this engine."""


def written_endpoint(
    endpoint: Endpoint, spec: ModelSpec, environment: Environment, given: GivenValues
) -> Endpoint:
    """The endpoint for requests by an agent, with variables left in the key, headers and body.

    Raises `InputError` for a key in plain text that agents may not be told.
    """
    url, body = _address_and_body(spec)
    if not VARIABLE.search(url):
        url = endpoint.base_url
    sent = {
        name: _header_for_agent(name, secret, spec, given)
        for name, secret in _secrets(spec).items()
    }
    key = sent.pop(_KEY, None)
    names = variables_in([url, key or "", sent, body])
    environment.require(names, spec.destination)
    return replace(
        endpoint,
        key=endpoint.key if key is None else lambda: key,
        headers=lambda: sent,
        extra_body=lambda: ExtraBody(body),
        as_written=AsWritten(url, names),
    )


def _address_and_body(spec: ModelSpec) -> tuple[str, Mapping[str, Any]]:
    if isinstance(spec, Target) and spec.url is not None:
        return spec.url, spec.request or {}
    return spec.base_url or "", spec.extra_body


def _secrets(spec: ModelSpec) -> Mapping[str, Secret]:
    """The headers, and the key under `_KEY`."""
    headers = spec.sent_headers
    return headers if spec.apikey is None else {**headers, _KEY: spec.apikey}


def _header_for_agent(name: str, secret: Secret, spec: ModelSpec, given: GivenValues) -> str:
    """The value of a key or header as it is sent to an agent."""
    if secret.variables or not (name == _KEY or SECRET_HEADER.search(name)):
        return secret.template
    if not given.at_home:
        what = f"{name} of {spec.label} is a key in plain text, and no worker is told one"
        hint = "write its variable, and set that where the workers run"
        raise InputError(Problem(what, hint=hint))
    # a digest, so that the name reveals nothing
    digest = blake2b(secret.template.encode(), key=_SALT, digest_size=8).hexdigest()
    variable = f"CROSSWIND_GIVEN_{digest}"
    given.values[variable] = secret.template.strip()
    return f"${{{variable}}}"
