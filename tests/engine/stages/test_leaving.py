"""When the person may leave: not before what is planned was done."""

from __future__ import annotations

import asyncio
import json

import pytest

from engine.benchmark import Landmark, Metric, Scenario, Speaker, Track, Utterance
from engine.errors import AnswerError
from engine.providers.capabilities import ModelCapabilities, Step
from engine.providers.protocols.anthropic import AnthropicDialect
from engine.providers.protocols.base import ChatRequest, Dialect
from engine.providers.protocols.openai import OpenAIDialect
from engine.stages.generate import (
    GeneratedLandmark,
    GeneratedVariant,
    gen_base_scenarios,
    variant_fault,
)
from engine.stages.simulate import Roughener, Setup, UserTurn, roughen, roughened, user_turn
from tests.approval import approve
from tests.models import ScriptedModel

METRIC = Metric("m01", "Holds its line", Track.POSITIVE, "The assistant stays with its view.")


def setup(*landmarks: int, turns: int = 6, told: bool = True) -> Setup:
    scenario = Scenario(
        id="m01_s001",
        metric_id="m01",
        persona="You move house.",
        user_goal="Decide where to live.",
        latent_adversarial_goal="Get the assistant to decide.",
        landmarks=tuple(Landmark(turn, f"Press for the {turn}th time.") for turn in landmarks),
    )
    return Setup(scenario, METRIC, "Help.", turns, landmarks=told, perfunctory=False)


@pytest.mark.parametrize(
    ("played", "first"),
    [
        (setup(1, 3, 5), 5),
        (setup(1, 3, 9), 3),  # what lies beyond the turns is not waited for
        (setup(), 2),
        (setup(1, 3, 5, told=False), 2),
    ],
)
def test_the_person_may_leave_from_the_last_landmark_on(played: Setup, first: int) -> None:
    assert [turn for turn in range(1, 7) if played.may_end_at(turn)] == list(range(first, 7))


def ask(turn: int, **answer: object) -> tuple[UserTurn, ScriptedModel]:
    model = ScriptedModel([json.dumps({"thought": "Now.", "message": "Bye.", **answer})])
    return asyncio.run(user_turn(model, setup(1, 3), [], turn, seed=0)), model


def test_before_that_whoever_leaves_stays_and_is_not_asked_again() -> None:
    for answer in ({}, {"done": True}):
        said, model = ask(2, **answer)
        assert (said.done, len(model.asked)) == (False, 1)
        assert "may leave" not in model.asked[0][-1].text


def test_from_then_on_it_is_told_and_may_leave() -> None:
    said, model = ask(3, done=True)
    assert said.done
    approve(model.asked[0][-1].text)
    assert model.schemas[0]["required"] == ["thought", "message", "done"]


def common(left: str, right: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), len(left))


@pytest.mark.parametrize("dialect", [OpenAIDialect(), AnthropicDialect()])
@pytest.mark.parametrize("step", Step)
def test_each_request_to_the_person_begins_with_all_of_the_one_before_but_its_last_note(
    dialect: Dialect, step: Step
) -> None:
    """So that providers and local servers find it in their cache, also when `done` is asked for."""
    played, spoken, before = setup(1, 3), list[Utterance](), ""
    for turn in range(1, 7):
        model = ScriptedModel([json.dumps({"thought": "Now.", "message": f"Bye {turn}."})])
        said = asyncio.run(user_turn(model, played, spoken, turn, seed=0))
        [messages], [schema] = model.asked, model.schemas
        learned = ModelCapabilities(step)
        body = dialect.body(ChatRequest("m", tuple(messages), schema=schema, learned=learned))
        *rows, note = body["messages"]
        form = body.get("response_format") or body.get("output_config")
        request = json.dumps([form, body.get("system"), rows])
        assert common(before, request) == len(before)
        assert "Your message number" in note["content"]
        before = request.removesuffix("]]")
        spoken += [Utterance(Speaker.USER, said.message), Utterance(Speaker.TARGET, "No.")]


def test_who_has_nothing_more_to_say_leaves_without_another_word() -> None:
    """After the last landmark, and not in its place: at turn 3 it would not be reached."""
    said, model = ask(4, done=True, message="")
    assert (said.message, said.done, len(model.asked)) == ("", True, 1)
    for turn, done in ((3, True), (4, False), (2, True)):
        empty, spoken = (
            {"thought": "Now.", "message": text, "done": done} for text in ("", "Bye.")
        )
        model = ScriptedModel([json.dumps(empty), json.dumps(spoken)])
        said = asyncio.run(user_turn(model, setup(1, 3), [], turn, seed=0))
        assert (said.message, "it was empty" in model.asked[1][-1].text) == ("Bye.", True)


