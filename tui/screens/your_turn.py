"""Your turn: what waits for a person. What a model wrote is approved, rejected or changed here;
from here opens what is to be labelled, decided or paid."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from textual.binding import BindingType
from textual.widget import Widget

from engine.display import display_text, one_line, plural
from engine.errors import CrosswindError, InputError
from engine.link import Command, Request
from engine.people import ReviewState
from engine.store.tables import ReviewAction, ReviewKind
from tui.bindings import key
from tui.screens.base import ListScreen, Shell, ShellCommand, fault_passage
from tui.screens.dialogs import ChoiceOption, ChoiceScreen, LineQuestion, LineScreen
from tui.services.label_queue import write_beside
from tui.services.preferences import write_private
from tui.services.terminal import editor, show_file
from tui.services.ticker import begin
from tui.state.reviewing import (
    PRICE_ROW,
    STATE_INKS,
    PersonQueue,
    QueueKey,
    RowKind,
    detail_blocks,
)
from tui.state.run_status import Snapshot
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Piece, pad
from tui.widgets.lines import Entries, Entry

if TYPE_CHECKING:
    from engine.cli.reviewing import PersonReview
    from engine.pipeline.review.reviews import ReviewEntry, ReviewPage

READ_AGAIN_SECONDS: Final = 2.0
"""The least number of seconds between two checks for reviews by others."""
_LONGEST_REASON: Final = 1_000


class YourTurnScreen(ListScreen, inherit_bindings=False):
    """The queue, read off the event loop, and again when something was written. It is read from the
    store, as facts do not tell of reviews and labels. No letter approves or rejects at once: Enter
    asks what is to become of an item."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("e", "edit_entry", "edit", "change it in $EDITOR"),
        key("v", "scenario", "variants", "open its scenario, and what was played from it"),
        key("u", "undo_review", "undo", "take back what you did last"),
        key("backslash", "toggle_all", "all rows", "show what is reviewed too, or only what waits"),
    ]

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell)
        self._list = Entries(id="queue")
        self._person_queue = PersonQueue()
        self._source: PersonReview | None = None
        self._fault: str | None = None
        self._loaded = False
        self._reading = False
        self._written: tuple[object, ...] = ()
        """The version that was read."""
        self._read_at = float("-inf")
        self._last_in: str | None = None
        """The benchmark of the last action."""
        self._acting = asyncio.Lock()
        self._unwritten: set[str] = set()
        """Benchmarks whose files lack some of the actions taken here."""

    def parts(self) -> Sequence[Widget]:
        return [self._list, self._detail]

    def on_mount(self) -> None:
        self._list.focus()

    def on_screen_suspend(self) -> None:
        if self not in self.app.screen_stack:  # else a dialog lies over it
            self._write_files()

    def on_unmount(self) -> None:
        self._write_files()

    def _write_files(self) -> None:
        """Write all files, which takes longer the more there are."""
        source, names = self._source, sorted(self._unwritten)
        self._unwritten.clear()
        if source is not None:
            for name in names:
                write_beside(partial(source.write_files, name))

    @property
    def commands(self) -> Sequence[ShellCommand]:
        entry_at_cursor = self._at_cursor
        if entry_at_cursor is None:
            return []
        page, entry = entry_at_cursor
        return [ShellCommand("a", ("review", page.benchmark, "--approve", entry.id))]

    def hint(self, action: str) -> str | None:
        at_cursor = self._at_cursor
        match action:
            case "edit_entry" if at_cursor is not None:
                return "" if at_cursor[1].state is ReviewState.REJECTED else None
            case "scenario" if at_cursor is not None:
                return None if at_cursor[1].kind == ReviewKind.SCENARIO else ""
            case "edit_entry" | "scenario":
                return ""
            case "undo_review":
                return None if self._last_in or at_cursor else ""
            case "toggle_all":
                return "only waiting" if self._person_queue.shows_all else None
            case _:
                return None

    def draw(self, now: Snapshot) -> None:
        question = None if now.board is None else now.board.question
        if question != self._person_queue.price:
            self._person_queue.price = question
            self._show()
        if self.is_running and not self._reading:
            due = now.seconds - self._read_at >= READ_AGAIN_SECONDS
            if not self._loaded or (due and self._has_news()):
                self._read_at = now.seconds
                self._read_anew()
        self._draw_header()

    def on_cursor_view_moved(self) -> None:
        self.refresh_bindings()

    def on_cursor_view_opened(self) -> None:
        """Ask what is to become of an item; open the screen on which anything else is done."""
        row = self._list.cursor
        if not isinstance(row, QueueKey):
            return
        engine, navigator = self.shell.engine, self.shell.navigator
        match row.kind:
            case RowKind.PRICE:
                engine.ask_again()
            case RowKind.LABEL:
                engine.label(row.benchmark, navigator.open_label)
            case RowKind.DECIDE:
                engine.adjudicate(row.benchmark, navigator.open_disputes)
            case RowKind.ITEM if (opened := self._person_queue.at(row)) is not None:
                self._ask_what(*opened)
            case _:
                pass

    # What a person does

    def _ask_what(self, page: ReviewPage, entry: ReviewEntry) -> None:
        """Ask what is to become of an item, and do it."""
        acts: dict[ChoiceOption, Callable[[], None]] = {}
        is_rejected = entry.state is ReviewState.REJECTED
        if entry.state not in {ReviewState.APPROVED, ReviewState.BY_HAND}:
            option = _BRING_BACK if is_rejected else _APPROVE
            acts[option] = partial(self._begin, ReviewAction.APPROVE, page, entry)
        if not is_rejected:
            acts[_REJECT] = partial(self._reject, page, entry)
            acts[_EDIT] = self.action_edit_entry
            acts[_WRITE_AGAIN] = partial(self._write_again, page, entry)
        asked = [f"What becomes of {one_line(entry.id)}?", entry.in_short]

        def chosen(option: ChoiceOption | None) -> None:
            if option is not None:
                acts[option]()

        self.app.push_screen(ChoiceScreen(asked, list(acts)), chosen)

    def _reject(self, page: ReviewPage, entry: ReviewEntry) -> None:
        def reasoned(reason: str | None) -> None:
            if reason is not None:
                self._begin(ReviewAction.REJECT, page, entry, reason)

        self.app.push_screen(LineScreen(_why_rejected(entry.id)), reasoned)

    def _write_again(self, page: ReviewPage, entry: ReviewEntry) -> None:
        def noted(note: str | None) -> None:
            if note is not None:
                begin(self.app, partial(self._generate, page.benchmark, entry, note), "review")

        self.app.push_screen(LineScreen(_what_different(entry.id)), noted)

    def action_scenario(self) -> None:
        at_cursor = self._at_cursor
        if at_cursor is not None and at_cursor[1].kind == ReviewKind.SCENARIO:
            self.shell.navigator.open_scenario(at_cursor[0].benchmark, at_cursor[1].id)

    async def _generate(self, benchmark: str, entry: ReviewEntry, note: str) -> None:
        """Have an entry generated again, after asking about its price, as for any run."""
        if self._source is None:
            return
        self._last_in = benchmark
        try:
            order = await asyncio.to_thread(self._source.rewriting, benchmark, entry, note)
        except CrosswindError as error:
            self.shell.tell(str(error), bad=True)
            return
        self.shell.engine.ask(Request(Command.RUN, order=order))

    def action_edit_entry(self) -> None:
        if (at_cursor := self._at_cursor) is not None:
            begin(self, partial(self._edit, *at_cursor), "edit")

    def action_undo_review(self) -> None:
        cursor = self._list.cursor
        here = cursor.benchmark if isinstance(cursor, QueueKey) else None
        benchmark = self._last_in or here
        names = [page.benchmark for page in self._person_queue.pages]
        if benchmark is None and len(names) == 1:
            [benchmark] = names
        if benchmark is None:
            self.shell.tell("There is nothing to undo here.")
        else:
            begin(self.app, partial(self._act, benchmark, ReviewAction.UNDO), "review")

    def action_toggle_all(self) -> None:
        self._person_queue.shows_all = not self._person_queue.shows_all
        self._show()

    @property
    def _at_cursor(self) -> tuple[ReviewPage, ReviewEntry] | None:
        return self._person_queue.at(self._list.cursor)

    def _begin(
        self, action: ReviewAction, page: ReviewPage, entry: ReviewEntry, reason: str = ""
    ) -> None:
        """Begin an action; the cursor moves on before it is done."""
        self._person_queue.under_way.add(QueueKey(page.benchmark, entry.id))
        self._show()
        # by the app, which stays when this screen closes
        work = partial(self._act, page.benchmark, action, (entry,), reason)
        begin(self.app, work, "review")

    async def _act(
        self,
        benchmark: str,
        action: ReviewAction,
        entries: Sequence[ReviewEntry] = (),
        reason: str = "",
    ) -> None:
        async with self._acting:
            source = self._source
            if source is None:
                return
            # what others read meanwhile has it already
            before = self._person_queue.standing(benchmark)
            try:
                answer = await asyncio.to_thread(
                    source.act, benchmark, action, entries, reason=reason
                )
                self._last_in = benchmark
                self._unwritten.add(benchmark)
                self.shell.tell(answer)
            except CrosswindError as error:
                self.shell.tell(str(error), bad=True)
            finally:
                self._person_queue.under_way -= {QueueKey(benchmark, entry.id) for entry in entries}
                await self._read()
                if action is ReviewAction.UNDO and self.is_running:
                    self._go_to_changed(benchmark, before)

    def _go_to_changed(self, benchmark: str, before: Mapping[str, object]) -> None:
        """Move to the first row that has changed."""
        now = self._person_queue.standing(benchmark)
        changed = (QueueKey(benchmark, name) for name in now if now[name] != before.get(name))
        if any(map(self._list.go_to, changed)):
            self.draw_detail()

    async def _edit(self, page: ReviewPage, entry: ReviewEntry) -> None:
        source = self._source
        if source is None:
            return
        try:
            text = await asyncio.to_thread(source.text, entry)
            path = self.shell.preferences.draft(page.benchmark, entry.id)
            if await asyncio.to_thread(_is_begun, path, text):
                self.shell.tell(f"{entry.id}: what you wrote before it was cut off is back")
            answer = await self._edit_in_editor(source, page, entry, path, text)
            path.unlink(missing_ok=True)
            if answer is not None:
                self._last_in = page.benchmark
                self.shell.tell(answer)
        except (CrosswindError, OSError) as error:
            self.shell.tell(str(error), bad=True)
        await self._read()

    async def _edit_in_editor(
        self, source: PersonReview, page: ReviewPage, entry: ReviewEntry, path: Path, before: str
    ) -> str | None:
        """Edit an entry. Returns what was done; None if the user left it unchanged. Rejected text
        is offered again as they wrote it."""
        while True:
            await show_file(self.app, path, editor(os.environ))
            text = await asyncio.to_thread(path.read_text, "utf-8", "replace")
            if text == before:
                return f"nothing was changed in {entry.id}"
            try:
                async with self._acting:
                    act = partial(
                        source.act, page.benchmark, ReviewAction.EDIT, (entry,), text=text
                    )
                    self._unwritten.add(page.benchmark)
                    return await asyncio.to_thread(act)
            except InputError as error:
                again = ChoiceOption("e", "edit again", "what you wrote is still there")
                leave = ChoiceOption("n", "leave it", "it stays as it was")
                asked = [f"{entry.id} cannot be taken like this", *map(str, error.problems[:4])]
                if await self.app.push_screen_wait(ChoiceScreen(asked, (again, leave))) != again:
                    return None

    # What is read and seen

    def _version(self) -> tuple[object, ...]:
        """Another one when anything was written that is read here. Of an act the store has it a
        moment before the file. Raises `StoreError`."""
        files = [info.definition for info in self.watched.benchmarks if info.definition is not None]
        times = (path.stat().st_mtime_ns for path in files if path.exists())
        return (*self.watched.reader.waiting_seqs(), *times)

    def _has_news(self) -> bool:
        try:
            return self._version() != self._written
        except (CrosswindError, OSError):
            return False  # whoever reads says so

    def _read_anew(self) -> None:
        self._reading = True
        begin(self, self._read, "read")

    async def _read(self) -> None:
        self._reading = True
        try:
            self._written = self._version()
            source = self._source
            if source is None:
                source = self._source = await asyncio.to_thread(self.shell.engine.backend.review)
            self._person_queue.pages = await asyncio.to_thread(source.pages)
            self._person_queue.labels = await asyncio.to_thread(source.labels)
            self._fault = None
        except (CrosswindError, OSError) as error:
            self._fault = str(error)
        finally:
            self._reading, self._loaded = False, True
        if self.is_running:
            self._show()

    def _show(self) -> None:
        rows = list(self._person_queue.rows())
        self._list.show([self._entry(row) for row in rows])
        cursor = self._list.cursor
        if isinstance(cursor, QueueKey) and cursor.kind is RowKind.BENCHMARK:
            self._list.move_by(1)
        self.draw_detail()
        self._draw_header()
        self.refresh_bindings()

    def _entry(self, row: QueueKey) -> Entry:
        item = self._person_queue.at(row)
        if item is not None:
            return _item_entry(row, *item)
        if row.kind is RowKind.BENCHMARK:
            return Entry(row, [Piece(" "), Piece(one_line(row.benchmark), Ink.STRONG)])
        indent = " " if row == PRICE_ROW else "   "
        return Entry(row, [Piece(indent), Piece(self._task_words(row), Ink.WARN)])

    def _task_words(self, row: object) -> str:
        """What is to be done where a row is no item to review."""
        if row == PRICE_ROW:
            return display_text(self._person_queue.price or "")
        if not isinstance(row, QueueKey):
            return ""
        labels = self._person_queue.labels.get(row.benchmark)
        if labels is not None and row.kind is RowKind.LABEL:
            return f"{labels.to_label:,} of {plural(labels.sampled, 'conversation')} to label"
        if labels is not None and row.kind is RowKind.DECIDE:
            return f"{plural(labels.disputed, 'disagreement')} to decide"
        return ""

    def _draw_header(self) -> None:
        words = [Piece(*count) for count in self._person_queue.counts()]
        if not self._loaded:
            words = [Piece("reading", Ink.MUTED)]
        self.show_heading("Your turn", words)

    def detail(self) -> tuple[Hashable, Sequence[Block]]:
        at_cursor = self._at_cursor
        if at_cursor is None:
            return None, self._other_blocks()
        return (self._list.cursor, at_cursor[1].digest), detail_blocks(*at_cursor)

    def _other_blocks(self) -> list[Block]:
        if self._fault is not None:
            return [fault_passage(self._fault, "")]
        cursor = self._list.cursor
        if isinstance(cursor, QueueKey) and (told := _TOLD.get(cursor.kind)) is not None:
            return [
                Rule("task", self._task_words(cursor), "Enter opens", ink=Ink.STRONG),
                Passage("told", "", told, ink=Ink.MUTED),
            ]
        if not self._loaded or cursor is not None:
            return []
        words = "Nothing waits for a person."
        if any(page.entries for page in self._person_queue.pages):
            words += " \\ shows all there is."
        return [Passage("none", "", words, ink=Ink.MUTED)]


