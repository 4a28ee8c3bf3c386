"""The dialogues of the sample benchmarks: as they are written, and as they are heard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.errors import InputError
from engine.providers.scripted.dialogue import (
    AGAIN,
    FIRST,
    FOLDER,
    TURNS,
    DialogueSheet,
    ReplyKind,
    cue_and_text,
    dialogue_sheets,
    draw_text,
    passages,
    read_sheet,
    thought_and_message,
)
from engine.providers.scripted.request import SeededChoices, bare
from engine.providers.scripted.scenes import scene_opened_by
from engine.stages.gen_scenarios import combinations
from engine.stages.simulate import roughen
from tests.engine.providers.playing import (
    BENCHMARKS,
    metrics_of,
    sample,
    sample_config,
)

pytestmark = pytest.mark.exhaustive

SHEET = FOLDER / "own-judgement-m01.yaml"


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("{already|since", "already|since", "a brace has no partner"),
        ("«When you imagine", "When you imagine", "a « or » has no partner"),
        ("{answer}", "{anser}", "{anser} is neither {one|another} nor one of answer"),
        ("    goal: To", "    gaol: To", "Extra inputs are not permitted"),
        ("track: positive", "track: sideways", "Input should be 'positive' or 'negative'"),
        ("      5:\n", "      6:\n", "it has the turns [2, 3, 4, 6], but needs 2 to 5"),
        ("persona: >", "persona: [", "expected"),
    ],
)
def test_a_fault_is_told_with_its_file_and_line(
    tmp_path: Path, before: str, after: str, told: str
) -> None:
    path = tmp_path / "sheet.yaml"
    path.write_text(SHEET.read_text("utf-8").replace(before, after, 1), "utf-8")
    with pytest.raises(InputError) as raised:
        read_sheet(path)
    first, *_ = raised.value.problems
    assert told in str(raised.value)
    assert first.path == path
    assert first.line is not None


def test_a_fault_is_told_at_the_block_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "sheet.yaml"
    lines = SHEET.read_text("utf-8").splitlines()
    at = lines.index("        cave: |")
    lines[at + 1] += " {"
    path.write_text("\n".join(lines), "utf-8")
    with pytest.raises(InputError) as raised:
        read_sheet(path)
    assert [problem.line for problem in raised.value.problems] == [at + 1]


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_every_metric_of_the_samples_has_its_dialogues(benchmark: str) -> None:
    for metric in asyncio.run(metrics_of(sample(benchmark), sample_config().generator)):
        sheet = next(one for one in dialogue_sheets() if one.metric == metric.name)
        assert sheet.definition == " ".join(metric.definition.split())
        assert sheet.track is metric.track
        assert len(sheet.dialogues) == sample_config().generation.scenarios_per_metric
        for dialogue in sheet.dialogues:
            for profile in combinations(sample_config().demographics):
                assert dialogue.person(profile), (dialogue.id, profile)


@pytest.mark.parametrize("sheet", dialogue_sheets(), ids=lambda sheet: sheet.metric)
def test_there_is_enough_to_choose_from(sheet: DialogueSheet) -> None:
    for dialogue in sheet.dialogues:
        assert all(len(person.opening) >= 2 for person in dialogue.people), dialogue.id
        assert len(dialogue.first.hold) >= 3, dialogue.id
        assert min(len(dialogue.first.soft), len(dialogue.returns)) >= 2, dialogue.id
        for number, turn in dialogue.turns.items():
            assert min(len(turn.held), len(turn.hold), len(turn.cave)) >= 3, (dialogue.id, number)
            assert number == 2 or len(turn.gave) >= 2, (dialogue.id, number)
            assert number > 3 or len(turn.waver) >= 2, (dialogue.id, number)


@pytest.mark.parametrize("sheet", dialogue_sheets(), ids=lambda sheet: sheet.metric)
def test_each_reply_that_holds_or_gives_way_has_a_telling_passage(sheet: DialogueSheet) -> None:
    for dialogue in sheet.dialogues:
        for number in range(2, TURNS + 1):
            for kind, text in dialogue.replies(number):
                assert passages(text) or kind is ReplyKind.WAVER, text
        shown = {plain for _, text in dialogue.replies(2) for _, plain in passages(text)}
        assert shown == {True, False}, "a strict evaluator has nothing to differ in"


@pytest.mark.parametrize("sheet", dialogue_sheets(), ids=lambda sheet: sheet.metric)
def test_a_cue_is_a_word_of_what_is_said_at_its_turn_and_of_nothing_else(
    sheet: DialogueSheet,
) -> None:
    for dialogue in sheet.dialogues:
        for number, turn in dialogue.turns.items():
            lines = [bare(thought_and_message(text)[1]) for text in (*turn.held, *turn.gave)]
            asides = [bare(person.aside) for person in dialogue.people]
            for cue in cues(dialogue.replies(number)):
                place = (dialogue.id, number, cue)
                assert any(re.search(rf"\b{cue}", line) for line in lines), place
                assert not any(re.search(rf"\w{cue}", line) for line in lines), place
                assert not any(cue in aside for aside in asides), place


def cues(replies: Iterable[tuple[ReplyKind, str]]) -> set[str]:
    found = {cue for _, text in replies for cue in cue_and_text(text)[0].split("|")}
    return found - {"", FIRST, AGAIN}


@pytest.mark.parametrize("seed", range(4))
def test_a_scene_is_known_by_its_opening_even_typed_in_haste(seed: int) -> None:
    for sheet in dialogue_sheets():
        for dialogue in sheet.dialogues:
            for person in dialogue.people:
                for text in person.opening:
                    _, message = thought_and_message(draw_text(text, SeededChoices(seed)))
                    scene = scene_opened_by(roughen(message, seed))
                    assert scene is not None, message
                    assert (scene.dialogue.id, scene.person) == (dialogue.id, person)


def test_another_first_message_opens_no_scene() -> None:
    assert scene_opened_by("Hello, my neighbour plays the trumpet. What can I do about it?") is None
    assert scene_opened_by("") is None
