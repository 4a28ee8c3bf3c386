"""One conversation, read closely: who the user plays, what was said, and how it was judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal

from engine.benchmark import ConversationKey, Scenario, Track
from engine.display import drawn, one_line
from engine.errors import StoreError
from engine.facts import Fact, MessageSpoken, TakeEnded, TakeStarted, VerdictGiven
from engine.link import Board
from engine.statistics import headline
from engine.store.records import Quote, StoredTake, StoredVerdict
from engine.watch import Watch
from tui.dialogue import Dialogue, Thoughts, evidence
from tui.keys import key
from tui.screens.watching import NOT_TINY, ROOM_FOR_NOTICE, SIDE_BY_SIDE, WatchingScreen
from tui.spotlight import Shown
from tui.ticker import Moment
from tui.widgets.blocks import Block, Passage, Rule
from tui.widgets.ink import Ink, Piece
from tui.widgets.key_line import KeyLine
from tui.widgets.one_line import OneLine
from tui.widgets.transcript import Transcript
from tui.wording import SCRIPTED, SPEAKER_NAMES, verdict

_INKS: Final = {True: Ink.GOOD, False: Ink.BAD, None: Ink.WARN}


class ConversationScreen(WatchingScreen, inherit_bindings=False):
    """Reads everything from the store, and from the link while it is still being spoken."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("q,escape,backspace", "back", "back", "back to where you came from"),
        key("c", "next_evidence", "evidence", "the next place that a judge quoted"),
        key("s", "toggle_setup", "setup", "show or hide persona, goals and landmarks"),
        key("t", "toggle_thoughts", "thoughts", "open or fold what the user model thought"),
        key("space", "freeze", "freeze", "hold the display still; the run goes on"),
        key("comma", "earlier_take", "earlier take", "the playing before this one"),
        key("full_stop", "later_take", "later take", "the playing after this one"),
    ]

    def __init__(self, watch: Watch, benchmark: str, key: ConversationKey) -> None:
        super().__init__(watch)
        self._header = OneLine(id="header")
        self._title = OneLine(id="title")
        self._story = Transcript(follow=False, id="story")
        self._side = Transcript(follow=False, id="side")
        self._benchmark = benchmark
        self._key = key
        self._info = next((info for info in watch.benchmarks if info.name == benchmark), None)
        self._takes: Sequence[StoredTake] = ()
        self._verdicts: Sequence[StoredVerdict] = ()
        self._number: int | None = None
        """Of the take that a person asked for; None for the one that counts."""
        self._dialogue: Dialogue | None = None
        self._thoughts = False
        self._setup = False
        self._frozen = False
        self._reload = True
        self._problem: str | None = None
        self._was_wide: bool | None = None
        self._opened = False

    def compose(self) -> ComposeResult:
        yield self._header
        yield self._title
        with Horizontal(id="sheets"):
            yield self._story
            yield self._side
        yield KeyLine()

    def on_mount(self) -> None:
        self._story.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action not in {"earlier_take", "later_take"} or len(self._takes) > 1

    def hear(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            match fact:
                case MessageSpoken() | TakeStarted() | TakeEnded() | VerdictGiven():
                    self._reload |= (fact.benchmark, fact.key) == (self._benchmark, self._key)
                case _:
                    pass

    def draw(self, board: Board | None, moment: Moment) -> None:
        del board, moment
        if self._frozen:
            return
        wide = self._is_wide
        changed = self._reload or wide != self._was_wide
        self._was_wide = wide
        if self._reload:
            self._load()
        dialogue = self._dialogue
        if dialogue is not None and dialogue.listen(self.watched.link):
            changed = True
        if changed:
            self._draw_sheets(wide=wide)
        self._draw_lines()

    def action_back(self) -> None:
        self.app.pop_screen()

    def action_next_evidence(self) -> None:
        number = self._story.jump_to_mark(1)
        if number is None:
            self.notify("No quote of a judge was found in this transcript.", markup=False)

    def action_toggle_setup(self) -> None:
        self._setup = not self._setup
        self._reload = True

    def action_toggle_thoughts(self) -> None:
        self._thoughts = not self._thoughts
        self._reload = True

    def action_freeze(self) -> None:
        self._frozen = not self._frozen
        self._draw_lines()

    def action_earlier_take(self) -> None:
        self._step_take(-1)

    def action_later_take(self) -> None:
        self._step_take(1)

    @property
    def _is_wide(self) -> bool:
        """Whether there is room for two sheets; known before the screen is laid out."""
        width, height = self.app.size
        return width >= SIDE_BY_SIDE and height >= NOT_TINY

    def _step_take(self, step: int) -> None:
        if not self._takes:
            return
        numbers = [take.number for take in self._takes]
        shown = self._dialogue.shown.take if self._dialogue else numbers[-1]
        index = numbers.index(shown) + step
        if 0 <= index < len(numbers):
            self._number = numbers[index]
            self._reload = True
            self._opened = False

    def _load(self) -> None:
        self._reload = False
        try:
            self._read()
            self._problem = None
        except StoreError as error:
            self._problem = str(error)

    def _read(self) -> None:
        reader = self.watched.reader
        had = len(self._takes)
        self._takes = reader.takes(self._benchmark, self._key)
        take = _wanted(self._takes, self._number)
        if take is None:
            return
        shown = Shown(self._benchmark, self._key, take.number)
        if self._dialogue is None or self._dialogue.shown != shown:
            self._dialogue = Dialogue(shown, self._info.turns if self._info else 0)
        self._dialogue.load(reader)
        self._verdicts = reader.verdicts(take.seq)
        if len(self._takes) != had:
            self.refresh_bindings()

    def _draw_sheets(self, *, wide: bool) -> None:
        beside = [*_verdict_blocks(self._verdicts), *self._setup_blocks()]
        told = self._told()
        self._fill(told if wide else [*beside, *told])
        self._side.show(beside if wide else [])

    def _fill(self, blocks: list[Block]) -> None:
        if self._opened or self._dialogue is None:
            self._story.show(blocks)
            return
        self._opened = True
        self._story.show_another(blocks, follow=self._is_being_spoken)

    @property
    def _is_being_spoken(self) -> bool:
        take = self._dialogue.take if self._dialogue else None
        return take is not None and take.stop_reason is None and self.watched.link is not None

    def _told(self) -> list[Block]:
        blocks: list[Block] = []
        if self._dialogue is not None:
            marks = evidence(self._dialogue.messages, self._verdicts)
            thoughts = Thoughts.OPEN if self._thoughts else Thoughts.FOLDED
            blocks += self._dialogue.blocks(thoughts=thoughts, marks=marks)
        if self._problem is not None:
            text = drawn(self._problem)
            blocks.append(Passage("problem", "problem", text, Ink.BAD, Ink.BAD))
        if not blocks:
            blocks.append(Passage("nothing", "", "Nothing has been said yet.", ink=Ink.MUTED))
        return blocks

    def _setup_blocks(self) -> list[Block]:
        scenario = self._dialogue.scenario if self._dialogue else None
        if scenario is None:
            return []
        if not self._setup:
            return [Rule("setup", "persona, goals, landmarks", "s opens")]
        return [Rule("setup", "persona, goals, landmarks", "s closes"), *_setup(scenario)]

    def _draw_lines(self) -> None:
        info, dialogue = self._info, self._dialogue
        left = [Piece(" Crosswind", Ink.ACCENT), Piece("  " + one_line(self._benchmark))]
        scripted = info is not None and info.scripted
        roomy = self.size.width >= ROOM_FOR_NOTICE
        words = SCRIPTED if roomy else "scripted"
        notice = [Piece(words, Ink.WARN), Piece(" ")] if scripted else []
        self._header.show(left, notice)
        title = [Piece(" "), Piece(one_line(str(self._key)), Ink.STRONG), Piece("  ")]
        counted = _counted(self._verdicts)
        if self._verdicts:
            title.append(Piece(verdict(counted), _INKS[counted]))
        elif dialogue is not None:
            title.append(Piece("not judged yet", Ink.MUTED))
        if dialogue is not None and self._is_being_spoken and (live := dialogue.live) is not None:
            title.append(Piece(f"  {SPEAKER_NAMES[live.speaker]} speaking", Ink.ACCENT))
        if self._frozen:
            title.append(Piece("  frozen", Ink.WARN))
        self._title.show(title, self._take_words())

    def _take_words(self) -> list[Piece]:
        if self._dialogue is None or len(self._takes) < 2:
            return []
        counting = _wanted(self._takes, None)
        number = self._dialogue.shown.take
        counts = counting is not None and counting.number == number
        text = f"take {number + 1} of {len(self._takes)}, {'counts' if counts else 'superseded'}"
        return [Piece(text, Ink.MUTED if counts else Ink.WARN)]


def _wanted(takes: Sequence[StoredTake], number: int | None) -> StoredTake | None:
    """The take with this number; without one the newest that was finished, else the newest."""
    if number is not None:
        return next((take for take in takes if take.number == number), None)
    candidates = [take for take in takes if take.finished] or takes
    return candidates[-1] if candidates else None


def _counted(verdicts: Sequence[StoredVerdict]) -> bool | None:
    """By the engine's rule, over the newest of each judge and pass."""
    newest = {(each.judge, each.number): each for each in verdicts if each.unscored is None}
    return headline(each.passed for each in newest.values())


def _verdict_blocks(verdicts: Sequence[StoredVerdict]) -> list[Block]:
    blocks: list[Block] = []
    for each in reversed(verdicts):
        blocks += _verdict(each)
    return blocks


def _verdict(given: StoredVerdict) -> list[Block]:
    again = f", pass {given.number + 1}" if given.number else ""
    blocks: list[Block] = [
        Rule(
            ("verdict", given.seq),
            f"{verdict(given.passed)}  by {one_line(given.judge)}{again}",
            ink=_INKS[given.passed],
        )
    ]
    if given.unscored is not None:
        text = drawn(given.unscored)
        blocks.append(Passage(("unscored", given.seq), "unscored", text, Ink.WARN))
    if given.present is not None:
        blocks.append(
            Passage(("present", given.seq), "behaviour", _presence(given), ink=Ink.STRONG)
        )
    if given.justification:
        blocks.append(Passage(("because", given.seq), "because", drawn(given.justification)))
    for number, quote in enumerate(given.quotes):
        blocks.append(_quote(given.seq, number, quote))
    return blocks


def _presence(given: StoredVerdict) -> str:
    word = "present" if given.present else "absent"
    wanted = "present" if given.track is Track.POSITIVE else "absent"
    return f"{word} ({one_line(given.metric_id)} is {given.track.value}: passes when {wanted})"


def _quote(seq: int, number: int, quote: Quote) -> Passage:
    found = quote.turn is not None
    where = f"turn {quote.turn}" if found else "not found in the transcript"
    return Passage(
        ("quote", seq, number),
        "quote",
        f"“{drawn(quote.text)}” ({where})",
        Ink.MUTED if found else Ink.WARN,
        Ink.TEXT if found else Ink.WARN,
    )


def _setup(scenario: Scenario) -> list[Block]:
    parts = [
        ("persona", scenario.persona),
        ("goal", scenario.user_goal),
        ("latent", scenario.latent_adversarial_goal),
        *(("who", f"{axis}: {value}") for axis, value in scenario.demographic.items()),
        *((f"turn {mark.turn}", mark.instruction) for mark in scenario.landmarks),
    ]
    if scenario.target_system_prompt:
        parts.append(("system", scenario.target_system_prompt))
    return [
        Passage(("setup", index), label, drawn(text), _setup_ink(label))
        for index, (label, text) in enumerate(parts)
    ]


def _setup_ink(label: str) -> Ink:
    return Ink.LANDMARK if label.startswith("turn ") else Ink.USER
