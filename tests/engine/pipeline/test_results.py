"""From the store to what it says: whose verdicts count, and what is said of the others."""

from __future__ import annotations

from contextlib import closing

import pytest

from engine.analysis.figures import Analysis
from engine.benchmark import ConversationKey, Stage
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.pipeline.results import counted_of
from engine.store.open_reader import open_reader
from tests.approval import approve
from tests.engine.small_workspace import Place

SECOND = """\
models:
  strict: {model: evaluator-strict, source: offline, params: {pace: instant}}
"""


def analysis(place: Place) -> Analysis:
    with closing(open_reader(place.root / "crosswind.db")) as reader:
        return counted_of(
            load_definition(place.benchmark), load_config(place.config), reader
        ).analysis


@pytest.fixture
def judged(place: Place) -> Place:
    place.config.write_text(place.config.read_text() + SECOND)
    place.run()
    return place


def test_a_second_opinion_is_held_against_the_first_and_changes_no_rate(judged: Place) -> None:
    before = analysis(judged)
    assert before.agreement == []
    keys = frozenset(
        ConversationKey(scenario, one.target)
        for one in before.targets
        for scenario in one.scenarios
    )
    judged.run(stages=frozenset({Stage.EVALUATE}), again={"giving-in": keys}, evaluator="strict")
    after = analysis(judged)
    assert [target.tracks for target in after.targets] == [
        target.tracks for target in before.targets
    ]
    assert [(one.between, one.of) for one in after.agreement] == [
        ("judges", "offline:evaluator, offline:evaluator-strict")
    ]
    counting = {judge.name: judge.counting for judge in after.judges}
    assert counting["offline:evaluator"] == len(keys)
    assert counting["offline:evaluator-strict"] == 0


def test_a_target_that_is_gone_is_left_out_and_said(judged: Place) -> None:
    text = judged.config.read_text()
    start, end = text.index("  - {id: wavers"), text.index("models:")
    judged.config.write_text(text[:start] + text[end:])
    found = analysis(judged)
    assert [target.target for target in found.targets] == ["holds"]
    assert list(found.left_out.targets) == ["wavers"]
    approve(found.notes)


def test_a_judge_that_has_said_nothing_yet_is_named(judged: Place) -> None:
    assert not any("count without" in note for note in analysis(judged).notes)
    text = judged.config.read_text()
    line = next(one for one in text.splitlines() if one.startswith("evaluator_model:"))
    first = line.removeprefix("evaluator_model:").strip()
    judged.edit(judged.config, line, f"evaluators:\n  - {first}\n  - strict")
    found = analysis(judged)
    count = sum(target.scored for target in found.targets)
    assert found.notes[-1].startswith(f"{count} conversations count without")
    judged.run()
    assert not any("count without" in note for note in analysis(judged).notes)
