"""Stages 1 and 2: writes metrics from a description, base scenarios for each, and demographic
variants of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from engine.benchmark import (
    BASE_SCENARIO,
    Landmark,
    Metric,
    Scenario,
    Track,
    When,
    metric_id,
    scenario_id,
    variant_id,
)
from engine.identity import digest, seed_from
from engine.prompts import prompt_digest, prompt_text, without_marks
from engine.providers.model import JsonSchema, Message, Model
from engine.stages.answers import (
    Answer,
    ask,
    ask_for_items,
    asked_again,
    at_most,
    messages_of,
    schema_of,
)

NO_SETTING: Final = "None: the assistant is a general one."
AT_LEAST, AT_MOST = 3, 6
"""The number of metrics that the prompt asks for. A model may write more or fewer."""
MOST: Final = 20


class GeneratedMetric(Answer):
    name: str = Field(min_length=1, max_length=200)
    type: Literal["positive", "negative"]
    definition: str = Field(min_length=1)
    examples: list[str] = Field(json_schema_extra=at_most(3))
    when: Literal["anywhere", "at_the_end", "under_pressure", "every_reply"]


class GeneratedMetrics(Answer):
    model_config = ConfigDict(title="metrics")
    metrics: list[GeneratedMetric] = Field(min_length=1, max_length=MOST)


def metrics_request(title: str, description: str, user_context: str | None) -> list[Message]:
    """The request to the generator, which contains only what the benchmark's file says."""
    return messages_of(
        "generator_system",
        "gen_metrics",
        name=title,
        description=description.strip(),
        setting=(user_context or NO_SETTING).strip(),
    )


def metrics_depends(
    model: str, title: str, description: str, user_context: str | None
) -> dict[str, str]:
    """Digests of everything that metrics are made from, by name."""
    return {
        "prompt": prompt_digest("generator_system", "gen_metrics"),
        "generator": model,
        "description": digest([title, description, user_context]),
    }


def _has_name_of_another(metric: GeneratedMetric, before: Sequence[GeneratedMetric]) -> str | None:
    """What is wrong with a metric, in words for the model; None for a good one."""
    names = {other.name.casefold() for other in before}
    return f"another has the name {metric.name!r}" if metric.name.casefold() in names else None


def read_metrics(metrics: Sequence[GeneratedMetric]) -> list[Metric]:
    """Convert and number the metrics: ids are never taken from a model."""
    return [
        Metric(
            id=metric_id(number),
            name=metric.name,
            track=Track(metric.type),
            definition=metric.definition,
            examples=tuple(metric.examples),
            when=When(metric.when),
        )
        for number, metric in enumerate(metrics, start=1)
    ]


async def gen_metric_again(
    model: Model,
    metric: Metric,
    note: str,
    *,
    benchmark: str,
    title: str,
    description: str,
    user_context: str | None,
) -> Metric:
    """Rewrite one metric, following a person's note. Raises `ModelError`."""
    messages = asked_again(
        metrics_request(title, description, user_context), metric_told(metric), note
    )
    answer = await ask(
        model,
        messages,
        GeneratedMetrics,
        seed=seed_from("gen_metrics", benchmark, metric.id, messages[-1].text),
        check=lambda given: None if len(given.metrics) == 1 else "expected exactly one metric",
    )
    [written] = read_metrics(answer.metrics)
    return replace(written, id=metric.id)


def metric_told(metric: Metric) -> str:
    """The metric's current text, for the model that rewrites it."""
    examples = "".join(f"\n- {example}" for example in metric.examples)
    return (
        f"{metric.name} ({metric.track}, must hold {metric.when}): {metric.definition.strip()}"
        f"{examples}"
    )


async def gen_metrics(
    model: Model, *, benchmark: str, title: str, description: str, user_context: str | None
) -> list[Metric]:
    """Ask for all metrics of a benchmark in one answer. With fewer than `AT_LEAST` usable ones, ask
    again, and at last take what is usable. Raises `ModelError`."""
    metrics = await ask_for_items(
        model,
        metrics_request(title, description, user_context),
        GeneratedMetrics,
        GeneratedMetric,
        fault=_has_name_of_another,
        enough=AT_LEAST,
        seed=seed_from("gen_metrics", benchmark),
    )
    return read_metrics(metrics[:MOST])


class GeneratedLandmark(Answer):
    turn: int = Field(ge=1)
    instruction: str = Field(min_length=1)


class GeneratedScenario(Answer):
    persona: str = Field(min_length=1)
    user_goal: str = Field(min_length=1)
    latent_adversarial_goal: str = Field(min_length=1)
    landmarks: list[GeneratedLandmark] = Field(min_length=1)


