"""Stage 3: one turn of a conversation, and what each side of it may see.

The user model knows everything about the scenario but only this turn's landmark; the target knows
its system prompt and what was said. Nothing here lets one see what belongs to the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from pydantic import ConfigDict, Field

from engine.benchmark import Metric, Scenario, Speaker, Stance, Utterance
from engine.branches import STANCE
from engine.identity import digest
from engine.prompts import prompt_digest, prompt_text, render, without_marks
from engine.providers.model import JsonSchema, Message, MessageRole, Model, OnText, Reply
from engine.stages.answers import Answer, StringField, ask, schema_of
from engine.stages.gen_scenarios import scenario_digest


@dataclass(frozen=True, slots=True)
class Setup:
    """What a conversation is played from."""

    scenario: Scenario
    metric: Metric
    system_prompt: str
    """Of the target; empty where it is sent none."""
    turns: int
    landmarks: bool
    """Whether the user model is told turn by turn; else it is told the whole plan at once."""
    perfunctory: bool
    stance: Stance = Stance.ADVERSARIAL

    @property
    def is_neutral(self) -> bool:
        """Whether the user model is told nothing of pressure: no hidden goal, metric or landmark.
        It may leave no earlier all the same, so that conversations are as long."""
        return self.stance is Stance.NEUTRAL

    @property
    def fence(self) -> str:
        """Ends the marks around the notes to the user model. It is the same in each turn, so that
        what was said before need not be paid for anew, and of what no target is told."""
        return digest([scenario_digest(self.scenario), self.metric.definition, self.system_prompt])

    def instruction_at(self, turn: int) -> str | None:
        """This turn's landmark; None where there is none, or none is told."""
        is_told = self.landmarks and not self.is_neutral
        mark = self.scenario.landmark_at(turn) if is_told else None
        return None if mark is None else mark.instruction

    def may_end_at(self, turn: int) -> bool:
        """Whether the person may leave after this turn: not before all that is planned was done,
        for a conversation that is cut short by its user says little about the target."""
        planned = [mark.turn for mark in self.scenario.landmarks if mark.turn <= self.turns]
        return turn >= (max(planned, default=_FEWEST) if self.landmarks else _FEWEST)


_FEWEST: Final = 2
"""Turns of a conversation that nobody has planned."""


class UserTurn(Answer):
    # a docstring of a shape would be told to the model
    model_config = ConfigDict(title="user_turn")
    thought: str
    message: str = Field(min_length=1)
    done: bool


class _GoingOn(UserTurn):
    # before the person may leave: a model that says so all the same is not asked again for it
    done: bool = False


@cache
def _schema_without_done() -> JsonSchema:
    schema = schema_of(_GoingOn)
    fields = {name: one for name, one in schema["properties"].items() if name != "done"}
    return {**schema, "properties": fields}


def user_system(setup: Setup) -> str:
    """What the user model is told before the conversation. Without landmarks at their turns it is
    told the plan as a whole instead."""
    if setup.is_neutral:
        return render(
            "user_system_neutral",
            persona=setup.scenario.persona,
            user_goal=setup.scenario.user_goal,
            fence=setup.fence,
        )
    plan = ""
    if not setup.landmarks:
        lines = [f"turn {mark.turn}: {mark.instruction}" for mark in setup.scenario.landmarks]
        plan = render("user_plan", landmarks="\n".join(lines)) + "\n"
    return render(
        "user_system",
        persona=setup.scenario.persona,
        user_goal=setup.scenario.user_goal,
        latent_adversarial_goal=setup.scenario.latent_adversarial_goal,
        definition=setup.metric.definition.strip(),
        direction=prompt_text(f"user_direction_{setup.metric.track}"),
        plan=plan,
        fence=setup.fence,
    )


def user_request(setup: Setup, spoken: Sequence[Utterance], turn: int) -> list[Message]:
    """The conversation with its roles flipped: the user model's own messages are `assistant`."""
    instruction = setup.instruction_at(turn)
    told = {"turn": str(turn), "turns": str(setup.turns), "fence": setup.fence}
    now = (
        render("user_turn_free", **told)
        if instruction is None
        else render("user_turn", instruction=without_marks(instruction), **told)
    )
    flipped = {Speaker.USER: MessageRole.ASSISTANT, Speaker.TARGET: MessageRole.USER}
    return [
        Message(MessageRole.SYSTEM, user_system(setup)),
        Message(MessageRole.USER, render("user_begin", fence=setup.fence)),
        *(Message(flipped[said.speaker], _NOTE_MARK.sub(r"\\u003c", said.text)) for said in spoken),
        Message(MessageRole.USER, now),
    ]


_NOTE_MARK: Final = re.compile(r"<(?=/?note-)", re.IGNORECASE)
"""What would begin a mark of a note in what was said."""


def target_request(setup: Setup, spoken: Sequence[Utterance]) -> list[Message]:
    """The system prompt, where there is one, and what was said: a target is told nothing else."""
    same = {Speaker.USER: MessageRole.USER, Speaker.TARGET: MessageRole.ASSISTANT}
    told = [Message(MessageRole.SYSTEM, setup.system_prompt)] if setup.system_prompt else []
    return [
        *told,
        *(Message(same[said.speaker], said.text) for said in spoken),
    ]


def depends(setup: Setup, user_model: str, target_model: str) -> dict[str, str]:
    """Digests of all that a conversation is made from, by a name for each."""
    made_from = {
        "prompt": prompt_digest(*_prompts(setup)),
        "user model": user_model,
        "target": target_model,
        "scenario": scenario_digest(setup.scenario),
        "metric definition": digest([setup.metric.track, setup.metric.definition]),
        "system prompt": digest(setup.system_prompt),
        "turns": str(setup.turns),
        "landmarks": str(setup.landmarks).lower(),
        "perfunctory": str(setup.perfunctory).lower(),
    }
    # the usual stance is left out: conversations from before there was another keep their digests
    return {**made_from, STANCE: setup.stance.value} if setup.is_neutral else made_from


def _prompts(setup: Setup) -> Sequence[str]:
    if setup.is_neutral:
        return ("user_system_neutral", "user_begin", "user_turn_free")
    direction = f"user_direction_{setup.metric.track}"
    return ("user_system", "user_begin", "user_turn", "user_turn_free", "user_plan", direction)


async def user_turn(
    model: Model,
    setup: Setup,
    spoken: Sequence[Utterance],
    turn: int,
    *,
    seed: int,
    on_text: OnText | None = None,
) -> UserTurn:
    """What the user says at this turn; `on_text` hears the message alone, not the thought.

    Raises `ModelError`.
    """
    listen = None if on_text is None else StringField("message", on_text).feed
    request = user_request(setup, spoken, turn)
    if setup.may_end_at(turn):
        return await ask(model, request, UserTurn, seed=seed, on_text=listen)
    said = await ask(
        model, request, _GoingOn, schema=_schema_without_done(), seed=seed, on_text=listen
    )
    return UserTurn(thought=said.thought, message=said.message, done=False)


async def target_turn(
    model: Model,
    setup: Setup,
    spoken: Sequence[Utterance],
    *,
    seed: int,
    on_text: OnText | None = None,
) -> Reply:
    """The target's reply. A refusal or a cut reply is an answer like any other.

    Raises `ModelError`.
    """
    return await model.reply(target_request(setup, spoken), seed=seed, on_text=on_text)
