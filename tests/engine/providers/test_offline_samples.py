"""The sample workspace: it loads, and played to its end it gives results worth looking at."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import cache

import pytest

from engine.benchmark import Track
from engine.providers.scripted.models import OFFLINE_MODELS
from engine.stages.evaluate import find_quotes
from tests.engine.providers.playing import (
    BENCHMARKS,
    SAMPLES,
    Played,
    Swap,
    as_configured,
    pass_rate,
    play,
    sample,
    sample_config,
)

pytestmark = pytest.mark.exhaustive

GAP = 0.15


@cache
def played(benchmark: str) -> list[Played]:
    """As the demo plays it: the same models, seeds, scenarios, variants and samples."""
    config = sample_config()
    samples = config.generation.num_samples
    return asyncio.run(play(benchmark, config, as_configured(config), samples=samples))


def test_the_workspace_holds_the_benchmarks_that_are_played_here() -> None:
    found = sorted(path.parent.name for path in SAMPLES.glob("benchmarks/*/benchmark.yaml"))
    assert tuple(found) == BENCHMARKS


def test_the_configuration_needs_no_key_and_raises_no_warning() -> None:
    config = sample_config()
    specs = [*config.targets, *config.models.values(), config.user_model, config.evaluator_model]
    assert all(spec.is_offline and spec.model in OFFLINE_MODELS for spec in specs)
    assert config.warnings == ()


def test_two_benchmarks_are_written_by_hand_and_one_is_left_to_the_first_stage() -> None:
    assert [len(sample(name).metrics) for name in BENCHMARKS] == [0, 4, 4]
    assert sample("own-judgement").user_context


@pytest.mark.exhaustive
@pytest.mark.parametrize("benchmark", BENCHMARKS)
@pytest.mark.parametrize("track", Track)
def test_the_steadfast_target_leads_and_the_pushover_trails(benchmark: str, track: Track) -> None:
    steadfast, erratic, pushover = (
        pass_rate(played(benchmark), target, track)
        for target in ("steadfast", "erratic", "pushover")
    )
    assert steadfast - erratic >= GAP, (steadfast, erratic, pushover)
    assert erratic - pushover >= GAP, (steadfast, erratic, pushover)


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_the_erratic_targets_samples_disagree_but_not_always(benchmark: str) -> None:
    samples: dict[str, set[bool]] = defaultdict(set)
    for row in played(benchmark):
        if row.key.target_id == "erratic":
            samples[row.key.scenario_id].add(row.passed)
    disagreeing = sum(len(outcomes) > 1 for outcomes in samples.values()) / len(samples)
    assert 0.2 <= disagreeing <= 0.8, disagreeing


def test_even_the_steadfast_target_fails_now_and_then_and_the_pushover_sometimes_holds() -> None:
    rows = [row for benchmark in BENCHMARKS for row in played(benchmark)]
    outcomes = {
        target: {row.passed for row in rows if row.key.target_id == target}
        for target in ("steadfast", "pushover")
    }
    assert outcomes == {"steadfast": {True, False}, "pushover": {True, False}}


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_passage_that_the_evaluator_gives_stands_in_a_reply(benchmark: str) -> None:
    for row in played(benchmark):
        passages = [quote.text for quote in row.judged.quotes]
        assert all(quote.turn for quote in find_quotes(passages, row.transcript)), row.key
        assert row.judged.unscored is None


def test_no_reply_is_said_twice_in_a_conversation() -> None:
    for benchmark in BENCHMARKS:
        for row in played(benchmark):
            replies = [utterance.text for utterance in row.transcript[1::2]]
            assert len(set(replies)) == len(replies), row.key


def test_replies_are_as_long_as_a_chat_bears() -> None:
    lengths = sorted(
        len(utterance.text.split())
        for row in played("sycophancy")
        for utterance in row.transcript[1::2]
    )
    middle = lengths[len(lengths) // 2]
    usual = sum(15 <= length <= 70 for length in lengths) / len(lengths)
    assert 25 <= middle <= 60, middle
    assert usual >= 0.85, usual
    assert lengths[-1] <= 110, lengths[-1]


def test_the_stand_ins_of_another_temperament_keep_the_ranking() -> None:
    config = sample_config()
    swap = Swap(
        *(config.model_named(name) for name in ("terse-writer", "blunt-user", "strict-reader"))
    )
    rows = asyncio.run(play("sycophancy", config, swap, samples=1))
    for track in Track:
        rates = [pass_rate(rows, target.id, track) for target in config.targets]
        assert rates == sorted(rates, reverse=True), (track, rates)
    assert any(
        pass_rate(rows, target.id, track) != pass_rate(played("sycophancy"), target.id, track)
        for target in config.targets
        for track in Track
    ), "a swap that changes nothing validates nothing"
