"""Search all messages for words, and open the message found."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, NamedTuple

from rich.cells import cell_len
from textual.binding import BindingType
from textual.widget import Widget
from textual.widgets import Input

from engine.benchmark import Speaker
from engine.display import display_text, one_line, plural
from engine.errors import StoreError
from engine.store.search import Hit, Search, open_search
from engine.store.tables import MessageRow
from tui.bindings import key
from tui.format import SPEAKER_NAMES
from tui.screens.base import Shell, ShellCommand, WatchingScreen, fault_passage
from tui.services.ticker import begin, begin_instead
from tui.state.headline import info_of
from tui.state.related import MessageRef, Subject, TakeRef
from tui.state.run_status import Snapshot
from tui.state.transcript import Dialogue, Marks, Thoughts
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Piece, Styled, pad, painted, told_apart
from tui.widgets.lines import Entries, Entry, OneLine
from tui.widgets.transcript import TranscriptView

PAGE: Final = 50
PAUSE: Final = 0.15
"""Seconds without a key press after which the search starts."""
BEFORE: Final = 12
"""The most characters shown before a match."""
_SPEAKERS: Final = {"by:user": Speaker.USER, "by:target": Speaker.TARGET}
_HELP: Final = 'words, "a phrase", begin*, by:user or by:target, in:benchmark'


class SearchQuery(NamedTuple):
    """The query of a line; speaker and scope are None if not given."""

    words: str
    speaker: Speaker | None
    benchmark: str | None


def parse_query(typed: str) -> SearchQuery:
    """Parse a line: `by:` and `in:` limit the search, everything else is searched for."""
    speaker, benchmark, words = None, None, []
    for word in typed.split(" "):
        if word.lower() in _SPEAKERS:
            speaker = _SPEAKERS[word.lower()]
        elif word.lower().startswith("in:") and len(word) > len("in:"):
            benchmark = word[len("in:") :]
        else:
            words.append(word)
    return SearchQuery(" ".join(words).strip(), speaker, benchmark)


class SearchScreen(WatchingScreen, inherit_bindings=False):
    """The search screen. Its index is updated in the background, and can be searched at once. New
    messages do not change what is shown: the next search finds them."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        key("slash", "type", "find", "change what is searched for"),
        key("down", "to_list", "to what was found", show=False),
        key("escape", "back", "back", "go back to where you came from"),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._line = Input(placeholder=_HELP, id="typed")
        self._line.cursor_blink = False
        self._note = OneLine(id="title")
        self._list = Entries(id="rows")
        self._where = OneLine(id="where", fill=True)
        self._detail = TranscriptView(follow=False, id="detail")
        self._search: Search | None = None
        self._hits: Sequence[Hit] = ()
        self._previewed: Hit | None = None
        """The match whose transcript is shown below the list."""
        self._asked = SearchQuery("", None, None)
        self._limit = PAGE
        self._searched = False
        self._searching = False
        self._indexed: int | None = 0
        """The percentage indexed so far; None when complete."""
        self._fault: str | None = None

    @property
    def subject(self) -> Subject | None:
        hit = self._current_hit
        return None if hit is None else Subject(hit.benchmark, hit.key)

    @property
    def commands(self) -> Sequence[ShellCommand]:
        asked = self._asked
        if not asked.words:
            return ()
        by = () if asked.speaker is None else ("--by", SPEAKER_NAMES[asked.speaker])
        where = () if asked.benchmark is None else ("--benchmark", asked.benchmark)
        words = ("search", asked.words, *by, *where)
        return [*super().commands[:1], ShellCommand("f", words)]

    def parts(self) -> Sequence[Widget]:
        return [self._line, self._note, self._list, self._where, self._detail]

    def on_mount(self) -> None:
        self._list.add_class("-nothing")
        self._draw_detail()
        begin(self, self._open, "index")

    def on_unmount(self) -> None:
        """Interrupt the current query, then close the index on a thread."""
        if self._search is not None:
            self._search.interrupt()
            asyncio.get_running_loop().run_in_executor(None, _put_away, self._search)

    def draw(self, now: Snapshot) -> None:
        del now
        words = [Piece("in everything that was said", Ink.MUTED)]
        self.show_heading("Find", words)
        self._draw_note()

    def on_input_changed(self, message: Input.Changed) -> None:
        self._ask(parse_query(message.value), PAGE)

    def on_input_submitted(self) -> None:
        self.action_to_list()

    def action_type(self) -> None:
        self._line.focus()

    def action_to_list(self) -> None:
        if self._hits:
            self._list.focus()

    def action_back(self) -> None:
        self.shell.navigator.back()

    def on_descendant_focus(self) -> None:
        super().on_descendant_focus()
        self._draw_note()

    def on_cursor_view_opened(self) -> None:
        hit = self._current_hit
        if hit is not None:
            at = MessageRef(hit.take, hit.turn, hit.speaker, _needle(hit))
            self.shell.navigator.open_conversation(hit.benchmark, hit.key, at=at)

    def on_cursor_view_moved(self) -> None:
        self._draw_detail()
        hit = self._current_hit
        more = len(self._hits) >= self._limit
        if more and hit is not None and hit == self._hits[-1] and not self._searching:
            self._ask(self._asked, self._limit + PAGE)

    @property
    def _current_hit(self) -> Hit | None:
        cursor = self._list.cursor
        return next((hit for hit in self._hits if hit.seq == cursor), None)

    async def _open(self) -> None:
        """Open the index, and update it while the user types."""
        try:
            search = await asyncio.to_thread(open_search, self.watched.reader.path)
            self._search = search
            self._ask_again()
            last = max(self.watched.reader.last_seq(), 1)
            extending = asyncio.create_task(asyncio.to_thread(search.extend))
            extending.add_done_callback(_retrieve_exception)
            while not extending.done():
                await asyncio.wait([extending], timeout=1.0)
                if not extending.done():
                    self._indexed = (
                        await asyncio.to_thread(lambda: search.indexed_through) * 100 // last
                    )
            extending.result()
            self._indexed = None
            self._ask_again()
        except StoreError as error:
            if self.is_running:
                self._fault = str(error)
                self._draw_note()

    def on_resize(self) -> None:
        if self._hits:
            self._list.show(self._entries())

    def _entries(self) -> list[Entry]:
        return _entries(self._hits, self.app.size.width)

    def _ask_again(self) -> None:
        if self._asked.words:
            self._ask(self._asked, self._limit)
        else:
            self._draw_note()

    def _ask(self, what: SearchQuery, limit: int) -> None:
        self._asked, self._limit = what, limit
        self._searching = bool(what.words)
        begin_instead(self, partial(self._answer, what, limit), "find")

    async def _answer(self, what: SearchQuery, limit: int) -> None:
        if what.words:
            await asyncio.sleep(PAUSE)
        search = self._search
        if search is None:
            return
        try:
            hits = await asyncio.to_thread(
                search.search,
                what.words,
                speaker=what.speaker,
                benchmark=what.benchmark,
                limit=limit,
            )
        except StoreError as error:
            self._fault = str(error)
        else:
            self._hits, self._searched, self._fault = hits, bool(what.words), None
            self._list.show(self._entries())
            self._list.set_class(not hits, "-nothing")
            self._draw_detail()
        self._searching = False
        self._draw_note()

    def _draw_note(self) -> None:
        left, ink = self._found_words()
        right = []
        if self._indexed is not None and self._fault is None:
            right = [Piece(f"the index is being made: {self._indexed}% ", Ink.WARN)]
        self._note.show([Piece(" " + left, ink)], right)

    def _found_words(self) -> tuple[str, Ink]:
        if self._fault is not None:
            return one_line(self._fault), Ink.BAD
        if self._searching:
            return "searching", Ink.MUTED
        if not self._searched:
            # an empty line says it itself
            return _HELP if self._line.value else "", Ink.MUTED
        if not self._hits and self._indexed is not None:
            return "Nothing yet; the rest is being indexed.", Ink.MUTED
        if not self._hits:
            return "Nobody said that.", Ink.WARN
        more = " or more" if len(self._hits) >= self._limit else ""
        leads = "; Enter leads to them" if self._line.has_focus else ""
        return f"{plural(len(self._hits), 'message')}{more}, the newest first{leads}", Ink.GOOD

    def _draw_detail(self) -> None:
        """Show the transcript around the match; without one, what can be found."""
        hit = self._current_hit
        self._where.set_class(hit is None, "-nothing")
        if hit is None:
            self._detail.show_another(_GUIDE, follow=False)
        elif hit != self._previewed:
            where = f"turn {hit.turn}, take {hit.take + 1} of {one_line(hit.benchmark)}"
            title = [Piece(f" {one_line(str(hit.key))}", Ink.STRONG)]
            self._where.show(title, [Piece(where, Ink.MUTED)])
            self._detail.show_another(self._transcript(hit), follow=False)
            self._detail.jump_to_block((hit.speaker, hit.turn))
            self._detail.jump_to_mark(0, Ink.FOUND)
            # the pane may be about to get another height, as the list comes up
            self.call_after_refresh(self._detail.jump_to_mark, 0, Ink.FOUND)
        self._previewed = hit

    def _transcript(self, hit: Hit) -> Sequence[Block]:
        info = info_of(self.watched, hit.benchmark)
        dialogue = Dialogue(
            TakeRef(hit.benchmark, hit.key, hit.take), 0 if info is None else info.turns
        )
        try:
            dialogue.load(self.watched.reader)
        except StoreError as error:
            return [fault_passage(error)]
        return dialogue.blocks(thoughts=Thoughts.HIDDEN, marks=_marks(hit, dialogue.messages))