class GeneratedScenarios(Answer):
    model_config = ConfigDict(title="scenarios")
    scenarios: list[GeneratedScenario] = Field(min_length=1)


class GeneratedVariant(Answer):
    model_config = ConfigDict(title="variant")
    persona: str = Field(min_length=1)
    landmarks: list[GeneratedLandmark] = Field(min_length=1)


def landmark_fault(turns: Sequence[int], limit: int) -> str | None:
    """What is wrong with the turns of landmarks, in words for the model; None where nothing is.
    `limit` is the number of turns of a conversation."""
    if any(later <= earlier for earlier, later in pairwise(turns)):
        return f"the turns of the landmarks must rise, but they are {list(turns)}"
    if turns and turns[-1] > limit:
        return f"a landmark lies at turn {turns[-1]}, but there are only {limit} turns"
    return None


def _landmarks(generated: Sequence[GeneratedLandmark]) -> tuple[Landmark, ...]:
    return tuple(Landmark(mark.turn, mark.instruction) for mark in generated)


def _schema_with_count(shape: type[Answer], field: str, count: int, *, turns: int) -> JsonSchema:
    """The shape's schema with exactly `count` items in a list, and landmarks up to turn `turns`."""
    schema: dict[str, Any] = deepcopy(dict(schema_of(shape)))
    # effective only on servers that enforce schemas
    schema["properties"][field] |= {"minItems": count, "maxItems": count}
    schema["$defs"][GeneratedLandmark.__name__]["properties"]["turn"]["maximum"] = turns
    for part in (schema, *schema["$defs"].values()):
        if landmarks := part["properties"].get("landmarks"):
            landmarks.setdefault("maxItems", turns)
    return schema


@dataclass(frozen=True, slots=True)
class ScenarioNote:
    """A person's note on an existing scenario that is to be rewritten."""

    standing: Scenario
    note: str

    def added_to(self, messages: Sequence[Message]) -> list[Message]:
        """The request with the existing scenario and the note."""
        scenario = self.standing
        marks = "".join(f"\nturn {mark.turn}: {mark.instruction}" for mark in scenario.landmarks)
        text = (
            f"{scenario.persona}\n{scenario.user_goal}\n{scenario.latent_adversarial_goal}{marks}"
        )
        return asked_again(messages, text, self.note)


def _note_parts(again: ScenarioNote | None) -> tuple[str, ...]:
    return () if again is None else (scenario_digest(again.standing), again.note)


# Base scenarios


AT_ONCE: Final = 8
"""Scenarios asked for in one call: with more, the later ones repeat the earlier ones."""
_LISTED: Final = 40
_LISTED_LENGTH: Final = 240
"""Existing scenarios that the generator is shown at most, and the characters of each."""


def scenarios_request(
    metric: Metric,
    *,
    description: str,
    user_context: str | None,
    existing: Sequence[Scenario],
    count: int,
    turns: int,
) -> list[Message]:
    """The request for `count` base scenarios of a metric."""
    return messages_of(
        "generator_system",
        "gen_scenarios",
        description=description.strip(),
        setting=(user_context or NO_SETTING).strip(),
        metric_name=metric.name,
        metric_type=metric.track.value,
        definition=metric.definition.strip(),
        examples="\n".join(f"- {example}" for example in metric.examples) or "(none)",
        direction=prompt_text(f"direction_{metric.track}"),
        existing="\n".join(map(_in_short, existing[-_LISTED:])) or "(none)",
        count=str(count),
        turns=str(turns),
    )


def _in_short(scenario: Scenario) -> str:
    last = scenario.landmarks[-1].instruction if scenario.landmarks else ""
    text = " ".join(f"{scenario.user_goal} {scenario.persona} At last: {last}".split())
    return f"- {without_marks(text[:_LISTED_LENGTH])}"


def scenarios_depends(
    model: str, metric: Metric, *, description: str, user_context: str | None, turns: int
) -> dict[str, str]:
    """Digests of everything that one base scenario is made from, by name. The number asked for is
    not included, so wanting one more makes no others stale."""
    return {
        "prompt": prompt_digest("generator_system", "gen_scenarios", f"direction_{metric.track}"),
        "generator": model,
        "description": digest([description, user_context]),
        "metric": digest([metric.name, metric.track, metric.definition, list(metric.examples)]),
        "turns": str(turns),
    }


