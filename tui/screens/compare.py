"""Two conversations side by side, aligned by turn, scrolling together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from engine.benchmark import Metric, base_id
from engine.display import one_line
from engine.facts import Fact, MessageSpoken, TakeEnded, TakeStarted, VerdictGiven
from engine.store.browsing import Browser, RelatedTake
from tui.bindings import key
from tui.screens.base import DEFINITION, ReadingScreen, Shell, fault_passage
from tui.state.headline import group_words, info_of, metric_in, metric_line
from tui.state.related import Subject, TakeRef, comparison_partners, outcome_piece, relation
from tui.state.transcript import Dialogue, Thoughts, evidence, verdict_blocks
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Line, Piece, length, told_apart
from tui.widgets.transcript import SideBySide


class CompareScreen(ReadingScreen, inherit_bindings=False):
    """The left conversation is fixed; `[` and `]` go through those it can be compared with."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("right_square_bracket", "next_conversation", "next", "compare it with the next"),
        key(
            "left_square_bracket",
            "previous_conversation",
            "previous",
            "compare it with the previous one",
        ),
        key("t", "toggle_thoughts", "thoughts", "open or fold what the user model thought"),
        DEFINITION,
        key("r", "judge_again", "judge again", "judge both again, by the judge you choose"),
        key("enter", "open", "open", "open the right one alone"),
    ]

    def __init__(self, shell: Shell, left: TakeRef, right: TakeRef | None = None) -> None:
        """Without `right`, the first of `comparison_partners` is shown."""
        super().__init__(shell)
        self._texts = SideBySide(id="story")
        self._left = left
        self._right = right
        self._partners: Sequence[RelatedTake] = ()
        self._kin: dict[TakeRef, RelatedTake] = {}
        self._metric: Metric | None = None
        self._shown: tuple[Sequence[Block], Sequence[Block]] = ([], [])
        self._groups: dict[TakeRef, str] = {}
        """The demographic group of the user in each conversation that was shown."""
        self._thoughts = False

    @property
    def subject(self) -> Subject:
        return Subject(self._left.benchmark, self._left.key)

    def parts(self) -> Sequence[Widget]:
        return [self._title, self._asked, self._texts]

    def on_mount(self) -> None:
        self._texts.focus()

    def hint(self, action: str) -> str | None:
        match action:
            case "next_conversation" | "previous_conversation":
                return None if len(self._partners) > 1 else ""
            case "open":
                return "" if self._right is None else None
            case _:
                return None

    def concerns(self, fact: Fact) -> bool:
        if fact.benchmark != self._left.benchmark:
            return False
        if isinstance(fact, MessageSpoken):
            return fact.key in {side.key for side in self._sides}
        if isinstance(fact, TakeStarted | TakeEnded | VerdictGiven):
            # a partner may be new, or have another outcome
            return base_id(fact.key.scenario_id) == base_id(self._left.key.scenario_id)
        return False

    @property
    def _sides(self) -> list[TakeRef]:
        return [self._left] if self._right is None else [self._left, self._right]

    @property
    def chosen(self) -> Sequence[Subject]:
        return list(dict.fromkeys(Subject(side.benchmark, side.key) for side in self._sides))

    def action_next_conversation(self) -> None:
        self._step(1)

    def action_previous_conversation(self) -> None:
        self._step(-1)

    def action_toggle_thoughts(self) -> None:
        self._thoughts = not self._thoughts
        self.draw_anew()

    def action_open(self) -> None:
        if self._right is not None:
            self.shell.navigator.open_conversation(self._right.benchmark, self._right.key)

    def _step(self, by: int) -> None:
        shown = [self._ref(partner) for partner in self._partners]
        if not shown:
            self.shell.tell("There is nothing else to compare it with yet.")
            return
        index = shown.index(self._right) + by if self._right in shown else 0
        self._right = shown[index % len(shown)]
        self.draw_anew()

    def read(self) -> None:
        left = self._left
        kin = Browser(self.watched.reader).related_takes(left.benchmark, left.key.scenario_id)
        self._kin = {self._ref(take): take for take in kin}
        self._partners = comparison_partners(kin, left.key, left.take)
        if self._right is None and self._partners:
            self._right = self._ref(self._partners[0])
        self._metric = metric_in(self.watched, left.benchmark, left.key.scenario_id)
        self._shown = self._blocks(left), self._blocks(self._right)

    def show_text(self) -> None:
        self._texts.show(
            *(self._shown if self.fault is None else ([fault_passage(self.fault)], []))
        )

    def _blocks(self, shown: TakeRef | None) -> list[Block]:
        if shown is None:
            return [Passage("none", "", "There is nothing else to compare it with yet.")]
        info = info_of(self.watched, shown.benchmark)
        dialogue = Dialogue(shown, info.turns if info else 0)
        dialogue.load(self.watched.reader)
        if dialogue.take is None:
            return [Passage("none", "", "This playing is gone from the store.", ink=Ink.WARN)]
        if dialogue.scenario is not None:
            self._groups[shown] = group_words(dialogue.scenario.demographic)
        verdicts = dialogue.verdicts
        jury = self.watched.jury
        thoughts = Thoughts.OPEN if self._thoughts else Thoughts.FOLDED
        transcript = dialogue.blocks(thoughts=thoughts, marks=evidence(dialogue.messages, verdicts))
        judged = [_in_one_part(block) for block in verdict_blocks(verdicts, jury)]
        return [*transcript, Rule("judged", "how it was judged", lined=False), *judged]

    def _ref(self, take: RelatedTake) -> TakeRef:
        return TakeRef(self._left.benchmark, take.key, take.number)

    def draw_lines(self) -> None:
        words = [Piece(one_line(self._left.benchmark), Ink.MUTED)]
        self.show_heading("Side by side", words)
        self._title.show(*self._titles())
        groups = list(dict.fromkeys(self._groups.get(side, "") for side in self._sides))
        # of two groups, both stand here in the order of the sides
        notes = [" | ".join(groups)] if len(groups) > 1 else []
        asked = metric_line(self._metric, notes, self.size.width, "" if notes else groups[0])
        self._asked.show_if_any(*asked)

    def _titles(self) -> tuple[Line, Line]:
        """The line above each of the two conversations."""
        left = [Piece(" "), *self._heading_of(self._left)]
        if self._right is None:
            return left, ()
        kin = self._kin.get(self._right)
        related = [] if kin is None else [Piece(relation(kin, self._left.key) + " ", Ink.MUTED)]
        right = self._heading_of(self._right)
        if length(left) + length(related) + length(right) >= self.size.width:
            related = []  # the relation can be seen from the ids, the outcome cannot
        if length(left) + length(right) >= self.size.width:
            return self._short_titles(self._left, self._right)
        return left, [*related, *right]

    def _short_titles(self, left: TakeRef, right: TakeRef) -> tuple[Line, Line]:
        """Both ids, told apart, each with only the sign of its outcome."""
        keys = [one_line(str(side.key)) for side in (left, right)]
        shown = told_apart(tuple(keys), max(self.size.width // 2 - 5, 1))
        first, second = (
            [
                Piece(" " + shown[key], Ink.STRONG),
                outcome._replace(text=f" {outcome.text[:1]} "),
            ]
            for key, outcome in zip(
                keys, (outcome_piece(self._kin.get(side)) for side in (left, right)), strict=True
            )
        )
        return first, second

    def _heading_of(self, shown: TakeRef) -> Line:
        return [
            Piece(one_line(str(shown.key)), Ink.STRONG),
            Piece("  "),
            outcome_piece(self._kin.get(shown)),
            Piece(" "),
        ]


def _in_one_part(block: Block) -> Block:
    """A verdict's rule as a passage: both sides have one rule above all verdicts, so that these are
    aligned."""
    if isinstance(block, Rule):
        title = f"{block.title}, {block.note}" if block.note else block.title
        return Passage(block.key, "verdict", title, Ink.MUTED, block.ink, close=True)
    return block
