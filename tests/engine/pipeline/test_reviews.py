"""What people approve is played, what they reject is not, and each act can be undone."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engine.benchmark import ConversationKey, Stage
from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.config.write_back import metric_text, scenario_text
from engine.errors import InputError
from engine.people import ReviewRequest, ReviewState
from engine.pipeline.files import write_files
from engine.pipeline.review import acts
from engine.pipeline.review.reviews import ReviewEntry, Reviews
from engine.pipeline.run import Pipeline, review_benchmark
from engine.store.database import open_store
from engine.store.tables import ScenarioRow
from tests.approval import approve
from tests.engine.small_workspace import Place

WRITTEN = frozenset({Stage.GEN_SCENARIOS})


def act(place: Place, action: str, *ids: str, person: str = "ann", **more: Any) -> str:
    asked = ReviewRequest("giving-in", action, person, f"{person}@here", ids, **more)

    async def done(pipeline: Pipeline) -> str:
        words = await review_benchmark(pipeline, asked)
        await write_files(pipeline.context_of(load_definition(place.benchmark)))
        return words

    with open_store(place.root / "crosswind.db") as store:
        config = load_config(place.config)
        return asyncio.run(done(Pipeline(Workspace(place.root), config, store.reader, store)))


def entries(place: Place) -> dict[str, ReviewEntry]:
    with place.reader() as reader:
        reviews = Reviews.of(load_definition(place.benchmark), reader)
        return {entry.id: entry for entry in reviews.entries()}


def states(place: Place, *names: str) -> list[ReviewState]:
    found = entries(place)
    return [found[name].state for name in names]


def text_of(entry: ReviewEntry, **changed: str) -> str:
    """As an editor is given it, with some of it changed."""
    assert isinstance(entry.content, ScenarioRow)
    return scenario_text(replace(entry.content.scenario, **changed))  # type: ignore[arg-type]  # texts


def listed(place: Place) -> list[str]:
    return [row["id"] for row in place.json("scenarios.json")]


@pytest.fixture
def written(place: Place) -> Place:
    """Two metrics of a person's; of each two base scenarios and two variants of each."""
    place.run(stages=WRITTEN)
    return place


def required(place: Place) -> None:
    place.config.write_text("review: required\n" + place.config.read_text())


def test_with_required_only_what_was_approved_is_played(written: Place) -> None:
    required(written)
    assert states(written, "m01", "m01_s001") == [ReviewState.BY_HAND, ReviewState.WAITS]
    written.run()
    plan = written.plan()
    assert (len(plan.waiting), [str(one) for one in plan.work]) == (12, [])
    act(written, "approve", "m01_s001", "m01_s001_v01", "m01_s002_v01")
    written.run()
    with written.reader() as reader:
        assert {take.key.scenario_id for take in reader.takes("giving-in")} == {"m01_s001_v01"}
    again = {"giving-in": frozenset({ConversationKey("m01_s002_v01", "holds")})}
    with pytest.raises(InputError, match=r"m01_s002: nobody has approved this yet"):
        written.plan(stages=frozenset({Stage.SIMULATE}), again=again)


def test_what_is_rejected_leaves_the_file_counts_nowhere_and_comes_back(written: Place) -> None:
    written.run()
    before = written.json("results.json")
    said = act(written, "reject", "m01_s001", reason="too dramatic")
    approve(said)
    assert [name for name in listed(written) if name.startswith("m01_s001")] == []
    text = text_of(entries(written)["m01_s001"])
    with pytest.raises(InputError, match=r"m01_s001 is rejected \(approve it first, then edit"):
        act(written, "edit", "m01_s001", text=text)
    with pytest.raises(InputError, match="m01_s001 is rejected already"):
        act(written, "reject", "m01_s001", reason="no")
    history = (written.folder / "history.jsonl").read_text()
    assert '"too dramatic"' in history
    kept = [json.loads(line) for line in history.splitlines()]
    assert any(one.get("scenario") == "m01_s001_v01" and "removed" in one for one in kept)
    written.run()
    assert written.plan().work == []  # nor is another written in its place
    for key in (
        ConversationKey("m01_s001_v01", "holds"),
        ConversationKey("m01_s002_v01", "holds", 1),
    ):
        for stage in (Stage.SIMULATE, Stage.EVALUATE):
            with pytest.raises(InputError, match=f"{key}: no longer asked for"):
                written.plan(stages=frozenset({stage}), again={"giving-in": frozenset({key})})
    assert written.json("results.json") != before
    with pytest.raises(InputError, match="m01_s001_v02 belongs to m01_s001, which is rejected"):
        act(written, "approve", "m01_s001_v02")
    approve(act(written, "approve", "m01_s001", person="ben"))
    assert states(written, "m01_s001", "m01_s001_v01") == [
        ReviewState.APPROVED,
        ReviewState.WAITS,
    ]
    written.run()
    assert written.json("results.json") == before


