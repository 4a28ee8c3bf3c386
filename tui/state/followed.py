"""The conversation that a pane follows, with the end of the one before it above."""

from __future__ import annotations

from collections.abc import Sequence

from engine.display import display_text
from engine.errors import StoreError
from engine.facts import Fact, MessageSpoken, Speech, TakeEnded, VerdictGiven
from engine.watch import Watch
from tui.state.explanations import awaits_verdict, left_above, verdict_stamp
from tui.state.follower import Follower
from tui.state.headline import info_of, metric_behind
from tui.state.related import TakeRef
from tui.state.transcript import Dialogue, Thoughts
from tui.text.blocks import Block, Passage
from tui.text.ink import Ink


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
