"""Lint rules checked by a model, for what no pattern over words can find."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import ConfigDict, Field

from engine.benchmark import Metric, Scenario
from engine.display import one_line
from engine.lint import LONGEST, LintFinding, LintRule
from engine.prompts import without_marks
from engine.providers.model import Model
from engine.quotes import contains
from engine.stages.answers import Answer, ask_for_items, at_most, fence_of, messages_of

OF_METRICS: Final = (
    LintRule.ONE_BEHAVIOUR,
    LintRule.NOT_VISIBLE,
    LintRule.DIRECTION,
    LintRule.NEAR_MISS,
    LintRule.EXAMPLE_NOT_SAID,
)
OF_SCENARIOS: Final = (
    LintRule.PERSONA_GROUP,
    LintRule.MENTIONS_TESTS,
    LintRule.PRESSURE_NOT_RISING,
    LintRule.GOAL_GIVEN_AWAY,
)
"""Rules about one scenario by itself; similarity of two is computed, not judged by a model."""
_MOST: Final = 20
"""The most findings taken from one answer."""
_LONGEST: Final = 200
"""The most characters of each text in a finding."""


class Found(Answer):
    rule: str
    quote: str
    says: str


class LintFindings(Answer):
    model_config = ConfigDict(title="lint_findings")
    findings: list[Found] = Field(json_schema_extra=at_most(_MOST))


async def read_metric(model: Model, metric: Metric) -> list[LintFinding]:
    """The model's findings in a metric, each with a verified quote. Raises `ModelError`."""
    material = {
        "name": metric.name,
        "type": metric.track.value,
        "definition": metric.definition,
        "examples": list(metric.examples),
    }
    return await _read(model, "lint_metric", metric.id, material, OF_METRICS)


async def read_scenario(
    model: Model, scenario: Scenario, definition: str, turns: int
) -> list[LintFinding]:
    """The model's findings in a base scenario of a metric with this definition, each with a
    verified quote. Raises `ModelError`."""
    material = {
        "persona": scenario.persona,
        "wants": scenario.user_goal,
        "hidden goal": scenario.latent_adversarial_goal,
        "landmarks": [
            {"turn": mark.turn, "instruction": mark.instruction} for mark in scenario.landmarks
        ],
    }
    values = {"turns": str(turns), "definition": without_marks(definition[:LONGEST])}
    return await _read(model, "lint_scenario", scenario.id, material, OF_SCENARIOS, **values)


async def _read(
    model: Model,
    prompt: str,
    of: str,
    material: Mapping[str, Any],
    rules: Sequence[LintRule],
    **values: str,
) -> list[LintFinding]:
    body = without_marks(json.dumps(material, ensure_ascii=False, indent=1))
    listed = "\n".join(f"- {rule}: {rule.sentence}" for rule in rules)
    all_values = {"material": body, "fence": fence_of(body), "rules": listed, **values}
    messages = messages_of("lint_system", prompt, **all_values)

    def fault(given: Found, _before: Sequence[Found]) -> str | None:
        if given.rule in rules:
            return None
        return f"rule: expected one of {[*map(str, rules)]}, found {given.rule[:100]!r}"

    given = await ask_for_items(model, messages, LintFindings, Found, fault=fault, enough=0)
    texts = list(_texts(material))
    # findings whose quote is not there are dropped
    found = (
        (row, next((text for text in texts if contains(text, row.quote)), None)) for row in given
    )
    return [
        LintFinding(
            LintRule(row.rule),
            of,
            f"{one_line(row.says, _LONGEST)} (“{one_line(row.quote, _LONGEST)}”, {model.label})",
            text=text,
        )
        for row, text in found
        if text is not None
    ][:_MOST]


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for member in value.values():
            yield from _texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from _texts(member)
