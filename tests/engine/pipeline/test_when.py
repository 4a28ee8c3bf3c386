"""When a behaviour must hold: what is asked, what counts, and what a change of it makes stale."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import pytest

from engine.benchmark import Speaker, Stage, Track
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import InputError
from engine.jury import NO_PRESSURE
from engine.pipeline.judge import pressed_from
from engine.pipeline.order import WorkReason
from engine.pipeline.report import build_report
from engine.providers.model import Message
from engine.store.tables import MessageRow
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place
from tests.models import ScriptedModel, judgement, opening, replies_in

POSITIVE = "    type: positive\n"
PLAYED = 8
"""Conversations of the positive metric."""


def finds_it(shown_in: frozenset[int] = frozenset({1})) -> ScriptedModel:
    """A judge that finds the behaviour in the first reply alone, or in those that it is told."""

    def judged(messages: Sequence[Message]) -> str:
        said = replies_in(messages)
        marks = [turn in shown_in for turn in range(1, len(said) + 1)]
        return judgement(said[marks.index(True)], marks=marks, present=True)

    return ScriptedModel(judged, label="offline:evaluator")


def must_hold(place: Place, when: str) -> Place:
    place.edit(place.benchmark, POSITIVE, f"{POSITIVE}    when: {when}\n")
    return place


@pytest.mark.parametrize(
    ("when", "rule"),
    [
        ("at_the_end", "counts only if shown in the last reply"),
        ("under_pressure", "counts only if shown in a reply from the second reached landmark on"),
        ("every_reply", "counts only if shown in every reply"),
    ],
)
def test_where_a_failure_is_explained_stands_which_replies_count(
    place: Place, when: str, rule: str
) -> None:
    """The judge says that it found the behaviour, and the conversation failed all the same."""
    must_hold(place, when).heard_by(opening({"evaluator": finds_it()})).run()
    page = place.root / "page.html"
    crosswind(place.root, "export", "html", "--out", str(page), code=0)
    assert re.search(rf"shown in turn 1 of \d; {rule}<", page.read_text("utf-8"))
    crosswind(place.root, "export", "site", "--out", str(place.root / "site"), code=0)
    shown = "".join(one.read_text("utf-8") for one in (place.root / "site").rglob("*.js"))
    assert rule in shown


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("when", "rate"),
    [("anywhere", 1.0), ("at_the_end", 0.0), ("under_pressure", 0.0), ("every_reply", 0.0)],
)
def test_what_was_shown_once_at_the_beginning_counts_only_where_that_is_enough(
    place: Place, when: str, rate: float
) -> None:
    judge = finds_it()
    hearing = must_hold(place, when).heard_by(opening({"evaluator": judge}))
    assert hearing.run().failed == 0
    for row in place.json("results.json"):
        assert (row["positive_pass_rate"], row["negative_pass_rate"]) == (rate, 0.0)
    assert not any(when in message.text for asked in judge.asked for message in asked)
    [score] = [
        one
        for one in place.json("runs", "holds", "scores.json")
        if one["conv_id"] == "m01_s001_v01__holds"
    ]
    [said] = score["_crosswind"]["verdicts"]
    assert (said["marks"], said["present"]) == ([True, False], bool(rate))
    shown = crosswind(place.root, "show", "m01_s001_v01__holds", code=0).out
    approve(shown)
    words = {"at_the_end": "absent in the last reply", "every_reply": "absent in every reply"}
    assert words.get(when, "") in shown


def test_a_change_of_when_makes_the_verdicts_stale_and_nothing_else(played: Place) -> None:
    must_hold(played, "at_the_end")
    assert list(played.plan().work) == []
    stale = played.plan().stale
    assert {(work.stage, work.why, work.detail) for work in stale} == {
        (Stage.EVALUATE, WorkReason.STALE, "metric definition changed")
    }
    assert len(stale) == PLAYED
    played.run(stale=True)
    assert list(played.plan().stale) == []
    played.edit(played.benchmark, "    when: at_the_end\n", "    when: anywhere\n")
    assert len(played.plan().stale) == PLAYED


def test_what_is_edited_later_does_not_change_from_which_turn_on_it_held(place: Place) -> None:
    def course() -> tuple[list[int], int]:
        report = build_report(
            Workspace(place.root), load_config(place.config), place.store, "giving-in"
        )
        [holds, _] = [one for one in report.courses if one.track is Track.POSITIVE]
        return list(holds.seen), holds.of

    judge = finds_it(shown_in=frozenset({2}))
    assert (
        must_hold(place, "under_pressure").heard_by(opening({"evaluator": judge})).run().failed == 0
    )
    assert course() == ([0, 4], 4)
    rows = place.json("scenarios.json")
    for row in rows:
        row["landmarks"] = row["landmarks"][:1]
    (place.folder / "scenarios.json").write_text(json.dumps(rows))
    place.run(stages=frozenset())
    assert {work.detail for work in place.plan().stale} == {"scenario changed"}
    assert course() == ([0, 4], 4)
    place.edit(place.benchmark, "when: under_pressure", "when: every_reply")
    assert course() == ([0, 4], 4)


def test_pressure_begins_with_the_second_landmark_that_was_reached_and_answered() -> None:
    def said(*landmarks: str | None, replies: int | None = None) -> list[MessageRow]:
        rows = []
        for turn, landmark in enumerate(landmarks, 1):
            user = MessageRow(
                take=1, turn=turn, speaker=Speaker.USER, text="?", landmark=landmark, finish="stop"
            )
            reply = MessageRow(take=1, turn=turn, speaker=Speaker.TARGET, text=".", finish="stop")
            rows += [user, *([reply] if replies is None or turn <= replies else [])]
        return rows

    assert pressed_from(said("a", "b", "c")) == 2
    assert pressed_from(said("a", None, "c", None)) == 3
    assert pressed_from(said("a", None)) == 0
    assert pressed_from(said(None, None)) == 0
    assert pressed_from(said("a", "b", replies=1)) == 0


def test_a_conversation_that_never_came_to_the_pressure_is_unscored_and_costs_no_call(
    place: Place,
) -> None:
    place.run(stages=frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS}))
    rows = place.json("scenarios.json")
    for row in rows:
        row["landmarks"] = row["landmarks"][:1]
    (place.folder / "scenarios.json").write_text(json.dumps(rows))
    judge = finds_it()
    hearing = must_hold(place, "under_pressure").heard_by(opening({"evaluator": judge}))
    assert hearing.run().failed == 0
    assert len(judge.asked) == PLAYED, "of the other metric alone"
    for result in place.json("results.json"):
        assert result["positive_pass_rate"] is None
        assert result["scored"]["unscored"] == {NO_PRESSURE: PLAYED // 2}
    assert list(place.plan().work) == []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("turns: 2", "turns: 1", "generation.turns: 1"),
        ("targets:\n", "landmarks: false\ntargets:\n", "landmarks: false"),
    ],
)
def test_a_pressure_that_no_conversation_can_have_is_refused_before_anything_is_spent(
    place: Place, old: str, new: str, why: str
) -> None:
    must_hold(place, "under_pressure").edit(place.config, old, new)
    with pytest.raises(InputError) as refusal:
        place.run()
    [problem] = refusal.value.problems
    assert problem.key == "metrics[0].when"
    approve(str(problem))
    place.edit(place.benchmark, "under_pressure", "at_the_end")
    assert place.run().failed == 0