def _put_away(search: Search) -> None:
    with contextlib.suppress(StoreError):
        search.close()


def _retrieve_exception(extending: asyncio.Task[int]) -> None:
    """Retrieve an abandoned task's exception, as the screen that would check it is gone."""
    if not extending.cancelled():
        extending.exception()


def _needle(hit: Hit) -> str:
    """The matched words, to be marked in the transcript."""
    return hit.snippet[slice(*hit.spans[0])] if hit.spans else ""


_ID_WIDTH: Final = 31
_PLACE_WIDTH: Final = 14
_SAID_WIDTH: Final = 18
"""The cells of who said it in which turn, and the blanks between them."""


def _entries(hits: Sequence[Hit], room: int) -> list[Entry]:
    """The matches' entries in `room` cells, with their benchmark if there are several, as ids may
    repeat."""
    names = [one_line(str(hit.key)) for hit in hits]
    shown = told_apart(tuple(names), _ID_WIDTH)
    width = max(map(cell_len, shown.values()), default=0)
    places = told_apart(tuple(one_line(hit.benchmark) for hit in hits), _PLACE_WIDTH)
    place_width = max(map(cell_len, places.values())) + 2 if len(places) > 1 else 0
    snippet = room - _SAID_WIDTH - width - place_width - len("  …  …")
    return [
        _entry(
            hit, pad(shown[name], width), pad(places[one_line(hit.benchmark)], place_width), snippet
        )
        for hit, name in zip(hits, names, strict=True)
    ]


