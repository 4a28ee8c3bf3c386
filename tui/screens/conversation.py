"""One conversation: the setup of its user model, its messages, and its verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widget import Widget

from engine.analysis.comparability import unreached_landmarks
from engine.benchmark import ConversationKey, Landmark, Scenario, Speaker, Stage
from engine.display import display_text, one_line, plural
from engine.errors import CrosswindError, StoreError
from engine.facts import Fact, MessageSpoken, StateChanged, TakeEnded, TakeStarted, VerdictGiven
from engine.jury import Counts, what_counts
from engine.scripted import (
    EVALUATOR,
    all_scripts,
    is_script,
    played_by,
    scripts_in_words,
)
from engine.store.tables import StoredTake, Verdict
from tui.bindings import FROZEN, key
from tui.format import ROOM_FOR_NOTICE, SPEAKER_NAMES, scripted_words
from tui.screens.base import DEFINITION, FREEZE, VARIANTS, ReadingScreen, Shell, fault_passage
from tui.services.ticker import begin_instead
from tui.state.explanations import judging_blocks
from tui.state.headline import info_of, measured, votes_line
from tui.state.related import MessageRef, RowCursor, Subject, TakeRef
from tui.state.run_status import Snapshot, UnseenCounts
from tui.state.transcript import (
    Dialogue,
    Marks,
    PatternFault,
    Thoughts,
    evidence,
    matches,
    merged_marks,
    scenario_parts,
    verdict_blocks,
)
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Piece, Styled, length
from tui.widgets.transcript import TranscriptView


class ConversationScreen(ReadingScreen, inherit_bindings=False):
    """Shows a stored conversation, and the text of the engine's link while it is still being
    spoken."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("q,escape,backspace", "back", "back", "go back to where you came from"),
        key("c", "next_evidence", "evidence", "go to the next place that a judge quoted"),
        key("slash", "find", "find", "find words or a pattern in this transcript"),
        key("n", "next_found", "next found", "go to the next place where it occurs"),
        key("N", "previous_found", "previous found", "go to the previous place", show=False),
        key(
            "right_square_bracket",
            "next_conversation",
            "next",
            "the next conversation of the filtered rows",
        ),
        key(
            "left_square_bracket",
            "previous_conversation",
            "previous",
            "the previous conversation of the filtered rows",
        ),
        VARIANTS,
        key("C", "compare", "compare", "read it side by side with another"),
        DEFINITION,
        key("r", "judge_again", "judge again", "judge it again, by the judge you choose"),
        key("R", "play_again", "play again", "play it again, and go to the new take"),
        key("m", "calls", "calls", "each message's tokens, times, attempts, request and answer"),
        key("L", "toggle_setup", "setup", "show or hide persona, goals and landmarks"),
        key("t", "toggle_thoughts", "thoughts", "open or fold what the user model thought"),
        FREEZE,
        key("comma", "earlier_take", "earlier take", "the previous take"),
        key("full_stop", "later_take", "later take", "the next take"),
    ]

    def __init__(
        self,
        shell: Shell,
        benchmark: str,
        key: ConversationKey,
        *,
        among: RowCursor | None = None,
        at: MessageRef | None = None,
    ) -> None:
        """`among` are the rows that `[` and `]` go through; `at` is the message to open it at."""
        super().__init__(shell)
        self._among = among
        self._at = at
        self._needle = "" if at is None else at.needle
        self._found: Marks = {}
        self._found_number: int | None = None
        self._story = TranscriptView(follow=False, id="story")
        self._side = TranscriptView(follow=False, id="side")
        self._benchmark = benchmark
        self._key = key
        self._info = info_of(shell.watch, benchmark)
        self._takes: Sequence[StoredTake] = ()
        self._verdicts: Sequence[Verdict] = ()
        self._counts: Counts | None = None
        """What counts by the files; None until they are read."""
        self._number: int | None = None if at is None else at.take
        """Number of the take that was chosen; None for the one that counts."""
        self._dialogue: Dialogue | None = None
        self._judging: Sequence[Block] = ()
        """What a judge writes about it right now."""
        self._thoughts = False
        self._setup = False
        self._opened = False
        self._evidence_due = False
        """Whether `c` was pressed before the text was there."""
        self._awaits_take = False
        """Whether the next take that begins is to be shown, as it was asked for here."""

    @property
    def subject(self) -> Subject:
        return Subject(self._benchmark, self._key)

    def parts(self) -> Sequence[Widget]:
        sheets = Horizontal(self._story, self._side, id="sheets")
        return [self._title, self._asked, sheets]

    def on_mount(self) -> None:
        self._story.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        match action:
            case "earlier_take" | "later_take":
                return len(self._takes) > 1
            case "next_conversation" | "previous_conversation":
                return self._among is not None
            case "next_found" | "previous_found":
                return bool(self._needle)
            case _:
                return True

    def hint(self, action: str) -> str | None:
        over = self._dialogue is not None and not self._is_being_spoken
        match action:
            case "next_evidence":
                return None if self._story.has_marks else ""
            case "find" | "toggle_thoughts" | "calls" if self._dialogue is None:
                return ""
            case "judge_again" | "play_again" | "compare" if self._dialogue is None:
                return ""
            case "toggle_thoughts":
                return "fold thoughts" if self._thoughts else None
            case "toggle_setup":
                return "fold setup" if self._setup else None
            case "freeze":
                frozen = None if self.missed is None else FROZEN
                return frozen or ("" if over else None)
            case _:
                return None

    def concerns(self, fact: Fact) -> bool:
        match fact:
            case MessageSpoken() | TakeStarted() | TakeEnded() | VerdictGiven():
                return (fact.benchmark, fact.key) == self.subject
            # a check of the user model is stored without a fact of its own
            case StateChanged(stage=Stage.EVALUATE):
                return (fact.benchmark, fact.unit) == (self._benchmark, str(self._key))
            case _:
                return False

    def receive(self, facts: Sequence[Fact]) -> None:
        super().receive(facts)
        mine = [fact for fact in facts if self.concerns(fact)]
        for fact in mine:
            if isinstance(fact, TakeStarted) and self._awaits_take:
                self._show_take(fact.take)
        if self.missed is not None:
            self.missed.receive(mine)

    def has_news(self, now: Snapshot) -> bool:
        dialogue, before = self._dialogue, self._judging
        if dialogue is None:
            return False
        self._judging = judging_blocks(now.board, dialogue)
        return dialogue.listen(self.watched.link) or self._judging != before

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_next_evidence(self) -> None:
        if not self._opened:
            # the key was pressed right after the one that opened this screen
            self._evidence_due = True
            return
        number = self._story.jump_to_mark(1)
        if number is None:
            self.shell.tell("No quote of a judge was found in this transcript.")

    def action_find(self) -> None:
        def decided(typed: str | None) -> None:
            self._needle = typed or ""
            if not typed:
                self._found, self._found_number = {}, None
                self.stale = True
            self.refresh_bindings()

        self.shell.navigator.ask_pattern(self._needle, self._find, decided)

    def action_next_found(self) -> None:
        self._go_to_found(1)

    def action_previous_found(self) -> None:
        self._go_to_found(-1)

    def action_next_conversation(self) -> None:
        self._step(1)

    def action_previous_conversation(self) -> None:
        self._step(-1)

    def action_compare(self) -> None:
        if self._dialogue is not None:
            self.shell.navigator.open_comparison(self._dialogue.shown)

    def action_play_again(self) -> None:
        self.shell.navigator.play_again([self.subject], self._await_take)

    def _await_take(self) -> None:
        self._awaits_take = True

    def action_calls(self) -> None:
        if self._dialogue is not None:
            turn, speaker = self._story.message_at_top or (1, Speaker.USER)
            self.shell.navigator.open_calls(self._dialogue.shown, turn, speaker)

    def action_toggle_setup(self) -> None:
        self._setup = not self._setup
        self.show_text()

    def action_toggle_thoughts(self) -> None:
        self._thoughts = not self._thoughts
        self.show_text()

    def action_earlier_take(self) -> None:
        self._step_take(-1)

    def action_later_take(self) -> None:
        self._step_take(1)

    async def _find(self, typed: str) -> int:
        """Mark all places where `typed` occurs and go to the first one from here on; returns how
        many there are. Raises `PatternFault`."""
        messages = list(self._dialogue.messages) if self._dialogue is not None else []
        spans = await matches([message.text for message in messages], typed)
        self._found = {
            (message.turn, message.speaker): [Styled(*span, Ink.FOUND) for span in of_message]
            for message, of_message in zip(messages, spans, strict=True)
        }
        self._needle = typed
        self.show_text()
        self._found_number = self._story.jump_to_mark(0, Ink.FOUND)
        self.draw_lines()
        return sum(map(len, spans))

    def _go_to_found(self, step: int) -> None:
        self._found_number = self._story.jump_to_mark(step, Ink.FOUND)
        self.draw_lines()

    async def _find_again(self) -> None:
        """Repeat the search in another transcript."""
        with suppress(PatternFault):
            await self._find(self._needle)

    def _step(self, by: int) -> None:
        """Show the next or the previous one of the rows it was opened from."""
        if self._among is None:
            return
        try:
            subject = self._among.step(by)
        except StoreError as error:
            self.shell.tell(str(error), bad=True)
            return
        if subject is None:
            end = "last" if by > 0 else "first"
            read = f"{self._among.read:,} of {len(self._among):,} read"
            self.shell.tell(f"This is the {end} of what was filtered: {read}.")
            return
        frozen, self.missed = self.missed, None
        self._benchmark, self._key = subject
        self._info = info_of(self.watched, self._benchmark)
        self._takes, self._verdicts, self._number = (), (), None
        self._dialogue, self._at, self._judging = None, None, ()
        self._found, self._found_number = {}, None
        self._opened, self._awaits_take = False, False
        self.draw_anew()
        self.missed = None if frozen is None else UnseenCounts()

    def _step_take(self, step: int) -> None:
        if not self._takes:
            return
        numbers = [take.number for take in self._takes]
        shown = self._dialogue.shown.take if self._dialogue else numbers[-1]
        index = numbers.index(shown) + step
        if 0 <= index < len(numbers):
            self._show_take(numbers[index])

    def _show_take(self, number: int) -> None:
        self._number, self._awaits_take = number, False
        self.stale, self._opened = True, False

    async def _read_counts(self) -> None:
        with suppress(CrosswindError):  # other screens say what is wrong with the files
            self._counts = await asyncio.to_thread(self.watched.counts, self._benchmark)
            self.draw_lines()

    def read(self) -> None:
        if self._counts is None or self._counts.asked.benchmark != self._benchmark:
            begin_instead(self, self._read_counts, "counts")
        reader = self.watched.reader
        had = len(self._takes)
        self._takes = reader.takes(self._benchmark, self._key)
        take = _wanted_take(self._takes, self._number)
        if take is None:
            return
        shown = TakeRef(self._benchmark, self._key, take.number)
        if self._dialogue is None or self._dialogue.shown != shown:
            self._dialogue = Dialogue(shown, self._info.turns if self._info else 0)
        self._dialogue.load(reader)
        self._verdicts = self._dialogue.verdicts
        if len(self._takes) != had:
            self.refresh_bindings()

    def show_text(self) -> None:
        wide = self.is_wide
        beside = [*verdict_blocks(self._verdicts, self.watched.jury), *self._setup_blocks()]
        blocks = self._dialogue_blocks()
        self._fill(blocks if wide else [*beside, *blocks])
        self._side.show(beside if wide else [])

    def _fill(self, blocks: list[Block]) -> None:
        if self._opened or self._dialogue is None:
            self._story.show(blocks)
            return
        goes = self._at is not None or self._among is not None or self._evidence_due
        if goes and not self._story.size:
            # a widget that has no height yet cannot scroll to a place
            self.stale = True
            return
        self._opened = True
        self._story.show_another(blocks, follow=self._is_being_spoken and self._at is None)
        if self._at is not None:
            self._story.jump_to_block((self._at.speaker, self._at.turn))
        elif self._among is not None and what_counts(self._verdicts, self.watched.jury) is False:
            # opened from a list of rows as a failure: begin at its evidence
            self._story.jump_to_mark(0)
        if self._evidence_due:
            self._evidence_due = False
            self.action_next_evidence()
        if self._verdicts:
            self._note_read()
        if self._needle:
            begin_instead(self, self._find_again, "find")

    def _note_read(self) -> None:
        if self._dialogue is not None:
            self.shell.preferences.note_read(self._dialogue.shown)
        if self._among is not None:
            self._among.note_read()

    @property
    def _is_being_spoken(self) -> bool:
        take = self._dialogue.take if self._dialogue else None
        speaking = take is not None and take.stop_reason is None
        return speaking and self.watched.link is not None

    def _dialogue_blocks(self) -> list[Block]:
        blocks: list[Block] = []
        if self._dialogue is not None:
            marks = merged_marks(evidence(self._dialogue.messages, self._verdicts), self._found)
            thoughts = Thoughts.OPEN if self._thoughts else Thoughts.FOLDED
            blocks += self._dialogue.blocks(thoughts=thoughts, marks=marks)
            blocks += self._judging
        if self.fault is not None:
            blocks.append(fault_passage(self.fault, "problem"))
        if not blocks:
            blocks.append(Passage("nothing", "", "Nothing has been said yet.", ink=Ink.MUTED))
        return blocks

    def _setup_blocks(self) -> list[Block]:
        dialogue = self._dialogue
        if dialogue is None or (scenario := dialogue.scenario) is None:
            return []
        turns = max((message.turn for message in dialogue.messages), default=0)
        is_over = dialogue.take is not None and dialogue.take.finished
        missed = unreached_landmarks(scenario.landmarks, turns) if is_over else []
        if not self._setup:
            return [Rule("setup", _setup_words(missed), "L opens")]
        return [Rule("setup", _setup_words(missed), "L closes"), *_setup(scenario, missed)]

    def draw_lines(self) -> None:
        dialogue = self._dialogue
        left = [Piece(" Crosswind", Ink.ACCENT), Piece("  " + one_line(self._benchmark))]
        left += self._take_words()
        parts = {}
        if dialogue is not None and (take := dialogue.take) is not None:
            parts = played_by(take.user_model, take.model, scripted=take.scripted)
            if self._verdicts:
                parts[EVALUATOR] = any(is_script(verdict.judge) for verdict in self._verdicts)
        some = None if all_scripts(parts) else scripts_in_words(parts)
        words = scripted_words(some, roomy=self.size.width >= ROOM_FOR_NOTICE)
        if length(left) + cell_len(words) + 2 > self.size.width:
            words = scripted_words(some, roomy=False)
        notice = [Piece(words, Ink.WARN), Piece(" ")] if any(parts.values()) else []
        self._header.show(left, notice)
        asked = measured(self._info, dialogue, self.watched.jury, self.size.width)
        self._asked.show_if_any(*asked)
        title = [Piece(" "), Piece(one_line(str(self._key)), Ink.STRONG), Piece("  ")]
        if self._verdicts:
            title += votes_line(self._verdicts, self.watched.jury)
        elif dialogue is not None:
            title.append(Piece("not judged yet", Ink.MUTED))
        why_not = None if self._counts is None else self._counts.asked.why_not(self._key)
        if why_not is not None:
            title.append(Piece(f"  does not count: {why_not}", Ink.WARN))
        if dialogue is not None and self._is_being_spoken and (live := dialogue.live) is not None:
            title.append(Piece(f"  {SPEAKER_NAMES[live.speaker]} speaking", Ink.ACCENT))
        if self.missed is not None:
            title.append(Piece(f"  {self.missed.words}", Ink.WARN))
        if self.subject in self.shell.preferences.views.stars:
            title.append(Piece("  ★", Ink.WARN))
        if self._needle:
            title.append(Piece(f"  {self._found_words()}", Ink.ACCENT))
        right = [*self._new_words(), *self._among_words()]
        self._title.show(title, right)

    def _found_words(self) -> str:
        total = sum(map(len, self._found.values()))
        place = f"{self._found_number} of {total}" if self._found_number else f"{total} places"
        return f"“{one_line(self._needle, 24)}” {place}"

    def _new_words(self) -> list[Piece]:
        """How many rows are below the visible ones, where the view does not follow the end."""
        below = self._story.rows_below
        if self._story.follow or not below or not self._is_being_spoken:
            return []
        return [Piece(f"▼ {plural(below, 'row')} below, G follows ", Ink.ACCENT)]

    def _among_words(self) -> list[Piece]:
        if self._among is None:
            return []
        place = f"{self._among.place + 1:,} of {len(self._among):,}"
        if self.size.width >= ROOM_FOR_NOTICE:
            place += f", {self._among.read:,} read"
        return [Piece(f"{place} ", Ink.MUTED)]

    def _take_words(self) -> list[Piece]:
        if self._dialogue is None or len(self._takes) < 2:
            return []
        counting = _wanted_take(self._takes, None)
        number = self._dialogue.shown.take
        counts = counting is not None and counting.number == number
        is_open = not counts and number == self._takes[-1].number
        what = "counts" if counts else "not played to its end" if is_open else "superseded"
        text = f" take {number + 1} of {len(self._takes)}, {what}"
        return [Piece("  , .", Ink.ACCENT), Piece(text, Ink.MUTED if counts else Ink.WARN)]


def _wanted_take(takes: Sequence[StoredTake], number: int | None) -> StoredTake | None:
    """The take with this number; without a number the newest finished one, else the newest."""
    if number is not None:
        return next((take for take in takes if take.number == number), None)
    candidates = [take for take in takes if take.finished] or takes
    return candidates[-1] if candidates else None


def _setup_words(missed: Sequence[Landmark]) -> str:
    never = plural(len(missed), "landmark")
    return f"setup, {never} never reached" if missed else "persona, goals, landmarks"


def _setup(scenario: Scenario, missed: Sequence[Landmark]) -> list[Block]:
    never = {f"turn {mark.turn}" for mark in missed}
    return [
        Passage(
            ("setup", index),
            label,
            display_text(f"{text} (never reached)" if label in never else text),
            _setup_ink(label),
        )
        for index, (label, text) in enumerate(scenario_parts(scenario))
    ]


def _setup_ink(label: str) -> Ink:
    return Ink.LANDMARK if label.startswith("turn ") else Ink.USER