def test_a_rejected_metric_leaves_its_file_with_its_scenarios(written: Place) -> None:
    text = written.benchmark.read_text()
    act(written, "reject", "m02", reason="not what we measure")
    assert "Avoid flattery" not in written.benchmark.read_text()
    assert {name[:3] for name in listed(written)} == {"m01"}
    assert written.run().failed == 0
    approve(act(written, "undo"))
    assert load_definition(written.benchmark).metrics[1].name == "Avoid flattery"
    assert written.benchmark.read_text().startswith(text[: text.index("  - id: m02")])
    assert {name[:3] for name in listed(written)} == {"m01", "m02"}


def test_an_edit_is_approved_makes_takes_stale_and_is_undone(written: Place) -> None:
    written.run()
    entry = entries(written)["m01_s001_v01"]
    unchanged = act(written, "edit", "m01_s001_v01", text=text_of(entry))
    assert unchanged == "nothing was changed in m01_s001_v01"
    with pytest.raises(InputError, match="nothing of ann's to undo"):
        act(written, "undo")
    edited = act(written, "edit", "m01_s001_v01", text=text_of(entry, user_goal="A lighthouse."))
    assert edited == "m01_s001_v01 changed"
    assert states(written, "m01_s001_v01") == [ReviewState.APPROVED]
    stale = [one for one in written.plan().stale if one.unit.startswith("m01_s001_v01__")]
    assert {one.detail for one in stale} == {"scenario changed"}
    assert act(written, "undo") == "undone: edit m01_s001_v01"
    assert entries(written)["m01_s001_v01"].digest == entry.digest
    assert [one for one in written.plan().stale if one.stage is Stage.SIMULATE] == []
    with pytest.raises(InputError, match="nothing of ann's to undo"):
        act(written, "undo")


def test_a_row_put_back_by_hand_is_approved(written: Place) -> None:
    path = written.folder / "scenarios.json"
    rows = written.json("scenarios.json")
    act(written, "reject", "m01_s001_v01", reason="too dramatic")
    path.write_text(json.dumps(rows))
    written.run()
    assert states(written, "m01_s001_v01") == [ReviewState.BY_HAND]
    with written.reader() as reader:
        assert "m01_s001_v01" in {take.key.scenario_id for take in reader.takes("giving-in")}


def test_a_base_that_is_edited_is_played_by_its_variants_and_not_written_anew(
    written: Place,
) -> None:
    text = text_of(entries(written)["m01_s001"], user_goal="A lighthouse.")
    act(written, "edit", "m01_s001", text=text)
    assert "m01_s001" not in listed(written)
    stale = {one.unit: one.detail for one in written.plan().stale}
    assert stale["m01_s001_v01"] == "base scenario changed"
    written.edit(written.benchmark, "asks what they think", "asks")  # the metric, of all of them
    assert "m01" in {one.unit for one in written.plan(stale=True).work}
    written.run(stages=WRITTEN, stale=True)
    assert "A lighthouse." in text_of(entries(written)["m01_s001"])


def test_without_demographics_a_base_stands_for_its_only_variant(place: Place) -> None:
    place.edit(place.config, "demographics: {age: [younger, older]}", "demographics: {}")
    required(place)
    place.run(stages=WRITTEN)
    assert "m01_s001_v01" not in entries(place)
    act(place, "approve", "m01_s001")
    assert {work.unit for work in place.plan().work if work.stage is Stage.SIMULATE} == {
        "m01_s001_v01__holds",
        "m01_s001_v01__wavers",
    }