def _entry(hit: Hit, conv_id: str, place: str, room: int) -> Entry:
    ink = Ink.USER if hit.speaker is Speaker.USER else Ink.TARGET
    left = [
        Piece(pad(SPEAKER_NAMES[hit.speaker], 7), ink),
        Piece(pad(f"turn {hit.turn}", 8), Ink.MUTED),
        Piece(conv_id + "  ", Ink.STRONG),
        Piece(place, Ink.MUTED),
        *_snippet(hit, room),
    ]
    return Entry(hit.seq, left)


def _snippet(hit: Hit, room: int) -> list[Piece]:
    """The marked match with some text before it, less where the match would not fit into `room`
    cells; each piece is cleaned separately."""
    before = min(BEFORE, max(room - len(_needle(hit)), 0))
    start = max(hit.spans[0][0] - before, 0) if hit.spans else 0
    if start:  # at the beginning of a word, where one begins
        start = hit.snippet.find(" ", start, hit.spans[0][0]) + 1 or start
    styles = [Styled(*span, Ink.EVIDENCE) for span in hit.spans]
    pieces = painted(hit.snippet, start, len(hit.snippet), styles, Ink.TEXT)
    dots = [Piece("… ", Ink.FAINT)] if start or hit.cut_before else []
    rest = [Piece("…", Ink.FAINT)] if hit.cut_after else []
    return [*dots, *(Piece(_on_one_line(piece.text), piece.ink) for piece in pieces), *rest]


def _on_one_line(text: str) -> str:
    """The text on one line; blanks at its ends are kept."""
    return display_text(text).replace("\n", " ")


def _marks(hit: Hit, messages: Sequence[MessageRow]) -> Marks:
    """The marks of the matches in the message."""
    for message in messages:
        if (message.turn, message.speaker) == (hit.turn, hit.speaker):
            start = message.text.find(hit.snippet)
            if start >= 0:
                spans = [Styled(start + begin, start + end, Ink.FOUND) for begin, end in hit.spans]
                return {(hit.turn, hit.speaker): spans}
    return {}


def _guide(*lines: tuple[str, str]) -> Sequence[Block]:
    return [
        Rule("guide", "what can be found: every word that users and targets have said"),
        *(Passage(asked, asked, words, Ink.ACCENT, close=True) for asked, words in lines),
    ]


_GUIDE: Final = _guide(
    ("words", "messages with all of these words, in any order and case"),
    ('"a b"', "these words, one right after the other"),
    ("begin*", "words that begin like this; at least four letters"),
    ("by:target", "only what targets said; by:user what users said"),
    ("in:name", "only within this benchmark"),
    ("Enter", "goes to the list; Enter there opens the conversation at that message"),
)
