"""A user model that did not do its part: kept, shown, counted, left out where that is asked, and
played again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.checks import FaultKind
from engine.providers.model import Message, MessageRole
from engine.store.browsing import Browser, Field, FilterTerm
from tests.approval import approve
from tests.engine.commands import crosswind, printed_data
from tests.engine.small_workspace import Place, small_workspace
from tests.models import ScriptedModel, opening

INVALID = {
    f"m0{metric}_s00{number}_v01__{target}"
    for metric in (1, 2)
    for number in (1, 2)
    for target in ("holds", "wavers")
}
"""The user model says everything twice where it plays somebody younger: half of 16."""


def says_it_twice(messages: Sequence[Message]) -> str:
    turn = sum(message.role is MessageRole.ASSISTANT for message in messages)
    younger = "younger" in messages[0].text
    said = "I have thought about it for a long time" + ("" if younger else f", {turn} weeks now")
    words = said if younger else f"{said} and {'my sister agrees' if turn else 'I am tired of it'}"
    return json.dumps({"thought": "", "message": f"{words}.", "done": False})


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = small_workspace(tmp_path_factory.mktemp("user_audit")).heard_by(
        opening({"user": ScriptedModel(says_it_twice)})
    )
    place.run()
    return place


def with_mode(place: Place, mode: str) -> None:
    lines = [one for one in place.config.read_text().splitlines() if "user_audit" not in one]
    place.config.write_text("\n".join([*lines, f"user_audit: {mode}", ""]))


def test_what_is_found_is_kept_with_the_end_of_the_take(played: Place) -> None:
    with played.reader() as reader:
        takes = reader.takes("giving-in")
    assert len(takes) == 16
    assert {str(take.key) for take in takes if take.user_faults} == INVALID
    assert all(take.user_faults is not None for take in takes)
    for take in takes:
        for fault in take.user_faults or ():
            assert (fault.kind, fault.turn) == (FaultKind.REPEATED, 2)
            assert isinstance(fault.kind, FaultKind)


def test_a_filter_finds_them(played: Place) -> None:
    with played.reader() as reader:
        seqs = {take.seq: str(take.key) for take in reader.takes("giving-in")}
        browser = Browser(reader)
        found = browser.find((FilterTerm(Field.IS, ("invalid",)),))
        others = browser.find((FilterTerm(Field.IS, ("invalid",), negated=True),))
    assert {seqs[seq] for seq in found.takes} == INVALID
    assert {seqs[seq] for seq in others.takes} == set(seqs.values()) - INVALID


def test_results_count_them_and_show_says_where(played: Place) -> None:
    with_mode(played, "flag")
    done = crosswind(played.root, "results", "--details", code=0)
    approve(done.text)
    shown = crosswind(played.root, "show", "m01_s001_v01__holds").text
    approve(shown)
    sound = crosswind(played.root, "show", "m01_s001_v02__holds").text
    assert "! user model" not in sound
    as_json = crosswind(played.root, "show", "m01_s001_v01__holds", "--json").text
    [take] = printed_data(as_json)["takes"]
    approve(take["user_faults"])


def test_where_they_are_invalid_they_are_unscored_and_judged_all_the_same(played: Place) -> None:
    with_mode(played, "invalidate")
    said = crosswind(played.root, "results", "--details").text
    words = " ".join(said.split())
    approve(words)
    as_json = crosswind(played.root, "results", "--json").text
    for row in printed_data(as_json)["giving-in"]:
        assert row["n_total"] == 4
        approve(row["scored"]["unscored"])
        assert row["user_audit"] == {
            "mode": "invalidate",
            "of": 8,
            "looked_at": 8,
            "invalid": 4,
            "faults": {"message repeated": 4},
            "landmarks_checked": None,
        }
    with played.reader() as reader:
        assert len(reader.verdict_rows("giving-in")) == 16


def test_they_are_in_the_files_and_come_back_from_them(played: Place, tmp_path: Path) -> None:
    again = tmp_path / "again"
    shutil.copytree(played.root, again, ignore=shutil.ignore_patterns("crosswind.*", "search.*"))
    assert crosswind(again, "repair", "--yes")[0] == 0
    with played.reader() as was, Place(again).reader() as now:
        faults = [
            {str(take.key): take.user_faults for take in reader.takes("giving-in")}
            for reader in (was, now)
        ]
    assert faults[0] == faults[1]
    assert sum(map(bool, faults[1].values())) == len(INVALID)


def test_where_nobody_is_to_look_nothing_is_said(played: Place) -> None:
    with_mode(played, "off")
    said = crosswind(played.root, "results", "--details").text
    assert "user model" not in said
    as_json = crosswind(played.root, "results", "--json").text
    assert all("user_audit" not in row for row in printed_data(as_json)["giving-in"])


def test_what_was_played_unseen_is_said_to_be_unknown(tmp_path: Path) -> None:
    place = small_workspace(tmp_path).heard_by(opening({"user": ScriptedModel(says_it_twice)}))
    with_mode(place, "off")
    place.run()
    with place.reader() as reader:
        assert all(take.user_faults is None for take in reader.takes("giving-in"))
    with_mode(place, "invalidate")
    said = crosswind(place.root, "results", "--details").words
    assert "whether the user model did its part is not known for 16 conversations" in said


def test_an_unknown_word_is_refused_with_its_place(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    with_mode(place, "sometimes")
    done = crosswind(place.root, "run", "--headless")
    line = len(place.config.read_text().splitlines())
    assert done.code == 2
    assert f"{place.config}:{line}:13: user_audit: found `sometimes`, expected `off`" in done.text


def test_they_are_played_again_and_nothing_else(tmp_path: Path) -> None:
    place = small_workspace(tmp_path).heard_by(opening({"user": ScriptedModel(says_it_twice)}))
    place.run()
    done = crosswind(place.root, "simulate", "m01", "--invalid", code=0)
    asked = {one for one in INVALID if one.startswith("m01")}
    assert {
        line.split(":")[0] for line in done.text.splitlines() if "on the whole" in line
    } == asked
    with place.reader() as reader:
        again = {str(take.key) for take in reader.takes("giving-in") if take.number == 1}
        left = {str(take.key) for take in reader.counting_takes("giving-in") if take.user_faults}
    assert again == asked
    assert left == INVALID - asked
    assert crosswind(place.root, "simulate", "--invalid")[0] == 0
    done = crosswind(place.root, "simulate", "--invalid")
    approve((done.code, done.text))


def test_simulate_without_a_name_says_what_it_needs(played: Place) -> None:
    done = crosswind(played.root, "simulate", code=2)
    approve(done.text)
