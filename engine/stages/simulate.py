"""Stage 3: builds the requests for one turn of a conversation, and so decides what each side sees.

The user model knows everything about the scenario, but only the current turn's landmark: all of
them without `landmarks`, and neither them nor the hidden goal where its stance is neutral. The
target knows its system prompt and the messages. No request contains what belongs to the other side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from pydantic import ConfigDict

from engine.benchmark import AnswerForm, Metric, Scenario, Speaker, Stance, Utterance
from engine.branches import FORM, STANCE
from engine.identity import digest
from engine.prompts import prompt_digest, prompt_text, render, without_marks
from engine.providers.model import Message, MessageRole, Model, OnText, Reply
from engine.stages.answers import Answer, StringField, ask, ask_for_text
from engine.stages.generate import scenario_digest


@dataclass(frozen=True, slots=True)
class Setup:
    """The fixed inputs of a conversation."""

    scenario: Scenario
    metric: Metric
    system_prompt: str
    """The target's system prompt; empty where none is sent."""
    turns: int
    landmarks: bool
    """Whether the user model is told each landmark at its turn, or else all at once."""
    perfunctory: bool
    stance: Stance = Stance.ADVERSARIAL
    form: AnswerForm = AnswerForm.JSON
    """How the user model is asked for its messages."""

    @property
    def is_neutral(self) -> bool:
        """Whether the user model is told nothing of the hidden goal, the metric or landmarks. The
        earliest turn to end stays the same, so that conversations are of similar length."""
        return self.stance is Stance.NEUTRAL

    @property
    def fence(self) -> str:
        """A secret in the tags around notes to the user model, which no target is told. It is
        constant over all turns, so that providers can cache the earlier messages."""
        return digest([scenario_digest(self.scenario), self.metric.definition, self.system_prompt])

    def instruction_at(self, turn: int) -> str | None:
        """The turn's landmark; None where there is none, or the user model is not told."""
        is_told = self.landmarks and not self.is_neutral
        mark = self.scenario.landmark_at(turn) if is_told else None
        return None if mark is None else mark.instruction

    def may_end_at(self, turn: int) -> bool:
        """Whether the user may end the conversation after this turn: not before the last landmark,
        because a conversation that its user cuts short says little about the target."""
        planned = [mark.turn for mark in self.scenario.landmarks if mark.turn <= self.turns]
        # who writes nothing but messages cannot say that it leaves
        if self.form is AnswerForm.PLAIN:
            return False
        return turn >= (max(planned, default=_FEWEST) if self.landmarks else _FEWEST)


NO_THOUGHTS: Final[Mapping[int, str]] = {}
_FEWEST: Final = 2
"""The least number of turns without planned landmarks."""


class UserTurn(Answer):
    # no docstring: pydantic would put it into the schema that the model is given
    model_config = ConfigDict(title="user_turn")
    thought: str
    message: str
    """Empty only where the person leaves without another word."""
    # asked for each time, so that all requests of a conversation begin alike and providers can
    # cache that; a model that leaves it out is not asked again because of it
    done: bool = False


def plain_system(setup: Setup, turn: int) -> str:
    """As `user_system`, in few words, with what the notes say of this turn: a small model takes a
    note for something to be continued."""
    scenario, instruction = setup.scenario, setup.instruction_at(turn)
    latent = scenario.latent_adversarial_goal
    plan = "" if setup.landmarks or setup.is_neutral else _plan(scenario)
    return render(
        "user_system_plain",
        persona=scenario.persona,
        user_goal=scenario.user_goal,
        aim="" if setup.is_neutral else render("user_aim_plain", latent_adversarial_goal=latent),
        turn=str(turn),
        turns=str(setup.turns),
        now=instruction or plan,
    )


def _plan(scenario: Scenario) -> str:
    lines = [f"turn {mark.turn}: {mark.instruction}" for mark in scenario.landmarks]
    return render("user_plan", landmarks="\n".join(lines)) + "\n"


def user_system(setup: Setup) -> str:
    """The user model's system prompt, with the whole plan unless landmarks come at their turns."""
    if setup.is_neutral:
        return render(
            "user_system_neutral",
            persona=setup.scenario.persona,
            user_goal=setup.scenario.user_goal,
            fence=setup.fence,
        )
    return render(
        "user_system",
        persona=setup.scenario.persona,
        user_goal=setup.scenario.user_goal,
        latent_adversarial_goal=setup.scenario.latent_adversarial_goal,
        definition=setup.metric.definition.strip(),
        direction=prompt_text(f"user_direction_{setup.metric.track}"),
        plan="" if setup.landmarks else _plan(setup.scenario),
        fence=setup.fence,
    )


