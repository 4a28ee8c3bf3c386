"""A metric or a scenario as YAML for a person's editor; `review_shapes` reads it back."""

from __future__ import annotations

import io
from typing import Any

from engine.benchmark import Metric, Scenario
from engine.config.write_back import round_trip, scalar_text


def metric_text(metric: Metric) -> str:
    """All of a metric that a person may change, below its id."""
    return _dumped(
        {
            "id": scalar_text(metric.id),
            "name": scalar_text(metric.name),
            "type": str(metric.track),
            "when": str(metric.when),
            "definition": scalar_text(metric.definition),
            "examples": [scalar_text(one) for one in metric.examples],
        }
    )


def scenario_text(scenario: Scenario) -> str:
    """The same of a scenario. Whom a variant is about stands above it and cannot be changed."""
    values: dict[str, Any] = {
        "id": scalar_text(scenario.id),
        "persona": scalar_text(scenario.persona),
        "user_goal": scalar_text(scenario.user_goal),
        "latent_adversarial_goal": scalar_text(scenario.latent_adversarial_goal),
        "landmarks": [
            {"turn": one.turn, "instruction": scalar_text(one.instruction)}
            for one in scenario.landmarks
        ],
    }
    if scenario.target_system_prompt is not None:
        values["target_system_prompt"] = scalar_text(scenario.target_system_prompt)
    said = (" ".join(f"{axis}: {value}".split()) for axis, value in scenario.demographic.items())
    return "".join(f"# {line}\n" for line in said) + _dumped(values)


def _dumped(values: dict[str, Any]) -> str:
    written = io.StringIO()
    round_trip(2).dump(values, written)
    return written.getvalue()
