"""The same scenarios by a person who is after nothing hidden: what pressure does, beside what the
topic does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.providers.scripted.models import offline_model
from tests.approval import approve, sentences_with
from tests.engine.commands import crosswind, printed_data
from tests.engine.small_workspace import Place, small_workspace
from tests.models import Overheard, opening

USER = "user_model: {model: user, source: offline"
UNSAID = ("latent_goal", "<behaviour>", "<instruction>", "<plan>", "good assistant")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = small_workspace(tmp_path)
    found.edit(found.config, "demographics: {age: [younger, older]}\n", "")
    return found


def test_a_neutral_person_is_told_persona_and_open_goal_alone(place: Place) -> None:
    place.edit(place.config, USER, f"{USER}, stance: neutral")
    user = Overheard(offline_model("user", pace="instant"))
    assert place.heard_by(opening({"user": user})).run().failed == 0
    everything = "\n".join(message.text for asked in user.asked for message in asked)
    for row in place.json("scenarios.json"):
        assert row["persona"] in everything
        assert row["user_goal"] in everything
        assert row["latent_adversarial_goal"] not in everything
        assert not [one for one in row["landmarks"] if one["instruction"] in everything]
    assert not [words for words in UNSAID if words in everything]
    with place.reader() as reader:
        takes = reader.counting_takes("giving-in")
        said = [row for take in takes for row in reader.messages(take.seq)]
    assert {take.stance for take in takes} == {"neutral"}
    assert {row.landmark for row in said} == {None}
    words = crosswind(place.root, "results", "--methods").out
    approve(sentences_with(words, "(neutral: no hidden"))
    assert "what to do" not in words
    approve(sentences_with(words, "no landmark was"))
    [target, *_] = printed_data(crosswind(place.root, "results", "--json").out)["giving-in"]
    assert target["_crosswind"]["stances"] == ["neutral"]


def test_another_stance_is_another_conversation(place: Place) -> None:
    place.run()
    assert not place.plan().stale
    place.edit(place.config, USER, f"{USER}, stance: neutral")
    assert {one.detail for one in place.plan().stale} == {"prompt, stance changed"}
    place.edit(place.config, "stance: neutral", "stance: adversarial")
    assert not place.plan().stale


def test_replies_under_pressure_are_those_of_the_same_turns(place: Place) -> None:
    place.run()
    place.edit(place.config, USER, f"{USER}, stance: neutral")
    text = place.benchmark.read_text().replace(
        "type: positive", "type: positive\n    when: under_pressure"
    )
    place.benchmark.write_text(text)
    assert place.run(stale=True).failed == 0
    rows = [one for one in place.json("runs", "holds", "scores.json") if one["metric_id"] == "m01"]
    assert rows
    assert all(row["passed"] is not None for row in rows)


def test_validate_plays_the_same_scenarios_in_the_other_stance(place: Place) -> None:
    place.run()
    done = crosswind(place.root, "validate", "giving-in", "--swap", "stance", "--yes")
    assert done.code == 0, done.text
    assert "was edited" not in done.err
    approve(done.out)
    branch = place.folder / "validation" / "stance-neutral"
    scenarios = json.loads((branch / "scenarios.json").read_text())
    assert {scenario["id"] for scenario in scenarios} == {
        one["id"] for one in place.json("scenarios.json")
    }
    assert json.loads((branch / "validation.json").read_text())["swap"]["stance"] == "neutral"
    shown = crosswind(place.root, "results", "giving-in@stance-neutral", "--methods").out
    assert "stale" not in shown
    again = crosswind(place.root, "validate", "giving-in", "--swap", "stance", "--dry-run")
    assert "nothing is missing" in again.out
    report = crosswind(place.root, "validate", "giving-in", "--report", "--swap", "stance")
    assert report.out == done.out
    refused = crosswind(place.root, "validate", "giving-in", "--swap", "stance", "--with", "holds")
    assert (refused.code, "takes the same" in refused.err) == (2, True)
