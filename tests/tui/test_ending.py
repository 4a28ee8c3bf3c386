"""What the end of a conversation is stamped with: what counts, and why."""

from __future__ import annotations

import asyncio

import pytest

from engine.jury import Jury
from engine.store.tables import Quote
from tests.tui.theatre import BENCHMARK, JUDGE, Theatre
from tui.state.explanations import end_words, verdict_stamp
from tui.state.related import TakeRef
from tui.state.transcript import Dialogue
from tui.text.blocks import Rule

QUOTES = (Quote("I would not skip it", 2),)


async def judged(theatre: Theatre, *given: tuple[str, bool | None]) -> Dialogue:
    await theatre.prepare()
    take = await theatre.play()
    for judge, passed in given:
        await theatre.judge(
            take, judge=judge, passed=passed, quotes=QUOTES, justification=f"{judge} says so."
        )
    dialogue = Dialogue(TakeRef(BENCHMARK, take.key, take.number), 2)
    dialogue.load(theatre.watch.reader)
    return dialogue


@pytest.mark.parametrize(
    ("given", "end", "told"),
    [
        ([], "ended", []),
        ([("a", True)], "ended  ✓ pass", ["✓ pass  + m01|", "“I would not skip it” (turn 2)"]),
        # of behaviour that is absent, judges quote what comes nearest to it: that shows nothing
        ([("a", False)], "ended  ✗ fail", ["✗ fail  + m01|", "a says so."]),
        ([("a", None)], "ended  · unscored", ["· unscored  + m01|", "no quote was found"]),
        (
            [("a", False), ("b", True)],
            "ended  · unscored",
            ["· unscored  + m01|", "judges are tied"],
        ),
        (
            [("a", False), ("b", True), ("c", False)],
            "ended  ✗ fail",
            ["✗ fail  + m01|2 of 3 verdicts", "c says so."],
        ),
        # whoever is not of the jury has no say
        (
            [(JUDGE, False), ("b", True), ("c", True)],
            "ended  ✗ fail",
            ["✗ fail  + m01|", f"{JUDGE} says so."],
        ),
    ],
)
def test_it_is_what_counts_and_what_shows_it(
    theatre: Theatre, given: list[tuple[str, bool | None]], end: str, told: list[str]
) -> None:
    dialogue = asyncio.run(judged(theatre, *given))
    jury = Jury((JUDGE,))
    blocks = verdict_stamp(dialogue, jury, None)
    assert [
        f"{block.title}|{block.note}" if isinstance(block, Rule) else block.text for block in blocks
    ] == told
    words = end_words(dialogue, jury, awaited=False)
    assert "".join(piece.text for piece in words) == end
