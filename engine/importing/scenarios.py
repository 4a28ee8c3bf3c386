"""Scenario rows of others, brought into the form that our own reader takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from engine.benchmark import Scenario
from engine.errors import Problem
from engine.importing.fields import OURS, PARTIAL, JsonObject
from engine.importing.names import our_metric_id, our_scenario_id
from engine.importing.secrets import is_secret, without_secrets
from engine.store.files import read_scenario

PERSONA_USED: Final = "persona_used"
"""In a scenario's extra keys: which of `persona` and `user_persona` the user model was told."""

_OF_A_CONVERSATION: Final = frozenset(
    "conv_id target target_model sample _sample transcript _usage model source base_url params "
    "temperature max_tokens present passed score justification".split()
) | {OURS, PARTIAL}
_GOALS: Final = frozenset({"user_goal", "latent_adversarial_goal"})


def has_set_up(row: JsonObject) -> bool:
    """Whether a conversation's row holds its scenario, as it did in the first months."""
    return row.keys() >= _GOALS and ("persona" in row or "user_persona" in row)


def scenario_of(
    row: JsonObject, *, path: Path, index: int, metrics: Collection[str]
) -> tuple[Scenario | None, list[Problem]]:
    """None where our reader refuses it, with all that is wrong."""
    fields = _plain(row)
    known = metrics or {str(fields.get("metric_id"))}
    scenario, problems = read_scenario(fields, path=path, index=index, metrics=known)
    if scenario is None or "user_persona" not in row:
        return scenario, problems
    used = "persona" if "persona" in fields else "user_persona"
    return replace(scenario, extra={**scenario.extra, PERSONA_USED: used}), problems


def _plain(row: JsonObject) -> dict[str, object]:
    """Without what belongs to a conversation, and without keys and headers."""
    fields: dict[str, object] = {
        name: without_secrets(value)
        for name, value in row.items()
        if name not in _OF_A_CONVERSATION and not is_secret(name)
    }
    demographic = fields.get("demographic")
    if isinstance(demographic, dict):
        fields["demographic"] = {
            axis: value for axis, value in demographic.items() if value is not None
        }
    if fields.get("persona") is None:
        fields.pop("persona", None)
    return fields


def base_of(row: JsonObject, variant: Scenario, *, path: Path, index: int) -> Scenario | None:
    """The base scenario that our own file tells with the first of its variants."""
    ours = row.get(OURS)
    base = ours.get("base") if isinstance(ours, dict) else None
    if not isinstance(base, dict) or variant.base_id == variant.id:
        return None
    fields = {**base, "id": variant.base_id, "metric_id": variant.metric_id}
    scenario, _ = read_scenario(fields, path=path, index=index, metrics={variant.metric_id})
    return scenario


def source_of(row: JsonObject) -> str:
    ours = row.get(OURS)
    is_models = isinstance(ours, dict) and ours.get("source") == "model"
    return "model" if is_models else "file"


def differ(one: Scenario, other: Scenario) -> bool:
    """In anything that a conversation depends on."""
    return _told(one) != _told(other)


def _told(scenario: Scenario) -> tuple[object, ...]:
    return (
        *(scenario.metric_id, scenario.persona, scenario.user_goal),
        *(scenario.latent_adversarial_goal, scenario.landmarks, dict(scenario.demographic)),
        scenario.target_system_prompt,
    )


def published_set_up(scenario: Mapping[str, Any], published_id: str) -> dict[str, Any]:
    """A published scenario as a row of `scenarios.json`, under our id, with theirs beside it."""
    row = dict(scenario)
    metric = row.get("metric_id")
    if isinstance(metric, str):
        row["metric_id"] = our_metric_id(metric) or metric
    row["id"] = our_scenario_id(published_id) or published_id
    if row["id"] != published_id:
        row["published_id"] = published_id
    if "metric" in row:
        row["published_metric"] = row.pop("metric")
    return row
