"""How other conversations of a scenario went, each with the passage that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.display import one_line
from engine.store.browsing import Browser, RelatedTake
from tui.format import verdict
from tui.text.blocks import Block, Passage, Rule
from tui.text.ink import VERDICT_INKS, Ink

MOST: Final = 12
"""The most that are listed."""


def other_conversations(
    title: str, takes: Sequence[RelatedTake], browser: Browser, judges: Sequence[str]
) -> list[Block]:
    """The outcome of each of the first `takes` that were judged, its id, and on one row what shows
    it, or else the reason; nothing without any. `judges` are those whose verdicts count. Raises
    `StoreError`."""
    judged = [take for take in takes if take.judged]
    rows = browser.rows([take.take_seq for take in judged[:MOST]], judges)
    blocks: list[Block] = []
    for take in judged[:MOST]:
        row = rows.get(take.take_seq)
        if row is None:
            continue
        shown = row.verdict
        why = shown.justification if shown.quote is None else f"“{shown.quote}”"
        why = why if shown.unscored is None else shown.unscored
        name, ink = one_line(str(take.key)), VERDICT_INKS[take.passed]
        outcome = "unscored" if take.passed is None else verdict(take.passed)
        blocks += [
            Passage(("other", name), outcome, name, ink, close=True),
            Passage(("other why", name), "", one_line(why), ink=Ink.MUTED, folded=True, close=True),
        ]
    if not blocks:
        return []
    note = f"{MOST} of {len(judged)}" if len(judged) > MOST else ""
    return [Rule("others", title, note), *blocks]