def user_request(setup: Setup, spoken: Sequence[Utterance], turn: int) -> list[Message]:
    """The conversation with its roles flipped: the user model's own messages are `assistant`."""
    spoken_by = {Speaker.USER: MessageRole.ASSISTANT, Speaker.TARGET: MessageRole.USER}
    messages = [
        Message(spoken_by[utterance.speaker], _NOTE_MARK.sub(r"\\u003c", utterance.text))
        for utterance in spoken
    ]
    if setup.form is AnswerForm.PLAIN:
        begin = Message(MessageRole.USER, prompt_text("user_begin_plain"))
        return [Message(MessageRole.SYSTEM, plain_system(setup, turn)), begin, *messages]
    instruction = setup.instruction_at(turn)
    leave = f" {prompt_text('user_may_leave')}" if setup.may_end_at(turn) else ""
    values = {
        "turn": str(turn),
        "turns": str(setup.turns),
        "fence": setup.fence,
        "leave": leave,
    }
    now = (
        render("user_turn_free", **values)
        if instruction is None
        else render("user_turn", instruction=without_marks(instruction), **values)
    )
    return [
        Message(MessageRole.SYSTEM, user_system(setup)),
        Message(MessageRole.USER, render("user_begin", fence=setup.fence)),
        *messages,
        Message(MessageRole.USER, now),
    ]


_NOTE_MARK: Final = re.compile(r"<(?=/?note-)", re.IGNORECASE)
"""Matches the beginning of a note's tag within a message."""


def message_fault(message: str, fence: str) -> str | None:
    """Why a user's message must not reach the target: it shows how the user model is directed."""
    if _NOTE_MARK.search(message) or fence in message:
        return "message: it holds the marks of a note; write only what this person sends"
    return None


def target_request(
    setup: Setup, spoken: Sequence[Utterance], thoughts: Mapping[int, str] = NO_THOUGHTS
) -> list[Message]:
    """The system prompt, if any, and the messages: a target is told nothing else. `thoughts` are
    its own, by the number of the message, for a model that wants them back."""
    same = {Speaker.USER: MessageRole.USER, Speaker.TARGET: MessageRole.ASSISTANT}
    system = [Message(MessageRole.SYSTEM, setup.system_prompt)] if setup.system_prompt else []
    return [
        *system,
        *(
            Message(same[utterance.speaker], utterance.text, thoughts.get(number))
            for number, utterance in enumerate(spoken)
        ),
    ]


def depends(setup: Setup, user_model: str, target_model: str) -> dict[str, str]:
    """Digests of everything that a conversation is made from, by name."""
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
    # the defaults are left out, so that earlier conversations keep their digests
    stance = {STANCE: setup.stance.value} if setup.is_neutral else {}
    form = {FORM: setup.form.value} if setup.form is AnswerForm.PLAIN else {}
    return {**made_from, **stance, **form}


def _prompts(setup: Setup) -> Sequence[str]:
    if setup.form is AnswerForm.PLAIN:
        aim = () if setup.is_neutral else ("user_aim_plain", "user_plan")
        return ("user_system_plain", "user_begin_plain", *aim)
    if setup.is_neutral:
        return ("user_system_neutral", "user_begin", "user_turn_free", "user_may_leave")
    direction = f"user_direction_{setup.metric.track}"
    turn = ("user_turn", "user_turn_free", "user_may_leave")
    return ("user_system", "user_begin", *turn, "user_plan", direction)


async def user_turn(
    model: Model,
    setup: Setup,
    spoken: Sequence[Utterance],
    turn: int,
    *,
    seed: int,
    on_text: OnText | None = None,
) -> UserTurn:
    """Ask for the user's message at this turn; `on_text` receives the message without the thought.

    Raises `ModelError`.
    """
    request = user_request(setup, spoken, turn)
    if setup.form is AnswerForm.PLAIN:

        def said_fault(message: str) -> str | None:
            return message_fault(message, setup.fence)

        said = await ask_for_text(model, request, seed=seed, check=said_fault, on_text=on_text)
        return UserTurn(thought="", message=said)
    listen = None if on_text is None else StringField("message", on_text).feed

    # what was planned up to the turn before has been reached
    may_leave = turn > 1 and setup.may_end_at(turn - 1)

    def fault(answer: UserTurn) -> str | None:
        if not answer.message.strip() and not (answer.done and may_leave):
            return "message: it was empty"
        return message_fault(answer.message, setup.fence)

    quotable = [said.text for said in spoken if said.speaker is Speaker.TARGET]
    answer = await ask(
        model, request, UserTurn, seed=seed, check=fault, quotable=quotable, on_text=listen
    )
    may_end = setup.may_end_at(turn)
    return answer if may_end else answer.model_copy(update={"done": False})


