"""A result knows what it was made from, and says when that is no longer what would be asked."""

from __future__ import annotations

import pytest

from engine.benchmark import Stage
from engine.pipeline.order import Rewriting, WorkReason
from engine.pipeline.plan import RunPlan
from tests.engine.small_workspace import Place


def whys(plan: RunPlan, *, stale: bool = False) -> set[tuple[str, str]]:
    return {(work.stage.value, work.detail or "") for work in (plan.stale if stale else plan.work)}


@pytest.mark.parametrize(
    ("file", "old", "new", "stage", "reason", "count"),
    [
        ("config", "turns: 2", "turns: 3", "simulate", "turns changed", 16),
        ("config", "model: erratic", "model: pushover", "simulate", "target changed", 8),
        ("config", "model: user,", "model: user-blunt,", "simulate", "user model changed", 16),
        (
            "config",
            "model: evaluator,",
            "model: evaluator-strict,",
            "evaluate",
            "evaluator changed",
            16,
        ),
        (
            "benchmark",
            "praises the person",
            "flatters the person",
            "evaluate",
            "metric definition changed",
            8,
        ),
    ],
)
def test_what_changed_is_named_and_only_what_depends_on_it_is_stale(
    played: Place, file: str, old: str, new: str, stage: str, reason: str, count: int
) -> None:
    played.edit(getattr(played, file), old, new)
    plan = played.plan()
    assert list(plan.work) == []
    found = [work for work in plan.stale if work.stage == stage and work.detail == reason]
    assert len(found) == count
    assert {work.why for work in plan.stale} == {WorkReason.STALE}


def test_pace_and_concurrency_make_nothing_stale(played: Place) -> None:
    played.edit(played.config, "pace: instant", "pace: 9000")
    played.edit(played.config, "simulate: 8", "simulate: 3")
    assert list(played.plan().stale) == []


def test_stale_rows_are_done_again_only_when_asked(played: Place) -> None:
    played.edit(played.config, "model: erratic", "model: pushover")
    played.run()
    with played.reader() as reader:
        assert len(reader.takes("giving-in")) == 16
    played.run(stale=True)
    with played.reader() as reader:
        takes = reader.takes("giving-in")
    assert len(takes) == 24
    again = [take for take in takes if take.number == 1]
    assert {take.model for take in again} == {"offline:pushover"}
    assert {take.key.target_id for take in again} == {"wavers"}
    assert list(played.plan().stale) == []


def test_a_new_judge_gives_its_verdicts_beside_the_old_ones(played: Place) -> None:
    played.edit(played.config, "model: evaluator,", "model: evaluator-strict,")
    played.run(stale=True)
    with played.reader() as reader:
        for _, verdicts in reader.counting_verdicts("giving-in"):
            assert [verdict.judge for verdict in verdicts] == [
                "offline:evaluator",
                "offline:evaluator-strict",
            ]


def rewritten(place: Place, stage: Stage, name: str) -> None:
    """A model wrote it again, as a person's note asks."""
    asked = Rewriting(stage, name, name, "otherwise", "ann", "ann@here")
    place.run(stages=frozenset({stage}), rewrite={"giving-in": asked})


@pytest.mark.parametrize(("fresh", "left"), [("m01_s001", "m01_s002"), ("m01_s002", "m01_s001")])
def test_of_several_base_scenarios_only_those_that_are_stale_are_written_again(
    place: Place, fresh: str, left: str
) -> None:
    place.run(stages=frozenset({Stage.GEN_SCENARIOS}))
    with place.reader() as reader:
        before = {row.scenario.id: row.seq for row in reader.scenarios("giving-in")}
    place.edit(place.benchmark, "when they press it", "whenever they press it")
    rewritten(place, Stage.GEN_SCENARIOS, fresh)
    [m01] = [work for work in place.plan(stale=True).work if work.unit == "m01"]
    assert (m01.why, m01.detail) == (WorkReason.STALE, "description changed")
    with place.reader() as reader:
        [kept] = [row for row in reader.scenarios("giving-in") if row.scenario.id == fresh]
    assert kept.seq > before[fresh]
    place.run(stages=frozenset({Stage.GEN_SCENARIOS}), stale=True)
    with place.reader() as reader:
        after = {row.scenario.id: row.seq for row in reader.scenarios("giving-in")}
    assert after[fresh] == kept.seq
    assert after[left] > before[left]
    assert list(place.plan().stale) == []


def test_stale_base_scenarios_and_those_that_lack_are_written_in_one_run(place: Place) -> None:
    place.run(stages=frozenset({Stage.GEN_SCENARIOS}))
    place.edit(place.benchmark, "when they press it", "whenever they press it")
    place.edit(place.config, "scenarios_per_metric: 2", "scenarios_per_metric: 3")
    writing = [call for call in place.plan(stale=True).calls if call.stage is Stage.GEN_SCENARIOS]
    assert [round(one.scenarios.high) for one in writing] == [6]
    place.run(stages=frozenset({Stage.GEN_SCENARIOS}), stale=True)
    with place.reader() as reader:
        bases = {row.scenario.id for row in reader.scenarios("giving-in") if not row.played}
    assert bases == {f"m0{metric}_s00{number}" for metric in (1, 2) for number in (1, 2, 3)}
    plan = place.plan()
    assert not [work for work in plan.work if work.stage is Stage.GEN_SCENARIOS]
    assert not list(plan.stale)


def test_metrics_are_stale_when_any_of_them_is(place: Place) -> None:
    place.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n")
    place.run(stages=frozenset({Stage.GEN_METRICS}))
    place.edit(place.benchmark, "Whether it gives in", "Whether an assistant gives in")
    assert whys(place.plan(), stale=True) == {("gen_metrics", "description changed")}
    rewritten(place, Stage.GEN_METRICS, "m01")
    assert whys(place.plan(), stale=True) == {("gen_metrics", "description changed")}


def test_what_the_benchmark_no_longer_asks_for_is_left_out_and_said(played: Place) -> None:
    played.edit(
        played.config,
        "  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}\n",
        "",
    )
    played.run()
    rows = played.json("results.json")
    assert [row["target_model"] for row in rows] == ["holds"]
    assert any("wavers" in note for note in rows[0]["notes"])
    with played.reader() as reader:
        progress = reader.snapshot()
    assert progress.stage_tally("giving-in", Stage.SIMULATE).total == 8
    assert progress.stage_tally("giving-in", Stage.SIMULATE).dropped == 8


def test_rows_that_are_done_again_anyway_are_not_counted_as_stale(played: Place) -> None:
    played.edit(played.config, "turns: 2", "turns: 3")
    played.edit(played.benchmark, "praises the person", "flatters the person")
    conversations, verdicts = frozenset({Stage.SIMULATE}), frozenset({Stage.EVALUATE})
    assert {work.stage for work in played.plan().stale} >= conversations | verdicts
    again = played.plan(force=True, stages=conversations).stale
    assert not {work.stage for work in again} & (conversations | verdicts)
    judged = played.plan(force=True, stages=verdicts).stale
    assert len([work for work in judged if work.stage is Stage.SIMULATE]) == 16
    assert not [work for work in judged if work.stage is Stage.EVALUATE]
