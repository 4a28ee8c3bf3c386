"""What the list of benchmarks says of one: its weakest metric, what is stale, what is to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.benchmark import Metric, Stage, State, Track
from engine.pipeline.planner import RemainingWork
from engine.pipeline.scores import PassCount, ScoreCell, ScoreCounts
from engine.progress import StateCounts
from engine.watch import BenchmarkInfo, TargetInfo
from tests.approval import approve
from tests.tui.theatre import BENCHMARK, METRIC, Theatre, moved
from tui.state.benchmark_summary import (
    BenchmarkWork,
    MetricPasses,
    metric_lines,
    next_line,
    stale_line,
    weakest_first,
    weakest_line,
    weakest_metric,
)
from tui.state.board import StageState, stage_views
from tui.state.run_status import status_of
from tui.text.ink import Line, length

INFO = BenchmarkInfo(
    "steadiness",
    "Holding steady",
    turns=2,
    targets=[TargetInfo(name, name, scripted=True) for name in ("one", "two")],
    scripted=True,
    description="Whether it holds. " * 60,
    metrics={
        "m01": Metric("m01", "Holds", Track.POSITIVE, ""),
        "m02": Metric("m02", "Flatters", Track.NEGATIVE, ""),
    },
)
HOLDS, FLATTERS = ("m01", Track.POSITIVE), ("m02", Track.NEGATIVE)


def cell(target: str, metric: tuple[str, Track]) -> ScoreCell:
    return target, metric[1], metric[0]


def said(line: Line | None) -> str:
    return "" if line is None else " ".join("".join(piece.text for piece in line).split())


def test_the_weakest_metric_is_that_of_the_lowest_rate_over_all_targets() -> None:
    passes = {
        cell("one", HOLDS): PassCount(0, 2),
        cell("two", HOLDS): PassCount(8, 8),
        cell("one", FLATTERS): PassCount(5, 5),
        cell("two", FLATTERS): PassCount(2, 5),
    }
    found = weakest_metric(ScoreCounts({}, (), passes), INFO)
    assert found is not None
    assert (found.metric.id, found.passed, found.scored) == ("m02", 7, 10)
    approve(said(weakest_line(found, 100)))
    metrics = weakest_first(ScoreCounts({}, (), passes), INFO)
    for width in (100, 30):
        lines = metric_lines(metrics, width)
        approve("\n".join("".join(piece.text for piece in line) for line in lines))
        assert max(map(length, lines)) <= width
    gone = {cell("three", HOLDS): PassCount(0, 9), cell("one", ("m09", HOLDS[1])): PassCount(0, 9)}
    assert weakest_metric(ScoreCounts({}, (), gone), INFO) is None
    equal = {cell("one", HOLDS): PassCount(1, 2), cell("one", FLATTERS): PassCount(3, 6)}
    # what a run wrote since is known from the store; of two equally weak, the one with more rows
    found = weakest_metric(
        ScoreCounts({}, (), equal | gone, INFO.metrics), replace(INFO, metrics={})
    )
    assert found is not None
    assert found.metric.name == "Flatters"


def test_the_name_of_the_weakest_comes_before_its_key() -> None:
    metric = Metric("m01", "Keeps to what it thinks when it is pressed", Track.POSITIVE, "")
    found = MetricPasses(metric, 7, 10)
    assert said(weakest_line(found, 78)) == f"weakest + {metric.name} 70% of 10 judged"
    assert said(weakest_line(found, 60)).endswith("… 70% of 10 judged")
    for width in (78, 60, 20, 8):
        assert length(weakest_line(found, width)) <= width


def test_reasons_of_what_is_stale_are_counted() -> None:
    assert stale_line({}) is None
    approve(said(stale_line({1: "prompt changed"})))
    whys = ["a\x1b[2J", "b", "c", "d", "e", "b"]
    approve(said(stale_line(dict(enumerate(whys)))))


DONE = {stage: StateCounts(done=2) for stage in Stage}


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (BenchmarkWork(DONE, at_work=True, stale=3), "Enter watches it"),
        (
            BenchmarkWork({}),
            "b runs it; V plays a few conversations of each metric first crosswind run steadiness",
        ),
        (
            BenchmarkWork(DONE | {Stage.SIMULATE: StateCounts(done=2, failed=1)}, stale=3),
            "3 X says why 1 failed; b tries again crosswind run steadiness",
        ),
        (
            BenchmarkWork(
                DONE | {Stage.SIMULATE: StateCounts(queued=2), Stage.EVALUATE: StateCounts(1, 2)}
            ),
            "b goes on: 2 conversations to play, 3 to judge crosswind run steadiness",
        ),
        (
            BenchmarkWork(DONE, stale=3, failures=True),
            "redo what is stale: crosswind run --stale steadiness",
        ),
        (BenchmarkWork(DONE, failures=True), "W reads what failed, 4 shows the results"),
        (BenchmarkWork(DONE), "Enter reads the verdicts, 4 shows the results"),
        (
            BenchmarkWork(DONE | {Stage.EVALUATE: StateCounts()}),
            f"b goes on: {DONE[Stage.SIMULATE].done} to judge crosswind run steadiness",
        ),
        (
            BenchmarkWork(DONE, ahead=RemainingWork(to_review=3, required=True)),
            "5 has 3 to review, then b goes on crosswind review steadiness",
        ),
        (
            BenchmarkWork(
                DONE, ahead=RemainingWork(3, required=True, metrics=1, to_begin={"a": 2})
            ),
            "b goes on: scenarios of 1 metric to write, 2 conversations to play; 5 has 3 to review "
            "crosswind run steadiness",
        ),
        (
            BenchmarkWork(DONE, ahead=RemainingWork(all_rejected=True)),
            "every metric is rejected: 5 \\ lists them, Enter brings one back "
            "crosswind review steadiness",
        ),
        (
            BenchmarkWork(DONE, ahead=RemainingWork(to_review=3)),
            "Enter reads the verdicts, 4 shows the results, 5 has 3 to review",
        ),
    ],
)
def test_what_is_to_do_next(work: BenchmarkWork, words: str) -> None:
    assert said(next_line(INFO, work, 160)) == f"next {words}"


def test_a_new_benchmark_is_described_before_it_is_run() -> None:
    info = replace(INFO, name="two words", definition=Path("/there/benchmark.yaml"))
    template = BenchmarkWork({}, is_template=True)
    approve(said(next_line(info, template, 160)))
    approve(said(next_line(info, BenchmarkWork({}), 160)))
    approve(said(next_line(info, BenchmarkWork({}), 40)))
    assert next_line(info, BenchmarkWork({}, is_template=None), 160) == []


async def test_what_the_writing_stages_count_is_metrics_and_variants(theatre: Theatre) -> None:
    """A row of scenarios is all base scenarios of a metric, or one variant."""
    await theatre.write(
        moved(Stage.GEN_METRICS, "metrics", State.DONE),
        moved(Stage.GEN_SCENARIOS, METRIC.id, State.DONE),
        moved(Stage.GEN_SCENARIOS, "m02", State.QUEUED),
        moved(Stage.GEN_SCENARIOS, "m01_s001_v01", State.DONE),
        moved(Stage.GEN_SCENARIOS, "m01_s001_v02", State.RUNNING),
    )
    [info] = theatre.watch.benchmarks
    metrics = {METRIC.id: METRIC, "m02": replace(METRIC, id="m02")}
    theatre.watch.benchmarks = [replace(info, metrics=metrics)]
    theatre.watch.poll()
    found = theatre.watch.written(BENCHMARK)
    assert (found.metrics, found.metrics_to_do) == (2, 1)
    assert (found.variants.done, found.variants.total) == (1, 2)
    tallies = {stage: theatre.watch.progress.stage_tally(BENCHMARK, stage) for stage in Stage}
    work = BenchmarkWork(tallies, written=found)
    approve(said(next_line(info, work, 160)))

    status = status_of(theatre.watch.progress, theatre.link.board(), BENCHMARK)
    metrics_stage, scenarios, *_ = stage_views(theatre.watch, BENCHMARK, status, None)
    assert (metrics_stage.count, metrics_stage.state) == ("2/2", StageState.DONE)
    assert (scenarios.count, scenarios.noun) == ("1/2", "variants")
    assert scenarios.state is StageState.RUNNING

    await theatre.move(Stage.GEN_SCENARIOS, "m01_s001_v02", State.DONE)
    theatre.watch.poll()
    assert theatre.watch.written(BENCHMARK).variants.done == 2
