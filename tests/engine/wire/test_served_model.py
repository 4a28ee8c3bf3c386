"""Whom one really spoke with: a gateway that answers with another model is not believed blindly."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from engine.benchmark import Role, Stage, State
from engine.facts import Noted, NoteKind
from engine.store.reader import Reader
from tests.approval import approve
from tests.engine.commands import crosswind, printed_data
from tests.engine.wire import audit
from tests.engine.wire.workplace import BOTH_PROTOCOLS, Workplace, metric, scenario
from tests.protocol_server.faults import Detail, Fault, When, always
from tests.protocol_server.settings import Settings

FELL_BACK = {"x-litellm-attempted-fallbacks": "1", "x-litellm-model-id": "deployment-7"}


def one_target(place: Workplace, rows: int = 1, **more: Any) -> None:
    place.configure([{"id": "alpha", **place.model("steadfast", **more)}])
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, rows + 1)])
    place.stage("bread", [scenario(n) for n in range(1, rows + 1)])


def answers_as(
    place: Workplace,
    served: str,
    *,
    headers: dict[str, str] | None = None,
    of: str = "steadfast",
    when: When = always,
) -> None:
    detail = Detail(served=served, headers=FELL_BACK if headers is None else headers)
    place.server.plan(Fault.OTHER_MODEL, match=of, when=when, detail=detail)


def warnings(reader: Reader) -> list[str]:
    return [
        fact.text
        for fact in reader.facts(after=0, limit=10_000)
        if isinstance(fact, Noted) and fact.kind is NoteKind.WARNING and "answered in" in fact.text
    ]


def test_replies_of_another_model_are_kept_as_that_models(place: Workplace) -> None:
    one_target(place, rows=2)
    answers_as(place, "mock-beta")
    assert place.run("bread").failed == 0
    kept = [
        attempt
        for attempt in audit.attempts(place.root / "crosswind.db")
        if attempt["role"] == "target"
    ]
    assert [(one["served"], one["other"]) for one in kept] == [("mock-beta", 1)] * 4
    approve(kept[0]["route"])
    with place.reader() as reader:
        for row in audit.rows(reader, "bread").values():
            said = [(message.speaker, message.served_by) for message in row.messages]
            assert said == [("user", None), ("assistant", "mock-beta")] * 2
        [said_once] = warnings(reader)
        board = reader.snapshot().target("bread", "alpha")
    approve(said_once)
    approve(board.served_by_others)


def test_everything_that_shows_the_numbers_says_who_spoke(place: Workplace, tmp_path: Path) -> None:
    one_target(place)
    answers_as(place, "mock-beta")
    place.run("bread")
    words = "2 of 2 replies of alpha came from mock-beta, not from steadfast"
    assert f"! {words}" in crosswind(place.root, "results", "--details").out
    [row] = printed_data(crosswind(place.root, "results", "--json").out)["bread"]
    assert words in row["notes"]
    assert row["served_by_others"] == {"replies": {"mock-beta": 2}, "of": 2}
    page = tmp_path / "page.html"
    crosswind(place.root, "export", "html", "--out", str(page))
    assert words in page.read_text("utf-8")
    [line] = csv.DictReader(io.StringIO(crosswind(place.root, "export", "rates").out))
    assert line["served_by_others"] == words
    approve(crosswind(place.root, "status").out)
    status = printed_data(crosswind(place.root, "status", "--json").out)
    told = status["benchmarks"]["bread"]["targets"]["alpha"]
    assert (told["replies"], told["served_by_others"]) == (2, {"mock-beta": 2})


def test_a_conversation_says_which_of_its_messages_came_from_whom(place: Workplace) -> None:
    one_target(place)
    answers_as(place, "mock-beta", when=When(lambda count: count == 2))
    place.run("bread")
    name = "m01_s001_v01__alpha"
    shown = crosswind(place.root, "show", name).out
    approve(shown)
    [take] = printed_data(crosswind(place.root, "show", name, "--json").out)["takes"]
    assert [said["served_by"] for said in take["transcript"]] == [None, None, None, "mock-beta"]


def test_it_is_exported_in_every_format(place: Workplace) -> None:
    one_target(place)
    answers_as(place, "mock-beta")
    answers_as(place, "mock-judge", of="evaluator")
    place.run("bread")
    whole = json.loads(crosswind(place.root, "export", "jsonl", "bread").out)
    assert [said.get("served_by") for said in whole["transcript"]] == [None, "mock-beta"] * 2
    assert whole["verdicts"][0]["served_by"] == "mock-judge"
    [line] = csv.DictReader(
        io.StringIO(crosswind(place.root, "export", "csv", "bread").out, newline="")
    )
    assert line["target_served_by"] == '{"mock-beta": 2}'
    assert (line["user_served_by"], line["judge_served_by"]) == ("", "mock-judge")
    folder = place.root / "documents"
    crosswind(place.root, "export", "md", "bread", "--out", str(folder))
    [document] = folder.rglob("*.md")
    text = document.read_text("utf-8").replace("\\", "")
    words = "2 of 2 replies of the target came from mock-beta, not from steadfast"
    assert f"- not as asked: {words}" in text
    approve(text)


@BOTH_PROTOCOLS
def test_only_the_same_model_can_be_asked_for(place: Workplace) -> None:
    one_target(place, rows=2, served_model="same")
    answers_as(place, "mock-beta")
    assert place.run("bread").failed == 2
    # the conversation has cost one reply, and nobody asks for it again at once
    assert place.server.counters.by_model["steadfast"] == 2
    with place.reader() as reader:
        audit.check_store(reader, "bread")
        for unit in reader.units("bread", Stage.SIMULATE).values():
            assert unit.state is State.FAILED
            approve(unit.reason)
        for row in audit.rows(reader, "bread").values():
            assert [message.speaker for message in row.messages] == ["user"]
        assert warnings(reader) == []
    kept = [
        attempt
        for attempt in audit.attempts(place.root / "crosswind.db")
        if attempt["role"] == "target"
    ]
    assert {(one["outcome"], one["served"]) for one in kept} == {("other_model", "mock-beta")}
    place.server.reset()
    assert place.run("bread").failed == 0


def test_a_reply_that_is_refused_is_cut_off(place: Workplace) -> None:
    one_target(place, served_model="same")
    place.server.settings = Settings(tokens_per_second=100, flush_each=True)
    answers_as(place, "mock-beta")
    place.run("bread")
    [refused] = [
        attempt
        for attempt in audit.attempts(place.root / "crosswind.db")
        if attempt["role"] == "target"
    ]
    assert refused["output_tokens"] in {None, 1}


def test_a_name_that_is_meant_is_no_other_model(place: Workplace) -> None:
    served_as = ["elsewhere", "provider/mock-beta"]
    one_target(place, served_model="same", served_as=served_as)
    answers_as(place, "mock-beta")
    assert place.run("bread").failed == 0
    with place.reader() as reader:
        assert warnings(reader) == []
        assert reader.snapshot().target("bread", "alpha").others == {}
    kept = [
        attempt
        for attempt in audit.attempts(place.root / "crosswind.db")
        if attempt["role"] == "target"
    ]
    assert {one["served"] for one in kept} == {"mock-beta"}


def test_a_judge_and_a_user_model_of_another_name_are_said_once(place: Workplace) -> None:
    one_target(place, rows=2)
    answers_as(place, "mock-user", of=Role.USER, headers={"x-other": "1"})
    answers_as(place, "mock-judge", of=Role.EVALUATOR, headers={"x-other": "1"})
    place.run("bread")
    with place.reader() as reader:
        told = warnings(reader)
    approve(sorted(text.split(",")[0] for text in told))
    shown = crosswind(place.root, "results", "--details").out
    approve(shown)


def test_a_name_that_a_server_makes_up_is_drawn_and_bounded(place: Workplace) -> None:
    one_target(place)
    answers_as(place, "\x1b[31m\u202ebeta\n" + "x" * 5_000)
    place.run("bread")
    kept = [
        attempt
        for attempt in audit.attempts(place.root / "crosswind.db")
        if attempt["role"] == "target"
    ]
    [name] = {one["served"] for one in kept}
    assert len(name) <= 210
    assert name.isprintable()


def test_what_is_advised_about_a_fallback_under_the_same_name_is_what_helps(
    place: Workplace,
) -> None:
    one_target(place)
    answers_as(place, "steadfast")
    place.run("bread")
    with place.reader() as reader:
        [said] = warnings(reader)
    approve(said)
    one_target(place, served_as="steadfast", served_model="same")
    assert place.run("bread", force=True).failed == 0
