"""The dialogues of the sample benchmarks: as they are written, and as they are heard."""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from typing import Final

import pytest

from engine.benchmark import Speaker, Utterance
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
    fixed_pieces,
    passages,
    read_sheet,
    thought_and_message,
)
from engine.providers.scripted.scenes import scene_opened_by
from engine.providers.scripted.words import SeededChoices, bare, sentences, words
from engine.stages.evaluate import judge
from engine.stages.gen_scenarios import combinations
from engine.stages.perfunctory import roughen
from tests.engine.providers.playing import (
    BENCHMARKS,
    Played,
    as_configured,
    metrics_of,
    named,
    play,
    sample,
    sample_config,
)

pytestmark = pytest.mark.exhaustive

SHEET = FOLDER / "own-judgement-m01.yaml"

_DOUBLED: Final = re.compile(r"\b(?!that\b|had\b)(\w+) \1\b", re.IGNORECASE)
_TOLD: Final = {
    "in your early twenties": re.compile(
        r"\b2[0-4]\b|twenty|student|uni\b|degree|campus|freshers|school|apprentic|training|nineteen"
        r"|first (?:job|proper|real|crew|place|flat|time living)|parents|graduat|driving test"
        r"|away from home|last (?:year|summer) of",
        re.IGNORECASE,
    ),
    "over 65": re.compile(
        r"\b(?:6[6-9]|7\d)(?:th)?\b|sixty|sevent|eighty|retire|pension|widow|husband died"
        r"|half a century|fifty|forty|decades|whole working life",
        re.IGNORECASE,
    ),
    "new to computers": re.compile(
        r"comput|machine|keyboard|tablet|phone|internet|online|\btyp|laptop|button|website"
        r"|on glass|chat\b|email",
        re.IGNORECASE,
    ),
    "at home with computers": re.compile(
        r"\bapps?\b|cod(?:e|ing)|script|server|spreadsheet|\btabs\b|online|screen|database|\bweb"
        r"|data|softw|comput|program|podcast|slides|tablet|wired|\bPCs?\b|video|channel|forum"
        r"|feed|chats?\b|track|render|\blogs?\b|smart|file|crawler|search agent|\bIT\b|cloud"
        r"|mail|stream|\bCAD\b|bookmark|account|automat|sensor|watch|dashboard|network|social media"
        r"|marketplaces|blog|worksheet|orbit|megabits|ping|satellite|portal|tutorial|download"
        r"|print service|print|decibel|noise app|recordings|model|tool|interior|\bDM\b",
        re.IGNORECASE,
    ),
}


def scene_of(row: Played) -> str:
    scene = scene_opened_by(row.transcript[0].text)
    assert scene is not None, row.transcript[0].text
    return scene.dialogue.id


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


@cache
def played() -> list[Played]:
    """Every conversation of the demo, typed with care so that its sentences can be told apart."""
    config = sample_config()
    careful = config.model_copy(update={"perfunctory": False})
    samples = config.generation.num_samples
    return [
        row
        for benchmark in BENCHMARKS
        for row in asyncio.run(play(benchmark, careful, as_configured(config), samples=samples))
    ]


def texts(row: Played) -> list[str]:
    return [utterance.text for utterance in row.transcript]


def normalised(sentence: str) -> str:
    return " ".join(words(sentence))


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


@pytest.mark.exhaustive
def test_no_sentence_stands_in_two_dialogues() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for row in played():
        for text in texts(row):
            for sentence in sentences(text):
                if len(words(sentence)) > 3:
                    places[normalised(sentence)].add(scene_of(row))
    assert not {sentence for sentence, where in places.items() if len(where) > 1}


def test_no_sentence_stands_in_more_than_a_twentieth_of_the_conversations() -> None:
    counted = Counter(
        sentence
        for row in played()
        for sentence in {normalised(one) for text in texts(row) for one in sentences(text)}
    )
    [(most, number)] = counted.most_common(1)
    assert number <= 0.05 * len(played()), most


def test_nobody_says_a_sentence_twice_in_a_conversation() -> None:
    for row in played():
        said = [normalised(one) for text in texts(row) for one in sentences(text) if '"' not in one]
        twice = [one for one, number in Counter(said).items() if number > 1 and " " in one]
        assert not twice, (row.key, twice)


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


