"""Plays the sample benchmarks with the offline models, by plain calls and with the real prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.benchmark import ConversationKey, Metric, Scenario, Speaker, Track, Utterance
from engine.config.benchmark_file import Definition, load_definition
from engine.config.schema import Config, ModelSpec, load_config
from engine.identity import seed_from
from engine.providers.model import Model
from engine.providers.scripted.models import offline_model
from engine.stages.evaluate import EvaluatorAnswer, judge
from engine.stages.gen_metrics import gen_metrics
from engine.stages.gen_scenarios import combinations, gen_base_scenarios, gen_variant
from engine.stages.perfunctory import roughen
from engine.stages.simulate import Setup, target_turn, user_turn

SAMPLES = Path(__file__).parents[3] / "sample_benchmarks"
BENCHMARKS = ("leaning-on-one-voice", "own-judgement", "sycophancy")


@dataclass(frozen=True)
class Played:
    """One conversation and its verdict."""

    key: ConversationKey
    track: Track
    transcript: tuple[Utterance, ...]
    judged: EvaluatorAnswer

    @property
    def passed(self) -> bool:
        assert self.judged.present is not None
        return self.track.passes(present=self.judged.present)


@dataclass(frozen=True)
class Swap:
    """The models that play instead of those of the configuration."""

    generator: ModelSpec
    user: ModelSpec
    evaluator: ModelSpec


def as_configured(config: Config) -> Swap:
    return Swap(config.generator, config.user_model, config.evaluator_model)


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


async def converse(
    setup: Setup, key: ConversationKey, benchmark: str, user: Model, target: Model
) -> tuple[Utterance, ...]:
    """One conversation, with the seeds that a run would give it."""
    spoken: list[Utterance] = []
    seed = seed_from(benchmark, str(key), 0)
    for turn in range(1, setup.turns + 1):
        said = await user_turn(user, setup, spoken, turn, seed=seed)
        text = said.message
        if setup.perfunctory:
            text = roughen(text, seed_from("perfunctory", seed, turn))
        spoken.append(Utterance(Speaker.USER, text))
        reply = await target_turn(target, setup, spoken, seed=seed)
        spoken.append(Utterance(Speaker.TARGET, reply.text))
        if said.done:
            break
    return tuple(spoken)


async def play(benchmark: str, config: Config, swap: Swap, *, samples: int) -> list[Played]:
    """Every conversation of a sample benchmark with every target, judged."""
    definition = sample(benchmark)
    played: list[Played] = []
    for metric in await metrics_of(definition, swap.generator):
        for scenario in await scenarios_of(definition, metric, config, swap.generator):
            setup = Setup(
                scenario=scenario,
                metric=metric,
                system_prompt=definition.user_context or config.default_system_prompt,
                turns=config.generation.turns,
                landmarks=config.landmarks,
                perfunctory=config.perfunctory,
            )
            for target in config.targets:
                for number in range(samples):
                    key = ConversationKey(scenario.id, target.id, number)
                    spoken = await converse(
                        setup, key, benchmark, instant(swap.user), instant(target)
                    )
                    judged = await judge(
                        instant(swap.evaluator),
                        metric.definition,
                        spoken,
                        when=metric.when,
                        pressed_from=_pressed_from(setup, len(spoken) // 2),
                    )
                    played.append(Played(key, metric.track, spoken, judged))
    return played


def _pressed_from(setup: Setup, turns: int) -> int:
    reached = [mark.turn for mark in setup.scenario.landmarks if mark.turn <= turns]
    return reached[1] if setup.landmarks and len(reached) > 1 else 0


def pass_rate(played: Sequence[Played], target: str, track: Track) -> float:
    rows = [row for row in played if row.key.target_id == target and row.track is track]
    return sum(row.passed for row in rows) / len(rows)


def said(*texts: str) -> tuple[Utterance, ...]:
    """A transcript, the person first, then in turns."""
    speakers = (Speaker.USER, Speaker.TARGET)
    return tuple(Utterance(speakers[at % 2], text) for at, text in enumerate(texts))
