"""The values of variables that no text which leaves the workspace may hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from engine.config.schema import ModelSpec
from engine.config.secrets import Environment
from engine.config.values import texts_with_variables
from engine.errors import InputError
from engine.trust import NOWHERE


def secret_values(specs: Iterable[ModelSpec], environment: Environment) -> set[str]:
    """Every key, header and looked-up text of these models whose variables are set."""
    found = set[str]()
    for spec in specs:
        secrets = [*spec.sent_headers.values(), *([] if spec.apikey is None else [spec.apikey])]
        templates = [
            *(secret.template for secret in secrets),
            *texts_with_variables(spec.sent_body),
        ]
        found.update(_resolved_templates(templates, environment))
        found.update(environment.hidden_values([spec.model, spec.address]))
    return found


def _resolved_templates(templates: Sequence[str], environment: Environment) -> Iterator[str]:
    for template in templates:
        try:
            yield environment.resolve(template, where="secret", to=NOWHERE).strip()
        except InputError:
            continue