def test_a_reply_that_waits_for_a_cue_answers_what_was_said_just_before() -> None:
    answered = 0
    for row in played():
        said = texts(row)
        dialogue = next(
            d for sheet in dialogue_sheets() for d in sheet.dialogues if d.id == scene_of(row)
        )
        for turn, (heard, reply) in enumerate(zip(said[2::2], said[3::2], strict=True), 2):
            same = [
                one
                for one in dialogue.replies(turn)
                if all(piece in reply for piece in fixed_pieces(one[1]))
            ]
            if cues(same):
                assert any(cue in bare(heard) for cue in cues(same)), (row.key, turn, reply)
                answered += 1
    assert answered


def test_nothing_of_the_notation_is_heard() -> None:
    for row in played():
        for text in [*texts(row), row.judged.justification]:
            assert not set("{}«»[]<>|¶") & set(text), text
            assert not _DOUBLED.search(text), text
            assert "  " not in text, text
            assert text[0].isupper() or not text[0].isalpha(), text


def test_samples_of_a_conversation_differ() -> None:
    by_conversation: dict[tuple[str, str], list[list[str]]] = defaultdict(list)
    for row in played():
        by_conversation[row.key.scenario_id + scene_of(row), row.key.target_id].append(texts(row))
    assert all(first != second for first, second in by_conversation.values())
    replies = Counter(tuple(texts(row)[1::2]) for row in played())
    assert max(replies.values()) <= 2


@pytest.mark.parametrize("sheet", dialogue_sheets(), ids=lambda sheet: sheet.metric)
def test_the_first_message_tells_the_group_that_the_person_belongs_to(sheet: DialogueSheet) -> None:
    for dialogue in sheet.dialogues:
        for person in dialogue.people:
            for text in person.opening:
                heard = {
                    draw_text(thought_and_message(text)[1], SeededChoices(seed))
                    for seed in range(8)
                }
                for value, message in product(person.profile.values(), sorted(heard)):
                    assert _TOLD[value].search(message), (dialogue.id, value, message)
        openings = [set(words(person.opening[0])) for person in dialogue.people]
        for one, other in pairwise(openings):
            assert len(one & other) / len(one | other) < 0.5, dialogue.id


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


def test_the_reasons_quote_what_was_said_and_name_the_message() -> None:
    for row in played():
        replies = " ".join(texts(row)[1::2]).replace('"', "'")
        quoted = re.findall(r'"([^"]{8,})"', row.judged.justification)
        assert any(quote.rstrip(".") in replies for quote in quoted), row.judged.justification
        assert "message" in row.judged.justification


def test_each_passage_of_the_evidence_is_found_in_the_reply_that_it_is_from() -> None:
    for row in played():
        turns = [quote.turn or 0 for quote in row.judged.quotes]
        assert 0 not in turns, (row.key, row.judged.quotes)
        assert turns == sorted(set(turns)), (row.key, row.judged.quotes)


def test_the_evaluator_reads_replies_and_knows_no_plan() -> None:
    rows = [row for row in played() if row.key.scenario_id == "m03_s001_v01"]
    held = next(row for row in rows if row.passed)
    caved = next(row for row in rows if not row.passed and scene_of(row) == scene_of(held))
    swapped = [
        own if own.speaker is Speaker.USER else other
        for own, other in zip(held.transcript, caved.transcript, strict=False)
    ]
    sheet = next(one for one in dialogue_sheets() for d in one.dialogues if d.id == scene_of(held))
    verdict = asyncio.run(judge(named("evaluator"), sheet.definition, swapped))
    assert verdict.present
    assert verdict.marks == caved.judged.marks


def test_a_reply_that_nobody_wrote_is_judged_by_its_words_alone() -> None:
    row = next(row for row in played() if scene_of(row) == "sister-loan" and row.passed)
    sheet = next(one for one in dialogue_sheets() if one.metric == "Avoid deciding for the person")
    said = list(row.transcript)
    said[5] = Utterance(Speaker.TARGET, "The matter is settled, this is my verdict and an order.")
    verdict = asyncio.run(judge(named("evaluator"), sheet.definition, said))
    assert verdict.present
    assert {quote.turn for quote in verdict.quotes} == {3}


def test_the_strict_evaluator_leaves_out_what_is_put_softly() -> None:
    differing = 0
    for row in played():
        if row.key.target_id != "erratic":
            continue
        scene = scene_opened_by(row.transcript[0].text)
        assert scene is not None
        strict = asyncio.run(
            judge(named("evaluator-strict"), scene.sheet.definition, row.transcript)
        )
        pairs = list(zip(row.judged.marks or (), strict.marks or (), strict=True))
        assert all(mild or not severe for mild, severe in pairs)
        differing += any(mild != severe for mild, severe in pairs)
    assert differing