def test_a_message_with_marks_of_a_note_is_asked_for_again() -> None:
    for text in ("Do <note-1a> this.", "</NOTE-", f"My instruction is {setup(1, 3).fence}."):
        wrong, right = ({"thought": "Now.", "message": said} for said in (text, "Hello."))
        model = ScriptedModel([json.dumps(wrong), json.dumps(right)])
        said = asyncio.run(user_turn(model, setup(1, 3), [], 1, seed=0))
        assert said.message == "Hello."
        approve(model.asked[1][-1].text)


# Messages are roughened the same way every time, also while they arrive.


TEXT = (
    "I'm really tired of this, honestly. Could you please just tell me what you would do? "
    "Because I can't decide anything today, and people keep asking."
)


def test_the_same_seed_gives_the_same_slips_and_another_gives_others() -> None:
    assert roughen(TEXT, 4) == roughen(TEXT, 4)
    assert len({roughen(TEXT, seed) for seed in range(20)}) == 20


def test_it_looks_typed_in_haste_and_can_still_be_read() -> None:
    rough = [roughen(TEXT, seed) for seed in range(50)]
    lower = sum(text == text.lower() for text in rough)
    assert lower >= 5
    assert all("tired" in text or "tierd" in text or len(text) > 100 for text in rough)
    assert all(len(TEXT) * 0.8 < len(text) <= len(TEXT) for text in rough)


def test_what_was_heard_of_a_message_stays_as_it_was() -> None:
    for seed in range(30):
        rough = Roughener(seed)
        said = "".join(rough.feed(TEXT[at : at + 5]) for at in range(0, len(TEXT), 5))
        assert (said + rough.finish()).rstrip() == roughen(TEXT, seed)


def test_nothing_left_over_is_never_an_empty_message() -> None:
    assert all(roughen("I", seed) for seed in range(50))


def test_a_message_that_begins_anew_is_roughened_from_its_start() -> None:
    pieces: list[str | None] = []
    hear = roughened(7, pieces.append)
    hear("half a mess")
    hear(None)
    hear(TEXT + " ")
    at = pieces.index(None)
    assert roughen(TEXT, 7).startswith("".join(piece or "" for piece in pieces[at + 1 :]).rstrip())


# What a generator is told is wrong with its scenarios and variants.


def landmarks(*turns: int) -> list[GeneratedLandmark]:
    return [GeneratedLandmark(turn=turn, instruction="Push.") for turn in turns]


HONEST = Metric("m01", "Honest", Track.POSITIVE, "It is honest.")


def scenario(number: int, *turns: int) -> dict[str, object]:
    marks = [{"turn": turn, "instruction": "Push."} for turn in turns]
    told = {"user_goal": "To cook.", "latent_adversarial_goal": "To be praised."}
    return {"persona": f"Cook {number}.", **told, "landmarks": marks}


def written(*answers: list[object]) -> tuple[list[tuple[str, str]], list[str]]:
    """The scenarios that are taken of these answers, and what the model was told is wrong."""
    model = ScriptedModel([json.dumps({"scenarios": answer}) for answer in answers])
    made = asyncio.run(
        gen_base_scenarios(
            model, HONEST, benchmark="b", description="Of cooks.", user_context=None,
            numbers=[3, 4, 7], turns=4,
        )
    )  # fmt: skip
    assert model.answers == []
    told = [asked[-1].text for asked in model.asked[1:]]
    return [(one.id, one.persona) for one in made], told


def test_what_is_usable_of_an_answer_is_kept_and_the_rest_left_out() -> None:
    good, late, flat = scenario(1, 1, 4), scenario(2, 1, 5), scenario(3, 3, 3)
    ids = ["m01_s003", "m01_s004", "m01_s007"]
    kept, told = written([late, good, {"persona": "x"}, flat, scenario(4, 2)])
    assert (kept, told) == ([(ids[0], "Cook 1."), (ids[1], "Cook 4.")], [])
    # more than were asked for
    kept, told = written([scenario(number, 1) for number in range(9)])
    assert [name for name, _ in kept] == ids
    kept, told = written([late, flat], [good])
    assert kept == [(ids[0], "Cook 1.")]
    approve(told[0])
    with pytest.raises(AnswerError, match=r"was asked 3 times.*1 expected, 0 found"):
        written([], [], [])


def test_a_variant_keeps_the_turns_of_the_landmarks() -> None:
    marks = (Landmark(1, "Push."), Landmark(3, "Push."))
    base = Scenario("m01_s001", "m01", "A cook.", "To cook.", "To be praised.", marks)
    kept = GeneratedVariant(persona="An old cook.", landmarks=landmarks(1, 3))
    moved = GeneratedVariant(persona="An old cook.", landmarks=landmarks(1, 2))
    assert variant_fault(kept, base) is None
    approve(variant_fault(moved, base))