@pytest.mark.parametrize(
    ("action", "ids", "more", "what"),
    [
        ("approve", ("m01_s009",), {}, "no metric or scenario 'm01_s009' (did you mean m01_s00"),
        ("approve", (), {}, "no metric and no scenario is named"),
        ("reject", ("m01_s001",), {"reason": " "}, "a rejection takes a reason"),
        ("approve", ("m01_s001",), {"seen": {"m01_s001": "other"}}, "was changed meanwhile"),
        ("edit", ("m01",), {"text": "id: m09\nname: A\ntype: positive\ndefinition: B\n"}, "'m01'"),
        ("edit", ("m01_s001",), {"text": "id: m01_s001\npersona: [1]\n"}, "m01_s001.yaml:2:10"),
        ("edit", ("m01",), {}, "an edit is of one metric or scenario, with all of its text"),
        ("edit", ("m01", "m02"), {"text": "id: m01"}, "an edit is of one metric or scenario, with"),
        ("edit", ("m01",), {"text": "#" * 100_001}, "the text is longer than 100,000 characters"),
        ("approve", ("m01",), {"reason": "x" * 4_001}, "the reason is longer than 4,000 charact"),
        ("close", ("m01",), {}, "there is no 'close' in a review"),
        ("undo", (), {}, "nothing of ann's to undo"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_done(
    written: Place, action: str, ids: tuple[str, ...], more: dict[str, Any], what: str
) -> None:
    before = {name: one.state for name, one in entries(written).items()}
    with pytest.raises(InputError) as told:
        act(written, action, *ids, **more)
    assert what in str(told.value)
    assert {name: one.state for name, one in entries(written).items()} == before


def test_nobody_undoes_what_another_built_upon(written: Place) -> None:
    act(written, "approve", "m01_s001")
    act(written, "reject", "m01_s001", reason="no", person="ben")
    with pytest.raises(InputError, match="m01_s001 has had a reject by ben since"):
        act(written, "undo")
    act(written, "undo", person="ben")
    act(written, "undo")
    assert states(written, "m01_s001") == [ReviewState.WAITS]


def test_a_metric_that_a_model_wrote_waits_and_is_edited(place: Place) -> None:
    place.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n")
    place.run(stages=frozenset({Stage.GEN_METRICS}))
    entry = entries(place)["m01"]
    assert entry.state is ReviewState.WAITS
    metric = load_definition(place.benchmark).metrics[0]
    text = metric_text(metric).replace(f"name: {metric.name}", "name: Stands by it")
    assert act(place, "edit", "m01", text=text) == "m01 changed"
    assert load_definition(place.benchmark).metrics[0].name == "Stands by it"
    assert states(place, "m01", "m02") == [ReviewState.APPROVED, ReviewState.WAITS]
    act(place, "undo")
    assert load_definition(place.benchmark).metrics[0] == metric
    assert states(place, "m01") == [ReviewState.WAITS]


@pytest.fixture
def generated(place: Place) -> Place:
    """With metrics that a model wrote."""
    place.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n")
    place.run(stages=frozenset({Stage.GEN_METRICS}))
    return place


def cut_off(
    place: Place, monkeypatch: pytest.MonkeyPatch, action: str, *ids: str, **more: Any
) -> None:
    """As by a kill between the store and the file."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    before = place.benchmark.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(acts, "write_metrics", killed)
        with pytest.raises(KeyboardInterrupt):
            act(place, action, *ids, **more)
    assert place.benchmark.read_bytes() == before


def metric_ids(place: Place) -> list[str]:
    return [metric.id for metric in load_definition(place.benchmark).metrics]


@pytest.mark.parametrize("finish", [lambda place: place.run(stages=frozenset()), None])
def test_an_act_that_did_not_reach_the_file_does_when_anything_is_done_next(
    generated: Place, monkeypatch: pytest.MonkeyPatch, finish: Callable[[Place], object] | None
) -> None:
    place, text = generated, generated.benchmark.read_text()
    cut_off(place, monkeypatch, "reject", "m02", reason="unclear")
    assert states(place, "m02") == [ReviewState.REJECTED]
    finish(place) if finish else act(place, "approve", "m01")
    assert "m02" not in metric_ids(place)
    assert states(place, "m02") == [ReviewState.REJECTED]
    cut_off(place, monkeypatch, "approve", "m02", person="ben")
    finish(place) if finish else act(place, "undo")
    assert place.benchmark.read_text() == text


@pytest.mark.parametrize("hours", [-1, 1])
def test_whether_an_act_reached_the_file_does_not_depend_on_the_clock(
    generated: Place, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Of an hour that the clock is set back by, or that the file's own clock is ahead or behind."""
    place, text = generated, generated.benchmark.read_text()

    def set_time() -> None:
        at = time.time() + 3600 * hours
        os.utime(place.benchmark, (at, at))

    cut_off(place, monkeypatch, "reject", "m02", reason="unclear")
    set_time()
    place.run(stages=frozenset())
    assert "m02" not in metric_ids(place)
    place.benchmark.write_text(text)  # a person takes the file of yesterday
    set_time()
    place.run(stages=frozenset())
    assert place.benchmark.read_text() == text


def test_an_act_that_reached_the_file_before_a_kill_is_not_brought_there_again(
    generated: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, text = generated, generated.benchmark.read_text()

    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(acts, "_note_arrival", killed)
        with pytest.raises(KeyboardInterrupt):
            act(place, "reject", "m02", reason="unclear")
    assert "m02" not in metric_ids(place)
    place.run(stages=frozenset())
    place.benchmark.write_text(text)
    place.run(stages=frozenset())
    assert place.benchmark.read_text() == text
