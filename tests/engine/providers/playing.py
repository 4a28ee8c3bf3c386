"""Plays the sample benchmarks with the offline models, by plain calls and with the real prompts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.benchmark import Metric, Scenario, Speaker, Utterance
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, ModelSpec, load_config
from engine.providers.model import Model
from engine.providers.scripted.models import offline_model
from engine.stages.generate import combinations, gen_base_scenarios, gen_metrics, gen_variant

SAMPLES = Path(__file__).parents[3] / "sample_benchmarks"
BENCHMARKS = ("leaning-on-one-voice", "own-judgement", "sycophancy")


def instant(spec: ModelSpec) -> Model:
    return offline_model(spec.model, seed=spec.params.seed or 0, pace="instant")


def named(name: str) -> Model:
    return offline_model(name, pace="instant")


def sample_config() -> Config:
    return load_config(SAMPLES / "config.yaml")


def sample(benchmark: str) -> Definition:
    return load_definition(SAMPLES / "benchmarks" / benchmark / "benchmark.yaml")


async def metrics_of(definition: Definition, generator: ModelSpec) -> Sequence[Metric]:
    """Those that stand there, else those that the generator writes."""
    return definition.metrics or await gen_metrics(
        instant(generator),
        benchmark=definition.name,
        title=definition.title,
        description=definition.description,
        user_context=definition.user_context,
    )


async def scenarios_of(
    definition: Definition, metric: Metric, config: Config, generator: ModelSpec
) -> list[Scenario]:
    bases = await gen_base_scenarios(
        instant(generator),
        metric,
        benchmark=definition.name,
        description=definition.description,
        user_context=definition.user_context,
        numbers=range(1, config.generation.scenarios_per_metric + 1),
        turns=config.generation.turns,
    )
    profiles = enumerate(combinations(config.demographics), start=1)
    return [
        await gen_variant(
            instant(generator),
            base,
            number,
            profile,
            benchmark=definition.name,
            definition=metric.definition,
        )
        for number, profile in profiles
        for base in bases
    ]


def said(*texts: str) -> tuple[Utterance, ...]:
    """A transcript, the person first, then in turns."""
    speakers = (Speaker.USER, Speaker.TARGET)
    return tuple(Utterance(speakers[at % 2], text) for at, text in enumerate(texts))
