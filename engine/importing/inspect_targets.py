"""The models that logs of Inspect tested, and the settings under which they were tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from engine.benchmark import UNKNOWN
from engine.importing.fields import is_secret, without_secrets
from engine.importing.inspect_shapes import InspectResults
from engine.importing.inspect_speech import TARGET

EXPORTER: Final = "crosswind"
"""The package that our own export names."""
_SOURCES: Final = frozenset({"openai", "anthropic"})
"""Providers whose models are called by the same names here."""

LoggedSettings = Mapping[str, str]
"""By name, each value as JSON."""


@dataclass(slots=True)
class LoggedTargets:
    """The targets of one benchmark's logs. A model that was tested under several settings is
    several targets, of which the second and later ones are numbered."""

    tested: dict[str, list[LoggedSettings]] = field(default_factory=dict)
    """The settings under which each model was tested, in the order of the logs; also those of
    earlier imports."""
    differences: list[str] = field(default_factory=list)
    """What is different about each numbered target, in words."""

    def of(self, about: InspectResults) -> dict[str, str]:
        """Return a log's target as in a row of our own file."""
        ours = (about.metadata or {}).get("target") if EXPORTER in about.packages else None
        role = model_of(about, TARGET) or about.model or UNKNOWN
        source, _, model = role.partition("/")
        is_ours = source in _SOURCES and model
        known = {"model": model, "source": source} if is_ours else {"model": role}
        name = ours if isinstance(ours, str) else self._numbered(role, _settings(about))
        return {"id": name, "label": role, **known}

    def _numbered(self, role: str, settings: LoggedSettings) -> str:
        tested = self.tested.setdefault(role, [])
        if settings not in tested:
            tested.append(settings)
        number = tested.index(settings) + 1
        if number == 1:
            return role
        difference = _difference(role, number, tested[0], settings)
        if difference not in self.differences:
            self.differences.append(difference)
        return f"{role} {number}"


def _settings(about: InspectResults) -> LoggedSettings:
    """Return what a person set for the task, its solver and the model under test."""
    role = _of_role(about, TARGET)
    tested = role if isinstance(role, dict) else {}
    groups = {
        "task_args": about.task_args,
        "model_args": tested.get("args") or about.model_args,
        "config": tested.get("config") or about.model_generate_config,
        "solver_args": about.solver_args,
    }
    named = {
        f"{group}.{name}": value
        for group, values in groups.items()
        if isinstance(values, dict)
        for name, value in values.items()
        if not is_secret(name)
    }
    named["solver"] = about.solver
    return {
        name: msgspec.json.encode(without_secrets(value)).decode()
        for name, value in named.items()
        if value is not None
    }


def _difference(role: str, number: int, first: LoggedSettings, settings: LoggedSettings) -> str:
    changed = [
        name for name in sorted({*first, *settings}) if first.get(name) != settings.get(name)
    ]
    listed = [
        f"{name[:100]} {settings.get(name, 'unset')[:60]} (the first: "
        f"{first.get(name, 'unset')[:60]})"
        for name in changed[:3]
    ]
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    return f"target {role} {number} is {role} with {', '.join(listed)}{more}"


def _of_role(about: InspectResults, role: str) -> object:
    named = (about.model_roles or {}).get(role)
    # a role may have several models, of which the first is named
    return named[0] if isinstance(named, list) and named else named


def model_of(about: InspectResults, role: str) -> str | None:
    """Return the model of a role, by the name that the log has for it."""
    named = _of_role(about, role)
    model = named.get("model") if isinstance(named, dict) else named
    return model if isinstance(model, str) else None