def _is_begun(path: Path, text: str) -> bool:
    """Whether an unfinished edit left another text than this. Raises `OSError`."""
    try:
        return path.read_text("utf-8", "replace") != text
    except FileNotFoundError:
        write_private(path, text)
        return False


_TOLD: Final = {
    RowKind.PRICE: "The run waits: it goes on where somebody agrees, and stops where nobody does.",
    RowKind.LABEL: "Blind: you see what the evaluator sees, and none of its verdicts. Your labels "
    "say how good the judge is.",
    RowKind.DECIDE: "People have labelled these conversations differently. What you decide counts.",
}
"""What a row is about that is no item to review."""
_APPROVE: Final = ChoiceOption("a", "approve", "conversations are played from it")
_BRING_BACK: Final = ChoiceOption("a", "bring back", "it is played and counted again")
_REJECT: Final = ChoiceOption("x", "reject", "asks why; neither played nor counted")
_EDIT: Final = ChoiceOption("e", "edit", "change it in $EDITOR")
_WRITE_AGAIN: Final = ChoiceOption("w", "have written again", "with your note; the old is kept")


def _item_entry(place: QueueKey, page: ReviewPage, entry: ReviewEntry) -> Entry:
    findings = len(page.findings.get(entry.id, ()))
    left = [
        Piece("   "),
        Piece(pad(one_line(entry.id), 14), Ink.ACCENT),
        Piece(pad(entry.word, 14), Ink.MUTED),
        Piece(entry.in_short),
    ]
    right = [Piece(f"{findings} found  ", Ink.WARN)] if findings else []
    if entry.state is not ReviewState.WAITS:
        right.append(Piece(str(entry.state), STATE_INKS[entry.state]))
    return Entry(place, left, [*right, Piece(" ")])


def _why_rejected(name: str) -> LineQuestion:
    return LineQuestion(
        f"Why is {one_line(name)} rejected?",
        "too dramatic, nobody would say that, …",
        "Enter rejects it",
        _LONGEST_REASON,
        required=True,
    )


def _what_different(name: str) -> LineQuestion:
    return LineQuestion(
        f"What should be different in {one_line(name)}?",
        "less dramatic, no illness, …",
        "Enter writes it again",
        _LONGEST_REASON,
        required=True,
    )
