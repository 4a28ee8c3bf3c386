"""Cheap calls that look at finished conversations: planned, made once, kept, counted."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import ConversationKey, Role, Stage
from engine.checks import CheckKind
from engine.errors import ModelError
from engine.facts import NoteKind
from engine.providers.model import Message
from engine.store.browsing import Browser, Field, FilterTerm
from tests.approval import approve, sentences_with
from tests.engine.commands import crosswind, printed_data
from tests.engine.small_workspace import Place, small_workspace
from tests.models import ScriptedModel, opening

ON = "checks: {groups: true, landmarks: true, model: looker}\n"
LOOKER = "models: {looker: {model: evaluator-strict, source: offline, params: {pace: instant}}}\n"


def with_checks(place: Place, checks: str = ON) -> Place:
    place.config.write_text(place.config.read_text() + LOOKER + checks)
    return place


def rows(place: Place, table: str = "take_check") -> list[dict[str, Any]]:
    with place.reader() as reader:
        return [dict(row) for row in reader.connection.all(f"SELECT * FROM {table}")]


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = with_checks(small_workspace(tmp_path_factory.mktemp("checks")))
    assert place.run().failed == 0
    return place


def test_each_conversation_is_checked_once_beside_its_verdict(checked: Place) -> None:
    kinds = Counter((row["kind"], row["model"]) for row in rows(checked))
    assert kinds == {
        ("groups", "offline:evaluator-strict"): 16,
        ("landmarks", "offline:evaluator-strict"): 16,
    }
    calls = [row for row in rows(checked, "attempt") if row["role"] == Role.CHECKER]
    assert {row["stage"] for row in calls} == {Stage.EVALUATE}
    assert len(calls) == 32
    assert len(rows(checked, "verdict")) == 16
    assert checked.plan().work == []


def test_what_they_cost_is_planned_for_what_is_written_and_for_what_is_not(tmp_path: Path) -> None:
    place = with_checks(small_workspace(tmp_path))
    said = crosswind(place.root, "run", "--dry-run").words
    approve(said)
    place.run(stages=frozenset({Stage.GEN_METRICS, Stage.GEN_SCENARIOS}))
    said = crosswind(place.root, "run", "--dry-run").words
    approve(said)


def test_asked_for_later_they_are_made_of_what_is_there_and_nothing_else_is(
    played: Place,
) -> None:
    assert rows(played) == []
    before = len(rows(played, "verdict")), len(rows(played, "message"))
    with_checks(played)
    work = played.plan().work
    assert {str(one.why) for one in work} == {"missing"}
    approve({one.detail for one in work})
    assert played.run().failed == 0
    assert len(rows(played)) == 32
    assert (len(rows(played, "verdict")), len(rows(played, "message"))) == before
    # another judge that is asked for once asks for no checks
    played.run(stages=frozenset({Stage.EVALUATE}), evaluator="looker")
    assert len(rows(played)) == 32


def test_results_say_in_how_many_conversations_a_target_could_have_known(checked: Place) -> None:
    said = crosswind(checked.root, "results", "--details").words
    right = sum(answer["holds"] for row in rows(checked) for answer in guessed(row))
    assert f"guessed right in {right} of 16" in said
    approve(said)
    as_json = crosswind(checked.root, "results", "--json").words
    for row in printed_data(as_json)["giving-in"]:
        found = row["comparisons"]["guessed_from_user_messages"]["age"]
        assert (found["right"], found["checked"], found["by_chance"]) == (right, 16, 0.5)
        assert found["models"] == ["offline:evaluator-strict"]
        made = row["_crosswind"]
        assert made["checkers"] == {"offline:evaluator-strict": []}
        assert {"checks.groups", "checks.landmarks"} <= set(made["prompts"])
    methods = crosswind(checked.root, "results", "--methods").words
    assert f"offline:evaluator-strict guessed age right in {right} of 16" in methods


def guessed(row: dict[str, Any]) -> list[dict[str, Any]]:
    return json.loads(row["answers"]) if row["kind"] == CheckKind.GROUPS else []


def test_a_checker_is_told_neither_persona_nor_replies(tmp_path: Path) -> None:
    heard = ScriptedModel(lambda _: "{}")
    place = with_checks(small_workspace(tmp_path)).heard_by(opening({"evaluator-strict": heard}))
    place.run()
    with place.reader() as reader:
        takes = reader.takes("giving-in")
        scenarios = [row.scenario for row in reader.scenarios("giving-in")]
        said = [one for take in takes for one in reader.messages(take.seq)]
    asked = "\n".join(message.text for request in heard.asked for message in request)
    for scenario in scenarios:
        assert scenario.persona not in asked
        assert scenario.latent_adversarial_goal not in asked
        assert scenario.user_goal not in asked
    for message in said:
        if message.speaker == "assistant":
            assert json.dumps(message.text, ensure_ascii=False)[1:-1] not in asked


def only_landmarks(messages: Sequence[Message]) -> str:
    """Answers one of the two checks in the form."""
    turns = re.findall(r'"number": (\d+)(?=[^}]*"instruction")', messages[1].text)
    marks = [{"message": int(n), "quote": "", "reason": "no", "carried_out": False} for n in turns]
    return json.dumps({"landmarks": marks}) if turns else "I would rather not say."


def test_a_check_without_a_usable_answer_is_paid_once_and_leaves_verdict_and_other_check(
    tmp_path: Path,
) -> None:
    place = with_checks(small_workspace(tmp_path))
    asked = ScriptedModel(only_landmarks)
    place = place.heard_by(opening({"evaluator-strict": asked}))
    assert place.run().failed == 0
    unusable = Counter((row["kind"], bool(row["unusable"])) for row in rows(place))
    assert unusable == {("groups", True): 16, ("landmarks", False): 16}
    assert len(asked.asked) == 16 * (3 + 1)
    with place.reader() as reader:
        assert reader.failed_units() == []
        notes = [note.text for note in reader.snapshot().notes if note.kind is NoteKind.WARNING]
    [said] = [note for note in notes if "blind check" in note]
    approve(said)
    assert place.plan().work == []
    place.run()
    assert len(asked.asked) == 16 * (3 + 1)
    approve(crosswind(place.root, "results", "--details").text)


def is_down(_messages: Sequence[Message]) -> str:
    raise ModelError("nobody answers", retryable=True)


def test_a_check_whose_call_fails_is_made_again_by_three_runs_and_by_no_further_one(
    tmp_path: Path,
) -> None:
    place = with_checks(small_workspace(tmp_path))
    asked = ScriptedModel(is_down)
    down = place.heard_by(opening({"evaluator-strict": asked}))
    for runs in (1, 2, 3, 3):
        assert down.run().failed == 0
        assert len(asked.asked) == 32 * runs
        assert len(place.plan().work) == (16 if runs < 3 else 0)
    assert printed_data(crosswind(place.root, "status", "--json").out)["failed"] == 0
    assert len(rows(place, "verdict")) == 16


def test_a_check_whose_call_failed_is_made_by_the_next_run(tmp_path: Path) -> None:
    place = with_checks(small_workspace(tmp_path))
    place.heard_by(opening({"evaluator-strict": ScriptedModel(is_down)})).run()
    assert len(place.plan().work) == 16
    assert place.run().failed == 0
    assert Counter(bool(row["unusable"]) for row in rows(place)) == {True: 32, False: 32}


def says_one_is_missing(messages: Sequence[Message]) -> str:
    """The landmark of the second turn, wherever somebody younger speaks."""
    text = messages[-1].text
    said = json.loads(text.partition(">\n")[2].partition("\n</messages")[0])
    younger = any("younger" in row["text"] for row in said)
    landmarks = [
        {
            "message": row["number"],
            "quote": row["text"],
            "reason": "It does not press.",
            "carried_out": not (younger and row["number"] == 2),
        }
        for row in said
        if "instruction" in row
    ]
    return json.dumps({"landmarks": landmarks})


@pytest.fixture(scope="module")
def missing_one(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = small_workspace(tmp_path_factory.mktemp("missing_one"))
    with_checks(place, "checks: {landmarks: true, model: looker}\n")
    place = place.heard_by(opening({"evaluator-strict": ScriptedModel(says_one_is_missing)}))
    assert place.run().failed == 0
    return place


def test_a_landmark_that_was_not_carried_out_is_found_counted_and_shown(missing_one: Place) -> None:
    with missing_one.reader() as reader:
        takes = {take.seq: take for take in reader.takes("giving-in")}
        found = Browser(reader).find((FilterTerm(Field.IS, ("invalid",)),))
    faulty = {seq for seq, take in takes.items() if take.faults}
    assert set(found.takes) == faulty
    assert 0 < len(faulty) < 16
    said = crosswind(missing_one.root, "results", "--details").words
    approve(sentences_with(said, "did not do"))
    assert f"its part in {len(faulty)} of 16" in said
    key = str(takes[min(faulty)].key)
    shown = crosswind(missing_one.root, "show", key).words
    approve(shown)
    as_json = crosswind(missing_one.root, "show", key, "--json").words
    [take] = printed_data(as_json)["takes"]
    [check] = take["checks"]
    assert [one["holds"] for one in check["answers"]] == [True, False]


def test_it_is_left_out_where_that_is_asked_and_comes_back_from_the_files(
    missing_one: Place, tmp_path: Path
) -> None:
    again = Place(tmp_path / "again")
    ignored = shutil.ignore_patterns("crosswind.*", "search.*")
    shutil.copytree(missing_one.root, again.root, ignore=ignored)
    again.config.write_text(again.config.read_text() + "user_audit: invalidate\n")
    assert crosswind(again.root, "repair", "--yes")[0] == 0
    with missing_one.reader() as was, again.reader() as now:
        faults = [
            {str(take.key): take.faults for take in reader.takes("giving-in")}
            for reader in (was, now)
        ]
    assert faults[0] == faults[1]
    of_holds = sum(bool(found) for key, found in faults[0].items() if "__holds" in key)
    said = crosswind(again.root, "results", "--details").words
    approve(sentences_with(said, "of 8 unscored"))
    assert f"holds: {of_holds} of 8 unscored" in said


def test_a_take_that_is_played_again_is_checked_again_and_its_own_check_counts(
    tmp_path: Path,
) -> None:
    place = small_workspace(tmp_path)
    with_checks(place, "checks: {landmarks: true, model: looker}\n")
    heard = place.heard_by(opening({"evaluator-strict": ScriptedModel(says_one_is_missing)}))
    heard.run()
    with place.reader() as reader:
        faulty = [take.key for take in reader.counting_takes("giving-in") if take.faults]
    # the scripted looker finds nothing wrong
    key = faulty[0]
    stages = frozenset({Stage.SIMULATE, Stage.EVALUATE})
    place.run(stages=stages, again={"giving-in": frozenset({key})})
    assert len(rows(place)) == 17
    with place.reader() as reader:
        left = [take.key for take in reader.counting_takes("giving-in") if take.faults]
    assert left == [one for one in faulty if one != key]
    assert isinstance(key, ConversationKey)


def test_with_another_model_they_are_stale_and_made_again_where_that_is_asked(
    tmp_path: Path,
) -> None:
    place = with_checks(small_workspace(tmp_path))
    place.run()
    place.edit(place.config, ", model: looker}", "}")
    assert place.plan().work == []
    stale = place.plan().stale
    assert {one.detail for one in stale} == {"checker changed"}
    assert len(stale) == 16
    place.run(stale=True)
    models = Counter(row["model"] for row in rows(place))
    assert models == {"offline:evaluator-strict": 32, "offline:evaluator": 32}
    assert place.plan().stale == []


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ("checks: {groups: true, model: luker}", "no model is called `luker`"),
        ("user_audit: off\nchecks: {landmarks: true}", "`user_audit: off` says not to look"),
        ("checks: {group: true}", "did you mean `groups`?"),
        ("checks: {groups: sometimes}", "expected true or false"),
    ],
)
def test_a_slip_is_refused_with_its_place(tmp_path: Path, lines: str, fault: str) -> None:
    place = with_checks(small_workspace(tmp_path), f"{lines}\n")
    done = crosswind(place.root, "run", "--headless", code=2)
    assert f"{place.config}:" in done.words
    assert fault in done.words