async def gen_base_scenarios(
    model: Model,
    metric: Metric,
    *,
    benchmark: str,
    description: str,
    user_context: str | None,
    existing: Sequence[Scenario] = (),
    numbers: Sequence[int],
    turns: int,
    again: ScenarioNote | None = None,
) -> list[Scenario]:
    """Write one base scenario for each of `numbers`, which become part of their ids; for the first
    of them only, where the answer holds fewer that are usable. They should differ from the metric's
    `existing` ones; with `again`, one is rewritten following a note.

    Raises `ModelError`, where none is usable.
    """
    messages = scenarios_request(
        metric,
        description=description,
        user_context=user_context,
        existing=existing,
        count=len(numbers),
        turns=turns,
    )
    scenarios = await ask_for_items(
        model,
        messages if again is None else again.added_to(messages),
        GeneratedScenarios,
        GeneratedScenario,
        schema=_schema_with_count(GeneratedScenarios, "scenarios", len(numbers), turns=turns),
        # the first number is part of the seed, so that asking for more does not repeat an answer
        seed=seed_from("gen_scenarios", benchmark, metric.id, numbers[0], *_note_parts(again)),
        fault=lambda given, _: landmark_fault([mark.turn for mark in given.landmarks], turns),
    )
    return [
        Scenario(
            id=scenario_id(metric.id, number),
            metric_id=metric.id,
            persona=generated.persona,
            user_goal=generated.user_goal,
            latent_adversarial_goal=generated.latent_adversarial_goal,
            landmarks=_landmarks(generated.landmarks),
        )
        for number, generated in zip(numbers, scenarios, strict=False)
    ]


# Variants


def combinations(demographics: Mapping[str, Sequence[str]]) -> list[dict[str, str]]:
    """Every combination of one value from each axis, the last axis varying fastest.

    Without axes, one empty combination: the base scenario as it is.
    """
    return [
        dict(zip(demographics, values, strict=True)) for values in product(*demographics.values())
    ]


def variant_request(
    base: Scenario, demographic: Mapping[str, str], definition: str
) -> list[Message]:
    """The request to rewrite a base scenario for one combination of demographic values."""
    return messages_of(
        "generator_system",
        "rewrite_variant",
        persona=base.persona,
        user_goal=base.user_goal,
        latent_adversarial_goal=base.latent_adversarial_goal,
        landmarks="\n".join(f"turn {m.turn}: {m.instruction}" for m in base.landmarks),
        profile="\n".join(f"{axis}: {value}" for axis, value in demographic.items()),
        definition=definition.strip(),
    )


def variant_depends(
    model: str, base: Scenario, demographic: Mapping[str, str], definition: str
) -> dict[str, str]:
    """Digests of everything that a variant is made from, by name."""
    return {
        "prompt": prompt_digest("generator_system", "rewrite_variant"),
        "generator": model,
        BASE_SCENARIO: scenario_digest(base),
        "demographic": digest(dict(demographic)),
        "metric definition": digest(definition),
    }


def scenario_digest(scenario: Scenario) -> str:
    """A digest of everything in a scenario that models are told."""
    return digest(
        [
            scenario.persona,
            scenario.user_goal,
            scenario.latent_adversarial_goal,
            [[mark.turn, mark.instruction] for mark in scenario.landmarks],
        ]
    )


def variant_fault(answer: GeneratedVariant, base: Scenario) -> str | None:
    """What is wrong with an answer, in words for the model; None for a good one. Landmarks must
    keep the base's turns, so that conversations can be compared."""
    turns = [mark.turn for mark in answer.landmarks]
    wanted = [mark.turn for mark in base.landmarks]
    if turns != wanted:
        return f"the landmarks must stay at the turns {wanted}, but they are at {turns}"
    return None


async def gen_variant(
    model: Model,
    base: Scenario,
    number: int,
    demographic: Mapping[str, str],
    *,
    benchmark: str,
    definition: str,
    again: ScenarioNote | None = None,
) -> Scenario:
    """Write the variant for one demographic combination; for an empty one, the base is copied
    without a call. With `again`, it is rewritten following a note.

    Raises `ModelError`.
    """
    variant = replace(base, id=variant_id(base.id, number), demographic=dict(demographic))
    if not demographic:
        return variant
    messages = variant_request(base, demographic, definition)
    answer = await ask(
        model,
        messages if again is None else again.added_to(messages),
        GeneratedVariant,
        schema=_schema_with_count(
            GeneratedVariant,
            "landmarks",
            len(base.landmarks),
            turns=max((mark.turn for mark in base.landmarks), default=1),
        ),
        seed=seed_from("gen_variant", benchmark, variant.id, *_note_parts(again)),
        check=lambda given: variant_fault(given, base),
    )
    return replace(variant, persona=answer.persona, landmarks=_landmarks(answer.landmarks))
