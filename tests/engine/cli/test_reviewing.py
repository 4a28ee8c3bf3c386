"""`crosswind review`, as a person types it, and runs that wait for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.benchmark import Stage
from engine.cli.engine_handle import EngineHandle
from engine.cli.reviewing import PersonReview, page_of
from engine.cli.session import open_session
from engine.config.workspace import Workspace
from engine.pipeline.order import Rewriting
from tests.approval import approve, lines_with
from tests.engine.commands import Said, crosswind, printed_data
from tests.engine.small_workspace import Place, small_workspace
from tests.models import ScriptedModel


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = small_workspace(tmp_path)
    found.edit(found.config, "age: [younger, older]", "age: [younger]")
    found.config.write_text("review: required\n" + found.config.read_text())
    return found


def review(place: Place, *words: str) -> Said:
    return crosswind(place.root, "review", *words)


def test_a_run_waits_for_people_and_goes_on_when_they_approved(place: Place) -> None:
    code, _, err = crosswind(place.root, "run", "--until", "gen_scenarios", "--headless")
    assert code == 0
    approve(lines_with(err, "8 to approve"))
    assert "giving-in: 8 to review; " in crosswind(place.root, "status")[1]
    code, _, err = crosswind(place.root, "run", "--headless")
    assert code == 3
    approve(lines_with(err, "8 rows wait for", "`crosswind review giving-in"))
    code, out, _ = review(place)
    assert code == 0
    approve(lines_with(out, "8 to review", "m01_s001_v01  variant"))
    approve(review(place, "--approve", "m01*")[1])
    code, out, _ = review(
        place, "--reject", "m02_s001", "--reason", "dull", "--json", "--by", "Ben"
    )
    [told] = printed_data(out)
    row = next(one for one in told["rows"] if one["id"] == "m02_s001")
    assert (row["state"], row["by"], row["reason"]) == ("rejected", "Ben", "dull")
    assert told["waiting"] == 2
    approve(told["said"])
    code, _, err = crosswind(place.root, "run", "--headless")
    assert (code, "2 rows wait for" in err) == (3, True)
    review(place, "--approve", "m02*")
    assert crosswind(place.root, "run", "--headless")[0] == 0
    assert {one["id"] for one in place.json("runs", "holds", "conversations.json")} == {
        *("m01_s001_v01", "m01_s002_v01"),
        *("m02_s001_v01", "m02_s002_v01"),
    }
    approve(lines_with(review(place, "--list")[1], "nothing waits for"))


def test_what_cannot_be_is_said(place: Place) -> None:
    place.run(stages=frozenset())
    refused = []
    for words in (
        ("--approve", "m01_s009"),
        ("--approve", "x*"),
        ("--reject", "m01"),
        ("--undo", "--reason", "no"),
        ("--undo", "--by", " "),
    ):
        code, _, err = review(place, *words)
        assert code == 2
        refused.append(err)
    approve("".join(refused))


@pytest.mark.process
def test_an_engine_at_work_takes_it(place: Place) -> None:
    crosswind(place.root, "run", "--until", "gen_scenarios", "--headless")
    crosswind(place.root, "review", "--approve", "m01*")
    place.long_talks()
    assert crosswind(place.root, "run", "--detach")[0] == 0
    try:
        code, out, _ = review(place, "--reject", "m01_s002_v01", "--reason", "dull")
        assert (code, out) == (0, "m01_s002_v01 rejected\n")
        assert EngineHandle(Workspace(place.root)).holder() is not None
        code, _, err = review(place, "--reject", "m01_s002_v01", "--reason", "dull")
        assert (code, "rejected already" in err) == (2, True)
    finally:
        crosswind(place.root, "stop", "--now", "--wait")
    assert {one["id"] for one in place.json("scenarios.json")} == {
        *("m01_s001_v01", "m02_s001_v01", "m02_s002_v01"),
    }


def test_a_model_writes_one_again_for_a_note_and_the_one_before_comes_back(place: Place) -> None:
    crosswind(place.root, "run", "--until", "gen_scenarios", "--headless")
    session = open_session(place.root)
    for name in ("m01_s001", "m01_s001_v01"):
        before = place.json("scenarios.json")
        entry = page_of(session, "giving-in").entry(name)
        assert entry is not None
        order = PersonReview(session, lambda: "Ann").rewriting("giving-in", entry, "no illness")
        place.run(stages=order.stages, rewrite=order.rewrite)
        told = review(place, "--json").json()[0]["rows"]
        row = next(one for one in told if one["id"] == name)
        assert (row["state"], row["reason"]) == ("waits", "no illness")
        assert place.json("scenarios.json") != before
        review(place, "--undo", "--by", "Ann")
        assert place.json("scenarios.json") == before


def test_what_a_model_writes_word_for_word_again_changes_nothing(place: Place) -> None:
    crosswind(place.root, "run", "--until", "gen_scenarios", "--headless")
    first = place.json("scenarios.json")[0]

    said = json.dumps({name: first[name] for name in ("persona", "landmarks")})
    again = place.heard_by(lambda _spec: ScriptedModel([said]))
    asked = Rewriting(Stage.GEN_SCENARIOS, first["id"], first["id"], "otherwise", "ann", "ann@here")
    again.run(stages=frozenset({Stage.GEN_SCENARIOS}), rewrite={"giving-in": asked})
    with place.reader() as reader:
        assert reader.reviews("giving-in") == []
    assert place.json("scenarios.json")[0] == first


def test_no_scenario_is_paid_for_before_its_metric_is_approved(place: Place) -> None:
    place.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n")
    place.run(stages=frozenset())
    assert [call.stage for call in place.plan().calls] == [Stage.GEN_METRICS]
    for words in (("--until", "gen_scenarios"), ()):
        code, _, err = crosswind(place.root, "run", *words, "--headless")
        assert (code, "(`review: required`)" in err) == (3, True)
    assert not (place.folder / "scenarios.json").exists()
    review(place, "--approve", "m01")
    assert place.ahead().metrics == 1
    waiting = place.plan().waiting
    assert "m02" in waiting
    assert {one.unit for one in place.plan().work} == {"m01"}
    assert crosswind(place.root, "run", "--headless")[0] == 3
    assert {one["id"][:3] for one in place.json("scenarios.json")} == {"m01"}
    assert (place.ahead().metrics, place.ahead().conversations) == (0, 0)
    review(place, "--approve", "m01*")
    assert place.ahead().conversations == 2 * 2  # targets
    told = printed_data(crosswind(place.root, "status", "--json")[1])["benchmarks"]["giving-in"]
    assert (told["to_review"], told["review_required"]) == (place.ahead().to_review, True)


def test_where_every_metric_is_rejected_nothing_is_written_unasked(place: Place) -> None:
    place.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n", "utf-8")
    assert crosswind(place.root, "run", "--until", "gen_metrics", "--headless")[0] == 0
    review(place, "--reject", "m*", "--reason", "dull")
    with place.reader() as reader:
        calls = reader.usage("giving-in", Stage.GEN_METRICS).calls
    says = "every metric of giving-in is rejected"
    plan = crosswind(place.root, "run", "--dry-run")[1]
    assert says in plan
    assert "all together: 0 calls" in plan
    assert says in crosswind(place.root, "status")[1]
    assert place.ahead().all_rejected
    for words in (("run", "--headless"), ("run", "--headless", "--pilot")):
        code, _, err = crosswind(place.root, *words)
        assert (code, says in err) == (3, True)
        approve(err)
    told = printed_data(crosswind(place.root, "run", "--dry-run", "--json")[1])
    assert told["benchmarks"][0]["rejected"][0] == "m01"
    with place.reader() as reader:
        assert reader.usage("giving-in", Stage.GEN_METRICS).calls == calls


def test_a_metric_that_is_written_again_though_it_was_rejected_waits(place: Place) -> None:
    place.benchmark.write_text("name: Giving in\ndescription: Whether it gives in.\n", "utf-8")
    crosswind(place.root, "run", "--until", "gen_metrics", "--headless")
    review(place, "--reject", "m*", "--reason", "dull")
    asked = ("run", "--force", "--stage", "gen_metrics", "--headless")
    assert crosswind(place.root, *asked)[0] == 0
    rows = printed_data(review(place, "--json")[1])[0]["rows"]
    assert {row["state"] for row in rows} == {"waits"}