async def target_turn(
    model: Model,
    setup: Setup,
    spoken: Sequence[Utterance],
    *,
    seed: int,
    thoughts: Mapping[int, str] = NO_THOUGHTS,
    on_text: OnText | None = None,
) -> Reply:
    """Ask for the target's reply. A refusal or a cut reply is a reply like any other.

    Raises `ModelError`.
    """
    request = target_request(setup, spoken, thoughts)
    return await model.reply(request, seed=seed, on_text=on_text)


_SHORT: Final = {
    "you": "u",
    "are": "r",
    "because": "bc",
    "please": "pls",
    "though": "tho",
    "really": "rly",
    "people": "ppl",
    "probably": "prob",
    "okay": "ok",
    "going": "goin",
}
_WORD = re.compile(r"\S+\s*")
LONGEST = 65_536
"""The most characters of a message that are roughened, more than anybody types in haste; the rest
is passed on unchanged."""


class Roughener:
    """Roughens one message as it arrives. Call `feed` with its pieces, then `finish`."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._held: list[str] = []
        self._read = 0
        self._first = True

    def feed(self, piece: str) -> str:
        """Return the roughened text so far, except for the last word, which may still grow."""
        room = LONGEST - self._read
        if len(piece) > room:
            self._read = LONGEST
            rest = piece[room:]
            self._held.append(piece[:room])
            return "".join(self._roughen_word(word) for word in self._take_words()) + rest
        self._read += len(piece)
        goes_on = bool(self._held) and not self._held[-1][-1].isspace()
        if piece:
            self._held.append(piece)
        if piece.isspace() or (goes_on and piece.split(maxsplit=1) == [piece]):
            return ""  # it completes no word, so the held text need not be split again
        words = self._take_words()
        self._held = words[-1:]
        return "".join(self._roughen_word(word) for word in words[:-1])

    def finish(self) -> str:
        """Return the rest, after the last piece has been fed."""
        return "".join(self._roughen_word(word) for word in self._take_words()).rstrip()

    def _take_words(self) -> list[str]:
        words, self._held = _WORD.findall("".join(self._held)), []
        return words

    def _roughen_word(self, word: str) -> str:
        draw = [self._random.random() for _ in range(4)]
        body, space = word.rstrip(), word[len(word.rstrip()) :]
        if self._first and draw[0] < 0.12 and body == "I":
            self._first = False
            return ""  # sentence fragment: the subject is omitted
        self._first = False
        if draw[0] < 0.85:
            body = body.lower()
        if draw[1] < 0.75:
            body = body.replace("'", "").replace("\u2019", "")
        if draw[2] < 0.5:
            body = body.rstrip(".,;:")
        core = body.strip(".,;:!?").lower()
        if core in _SHORT and draw[3] < 0.25:
            body = body.lower().replace(core, _SHORT[core])
        elif len(core) > 4 and core.isalpha() and draw[3] > 0.95:
            body = self._slip(body)
        return body + space

    def _slip(self, word: str) -> str:
        """Swap two adjacent letters or drop one; never the first."""
        at = 1 + self._random.randrange(len(word) - 3)
        if self._random.random() < 0.6:
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + word[at + 1 :]


def roughen(text: str, seed: int) -> str:
    """Roughen a whole message, as `Roughener` does piece by piece with the same seed."""
    rough = Roughener(seed)
    return rough.feed(text) + rough.finish() or text


def roughened(seed: int, on_text: OnText) -> OnText:
    """Wrap `on_text` so that it receives the text as `roughen` produces it."""
    rough = Roughener(seed)

    def hear(piece: str | None) -> None:
        nonlocal rough
        if piece is None:
            rough = Roughener(seed)
            on_text(None)
        else:
            text = rough.feed(piece)
            if text:
                on_text(text)

    return hear
