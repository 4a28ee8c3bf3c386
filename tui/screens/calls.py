"""The calls behind a conversation's messages: what was asked, how long it took, what came back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from engine.benchmark import Speaker
from engine.display import display_text, one_line, plural
from engine.errors import CrosswindError
from tui.bindings import key
from tui.format import SPEAKER_NAMES, UNKNOWN, money
from tui.screens.base import Shell, WatchingScreen, fault_passage
from tui.screens.failures import attempt_blocks
from tui.services.ticker import begin
from tui.state.related import Subject, TakeRef
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import Ink, Piece
from tui.widgets.lines import OneLine
from tui.widgets.transcript import TranscriptView

if TYPE_CHECKING:
    from engine.pipeline.provenance import MessageCall, TakeCalls
    from engine.store.tables import AttemptRow


class CallsScreen(WatchingScreen, inherit_bindings=False):
    """One message at a time. It is read once: what is shown of a take's messages never changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("right_square_bracket", "next_call", "next", "the next message"),
        key("left_square_bracket", "previous_call", "previous", "the previous message"),
    ]

    def __init__(self, shell: Shell, shown: TakeRef, turn: int, speaker: Speaker) -> None:
        super().__init__(shell)
        self._shown = shown
        self._begin_at = (turn, speaker)
        self._at = 0
        self._found: TakeCalls | None = None
        self._fault: str | None = None
        self._title = OneLine(id="title")
        self._story = TranscriptView(follow=False, id="story")

    @property
    def subject(self) -> Subject:
        return Subject(self._shown.benchmark, self._shown.key)

    def parts(self) -> Sequence[Widget]:
        return [self._title, self._story]

    def on_mount(self) -> None:
        self._story.focus()
        self._show()
        begin(self, self._read, "calls")

    def hint(self, action: str) -> str | None:
        if action in {"next_call", "previous_call"}:
            return None if len(self._calls) > 1 else ""
        return None

    def action_next_call(self) -> None:
        self._step(1)

    def action_previous_call(self) -> None:
        self._step(-1)

    @property
    def _calls(self) -> Sequence[MessageCall]:
        return () if self._found is None else self._found.calls

    def _step(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._calls) - 1))
        self._show()

    async def _read(self) -> None:
        try:
            self._found = await asyncio.to_thread(self.shell.engine.backend.calls, *self._shown)
        except CrosswindError as error:
            self._fault = str(error)
        places = [(call.turn, call.speaker) for call in self._calls]
        self._at = places.index(self._begin_at) if self._begin_at in places else 0
        if self.is_running:
            self._show()
            self.refresh_bindings()

    def _show(self) -> None:
        words = [Piece(one_line(self._shown.benchmark), Ink.MUTED)]
        self.show_heading("Calls", words)
        title = [Piece(f" {one_line(str(self._shown.key))}", Ink.STRONG)]
        if not self._calls:
            self._title.show(title)
            self._story.show_another(self._nothing(), follow=False)
            return
        call = self._calls[self._at]
        title.append(Piece(f"  turn {call.turn}, {SPEAKER_NAMES[call.speaker]}", Ink.ACCENT))
        self._title.show(title, [Piece(f"{self._at + 1} of {len(self._calls)} ", Ink.MUTED)])
        changed = None if self._found is None else self._found.changed
        self._story.show_another(list(call_blocks(call, changed)), follow=False)

    def _nothing(self) -> list[Block]:
        if self._fault is not None:
            return [fault_passage(self._fault, "")]
        words = "Reading the store." if self._found is None else "No message was asked for yet."
        return [Passage("nothing", "", words, ink=Ink.MUTED)]


def call_blocks(call: MessageCall, changed: str | None) -> Iterator[Block]:
    """How the call for a message went, its request and its answer. `changed` says what the request
    is made from that has changed since."""
    yield from _figures(call)
    yield Rule("answer", "the answer as received", _finish_words(call), ink=Ink.STRONG)
    yield from _answer(call)
    note = f"{changed} since" if changed else "made again from what is stored"
    yield Rule("request", "the request", note, ink=Ink.STRONG)
    if not call.request:
        words = "It cannot be made again: the files no longer have its metric or target."
        if not call.attempts:
            words = "None was made here: it was taken from files."
        yield Passage("no request", "", words, ink=Ink.MUTED)
        return
    for place, asked in enumerate(call.request):
        yield Passage(("asked", place), asked.role.value, display_text(asked.text))


def _figures(call: MessageCall) -> Iterator[Block]:
    answered = next((each for each in reversed(call.attempts) if each.outcome == "answer"), None)
    if answered is not None:
        yield Passage("tokens", "tokens", _token_words(answered), close=True)
        yield Passage("time", "time", _time_words(answered), close=True)
        served = answered.served or answered.model
        route = f", by way of {answered.route}" if answered.route else ""
        asked = f"{answered.model} was asked, {served} answered{route}"
        same = f"{answered.model}{route}"
        ink = Ink.WARN if answered.is_other else Ink.TEXT
        text = one_line(asked if served != answered.model else same)
        yield Passage("model", "model", text, ink=ink, close=True)
    yield Passage("attempts", "attempts", plural(len(call.attempts), "attempt"))
    if len(call.attempts) > 1 or answered is None:
        yield from attempt_blocks(call.attempts)


def _token_words(attempt: AttemptRow) -> str:
    usage = attempt.usage
    sent = UNKNOWN if usage.input_tokens is None else f"{usage.input_tokens:,}"
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    received = UNKNOWN if usage.output_tokens is None else f"{usage.output_tokens:,}"
    cost = money(usage.cost_usd, scripted=usage.cost_usd == 0)
    return f"{sent} sent{cached}, {received} received, {cost}"


def _time_words(attempt: AttemptRow) -> str:
    whole = f"the whole answer after {attempt.duration_ms / 1000:.1f} s"
    if attempt.first_token_ms is None:
        return whole
    return f"the first word after {attempt.first_token_ms / 1000:.1f} s, {whole}"


def _finish_words(call: MessageCall) -> str:
    return "" if call.message is None else one_line(call.message.finish)


def _answer(call: MessageCall) -> Iterator[Block]:
    message = call.message
    if message is not None:
        parts = (
            ("reasoning", message.reasoning, Ink.THOUGHT),
            ("thought", message.thought, Ink.THOUGHT),
            ("message", message.text, Ink.TEXT),
        )
        for label, text, ink in parts:
            if text:
                yield Passage(("answer", label), label, display_text(text), ink=ink)
        return
    for answer in call.unusable:
        yield Passage(("fault", answer.seq), "fault", display_text(answer.fault), Ink.WARN)
        said = display_text(answer.answer)
        yield Passage(("unusable", answer.seq), f"{answer.role} said", said)
    if not call.unusable:
        yield Passage("none", "", "No answer came.", ink=Ink.MUTED)
