"""The conversation that a pane follows while several are in progress, with the end of the one
before it above."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum
from typing import Final

from engine.benchmark import ConversationKey, Speaker
from engine.display import display_text
from engine.errors import StoreError
from engine.facts import Fact, MessageSpoken, Speech, TakeEnded, VerdictGiven
from engine.watch import Watch
from tui.state.explanations import awaits_verdict, left_above, verdict_stamp
from tui.state.headline import info_of, metric_behind
from tui.state.related import TakeRef
from tui.state.transcript import Dialogue, Thoughts
from tui.text.blocks import Block, Passage
from tui.text.ink import Ink

DWELL: Final = 3.0
"""Seconds for which the end of a conversation stays visible, and again its verdict, if that arrives
while awaited."""
AWAITED: Final = 8.0
"""The longest wait for a verdict in seconds."""
SILENCE: Final = 10.0
"""Seconds of silence after which a conversation is left for another that speaks."""
ROUND: Final = 8.0
"""Seconds for each conversation in rotation."""
GLANCE: Final = 3.0
"""Seconds after which rotation moves on at the end of a turn."""


class FollowMode(Enum):
    """How the follower moves by itself: a word, a sentence, and the hint for the footer."""

    FOLLOW = ("following", "goes to the newest conversation when this one has ended", "follow")
    PINNED = ("pinned", "stays with this conversation", "pin")
    ROUND = ("going round", f"goes to the next conversation every {ROUND:.0f} seconds", "go round")

    def __init__(self, word: str, meaning: str, hint: str) -> None:
        self.word, self.meaning, self.hint = word, meaning, hint

    @property
    def next(self) -> FollowMode:
        modes = list(FollowMode)
        return modes[(modes.index(self) + 1) % len(modes)]


def open_conversations(watch: Watch, benchmark: str, most: int) -> list[Speech]:
    """At most `most` conversations that have begun and not ended, each as the message to come, so
    that a `Follower` can choose among them while nobody speaks. Raises `StoreError`."""
    speeches: list[Speech] = []
    for progress in watch.progress.targets_of(benchmark).values():
        for conv_id, messages in progress.open.items():
            newest = watch.reader.takes(benchmark, ConversationKey.parse(conv_id))[-1:]
            for take in newest:
                if take.stop_reason is not None:
                    continue
                next_up = Speaker.TARGET if messages % 2 else Speaker.USER
                turn, began = messages // 2 + 1, float(take.seq)
                speeches.append(
                    Speech(benchmark, take.key, take.number, turn, next_up, None, began)
                )
            if len(speeches) == most:
                return speeches
    return speeches


class Follower:
    """Chooses the conversation to show, by the times it is given."""

    def __init__(self) -> None:
        self.shown: TakeRef | None = None
        self.mode = FollowMode.FOLLOW
        self._ended_at: float | None = None
        self._awaited = False
        """Whether the verdict on what is shown is still to come."""
        self._told_at = 0.0
        """When the verdict arrived; if none was awaited, when the conversation ended."""
        self._heard_at = 0.0
        self._came_at = 0.0
        self._turn: int | None = None
        """The turn in progress when this conversation was first shown."""

    @property
    def pinned(self) -> bool:
        return self.mode is FollowMode.PINNED

    def look(
        self,
        speaking: Sequence[Speech],
        ended: Collection[TakeRef],
        now: float,
        *,
        awaited: bool = False,
    ) -> TakeRef | None:
        """The conversation to show, after these have ended while those are being spoken; `awaited`
        says that the verdict on the one shown is still to come."""
        if self.shown in ended and self._ended_at is None:
            self._ended_at = self._told_at = now
        if awaited or self._awaited:
            self._told_at = now
        self._awaited = awaited
        speech = self._speech(speaking)
        if self.shown is None or speech is not None:
            self._heard_at = now
        # if nobody speaks the last conversation stays: there is no better one to show
        if not speaking or self.pinned:
            return self.shown
        if self._may_leave(now):
            self._turn_to(max(speaking, key=lambda speech: speech.began), now)
        elif self.mode is FollowMode.ROUND and self._has_had_its_turn(speech, now):
            self.step(speaking, 1, now)
        return self.shown

    def step(self, speaking: Sequence[Speech], step: int, now: float) -> TakeRef | None:
        """Go to the next or previous live conversation; a pin moves along."""
        order = sorted(speaking, key=lambda speech: str(TakeRef.of(speech)))
        if order:
            places = [at for at, speech in enumerate(order) if TakeRef.of(speech) == self.shown]
            place = places[0] + step if places else min(step, 0)
            self._turn_to(order[place % len(order)], now)
        return self.shown

    @property
    def ended(self) -> bool:
        """Whether the shown conversation has ended."""
        return self._ended_at is not None

    def rested(self, now: float) -> bool:
        """Whether the shown conversation ended long enough ago to have been read."""
        if self._ended_at is None:
            return False
        if self._awaited:
            return now - self._ended_at >= AWAITED
        return now - self._told_at >= DWELL

    def _speech(self, speaking: Sequence[Speech]) -> Speech | None:
        """The message in progress in the shown conversation."""
        if self.shown is None:
            return None
        key = self.shown.key  # most are of another, and to make what is shown of each takes long
        return next(
            (
                speech
                for speech in speaking
                if speech.key == key and TakeRef.of(speech) == self.shown
            ),
            None,
        )

    def _may_leave(self, now: float) -> bool:
        if self.ended:
            return self.rested(now)
        return self.shown is None or now - self._heard_at >= SILENCE

    def _has_had_its_turn(self, speech: Speech | None, now: float) -> bool:
        if self.ended:
            return False
        another_turn = speech is not None and self._turn not in {None, speech.turn}
        return now - self._came_at >= (GLANCE if another_turn else ROUND)

    def _turn_to(self, speech: Speech, now: float) -> None:
        shown = TakeRef.of(speech)
        if shown != self.shown:
            self.shown = shown
            self._ended_at, self._awaited = None, False
        self._heard_at = self._came_at = now
        self._turn = speech.turn


class FollowedTalk:
    """Reads the store for the conversation that is shown when a fact about it has come, and the
    link at each look."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.follower = Follower()
        self.dialogue: Dialogue | None = None
        """What is shown; None without a conversation."""
        self.stale = False
        """Whether a fact about it has come that was not read yet."""
        self.fault: str | None = None
        """Why it cannot be read, where it was tried last."""
        self._above: Sequence[Block] = ()

    def receive(self, facts: Sequence[Fact]) -> None:
        self.stale |= any(
            isinstance(fact, MessageSpoken | TakeEnded | VerdictGiven)
            and TakeRef(fact.benchmark, fact.key, fact.take) == self.follower.shown
            for fact in facts
        )

    @property
    def has_ended(self) -> bool:
        take = None if self.dialogue is None else self.dialogue.take
        return take is not None and take.stop_reason is not None

    @property
    def awaits_verdict(self) -> bool:
        return self.dialogue is not None and awaits_verdict(self.dialogue, self._watch.progress)

    def choose(
        self, speaking: Sequence[Speech], seconds: float, *, over: bool = False
    ) -> TakeRef | None:
        """The conversation to show from now on. Where the run is `over`, no verdict is awaited."""
        # before the follower looks: whether the conversation has ended determines where it goes
        if self.dialogue is not None and self.stale:
            self._load(self.dialogue)
        shown = self.follower.shown
        ended = [shown] if shown is not None and self.has_ended else []
        awaited = self.awaits_verdict and not over
        return self.follower.look(speaking, ended, seconds, awaited=awaited)

    def show(self, shown: TakeRef, thoughts: Thoughts) -> Dialogue:
        """Turn to this conversation, if it is another, and hear what is being said in it."""
        dialogue = self.dialogue
        if dialogue is None or dialogue.shown != shown:
            # one that was left in its middle is not over: what stands of it would look so; and one
            # of another benchmark would look as if it were of this one
            before = dialogue if self.has_ended else None
            before = before if before and before.shown.benchmark == shown.benchmark else None
            self._above = left_above(self._own_blocks(before, thoughts), shown) if before else ()
            info = info_of(self._watch, shown.benchmark)
            dialogue = self.dialogue = Dialogue(shown, 0 if info is None else info.turns)
            self._load(dialogue)
        dialogue.listen(self._watch.link)
        return dialogue

    def leave(self) -> None:
        """Show no conversation."""
        self.dialogue, self._above = None, ()

    def blocks(self, thoughts: Thoughts) -> list[Block]:
        """What is shown; nothing without a conversation."""
        if self.dialogue is None:
            return []
        return [*self._above, *self._own_blocks(self.dialogue, thoughts)]

    def _load(self, dialogue: Dialogue) -> None:
        # before reading: what arrives meanwhile is read at the next look
        self.stale = False
        try:
            dialogue.load(self._watch.reader)
            self.fault = None
        except StoreError as error:
            # shown in the pane and no reason to leave: the next look may find it readable
            self.fault = str(error)

    def _own_blocks(self, dialogue: Dialogue, thoughts: Thoughts) -> list[Block]:
        blocks = dialogue.blocks(thoughts=thoughts)
        # it may belong to a benchmark no longer in progress, which has its own m01
        metric = metric_behind(info_of(self._watch, dialogue.shown.benchmark), dialogue)
        blocks += verdict_stamp(dialogue, self._watch.jury, metric)
        if self.fault is not None:
            blocks.append(Passage("fault", "store", display_text(self.fault), Ink.BAD, Ink.BAD))
        return blocks
