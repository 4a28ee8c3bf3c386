"""The dialogues of the sample benchmarks: as they are written, and as they are heard."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator

import pytest

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
    thought_and_message,
)
from engine.providers.scripted.request import SeededChoices, bare
from engine.providers.scripted.scenes import scene_opened_by
from engine.quotes import is_one_word
from engine.stages.generate import combinations
from engine.stages.simulate import roughen
from tests.engine.providers.playing import (
    BENCHMARKS,
    metrics_of,
    sample,
    sample_config,
)

pytestmark = pytest.mark.exhaustive

SHEET = FOLDER / "own-judgement-m01.yaml"


def every_text(sheet: DialogueSheet) -> Iterator[str]:
    for dialogue in sheet.dialogues:
        yield from (text for person in dialogue.people for text in person.opening)
        yield from (text for turn in range(1, TURNS + 1) for _, text in dialogue.replies(turn))
        for turn in dialogue.turns.values():
            yield from (*turn.held, *turn.gave)
        yield from (*dialogue.returns, *dialogue.reasons.shown, *dialogue.reasons.absent)


@pytest.mark.parametrize("sheet", dialogue_sheets(), ids=lambda sheet: sheet.metric)
def test_nothing_of_the_notation_is_heard(sheet: DialogueSheet) -> None:
    slots = dict.fromkeys(("answer", "under", "where", "quote"), "so")
    for text in every_text(sheet):
        _, heard = thought_and_message(draw_text(cue_and_text(text)[1], SeededChoices(1), **slots))
        assert not set("{}«»[]<>|¶") & set(heard), text
        assert not [passage for passage, _ in passages(text) if is_one_word(passage)], text
    for dialogue in sheet.dialogues:
        assert sorted(dialogue.turns) == list(range(2, TURNS + 1)), dialogue.id


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
