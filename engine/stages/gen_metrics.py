"""Stage 1: writes metrics from a benchmark's description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from pydantic import ConfigDict, Field

from engine.benchmark import Metric, Track, When, metric_id
from engine.identity import digest, seed_from
from engine.prompts import prompt_digest
from engine.providers.model import Message, Model
from engine.stages.answers import Answer, ask, ask_for_items, asked_again, at_most, messages_of

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


def request(title: str, description: str, user_context: str | None) -> list[Message]:
    """The request to the generator, which contains only what the benchmark's file says."""
    return messages_of(
        "generator_system",
        "gen_metrics",
        name=title,
        description=description.strip(),
        setting=(user_context or NO_SETTING).strip(),
    )


def depends(model: str, title: str, description: str, user_context: str | None) -> dict[str, str]:
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


def read(metrics: Sequence[GeneratedMetric]) -> list[Metric]:
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
    messages = asked_again(request(title, description, user_context), metric_told(metric), note)
    answer = await ask(
        model,
        messages,
        GeneratedMetrics,
        seed=seed_from("gen_metrics", benchmark, metric.id, messages[-1].text),
        check=lambda given: None if len(given.metrics) == 1 else "expected exactly one metric",
    )
    [written] = read(answer.metrics)
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
        request(title, description, user_context),
        GeneratedMetrics,
        GeneratedMetric,
        fault=_has_name_of_another,
        enough=AT_LEAST,
        seed=seed_from("gen_metrics", benchmark),
    )
    return read(metrics[:MOST])
