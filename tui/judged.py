"""How verdicts are told: each with what it says, and where its quotes stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from engine.benchmark import Track
from engine.display import drawn, one_line
from engine.store.records import Quote, StoredVerdict
from tui.widgets.blocks import Block, Passage, Rule
from tui.widgets.ink import Ink
from tui.wording import verdict

VERDICT_INKS: Final[Mapping[bool | None, Ink]] = {True: Ink.GOOD, False: Ink.BAD, None: Ink.WARN}


def verdict_blocks(verdicts: Sequence[StoredVerdict]) -> list[Block]:
    """The newest first. One whose judge has given another since is said to be older."""
    seen: set[tuple[str, str, int]] = set()
    blocks: list[Block] = []
    for each in reversed(verdicts):
        voter = (each.source, each.judge, each.number)
        blocks += one_verdict(each, replaced=voter in seen)
        if each.passed is not None:
            seen.add(voter)
    return blocks


def one_verdict(given: StoredVerdict, *, replaced: bool = False) -> list[Block]:
    again = f", pass {given.number + 1}" if given.number else ""
    by = f"{one_line(given.judge)}{again}"
    ink = Ink.FAINT if replaced else VERDICT_INKS[given.passed]
    note = "judged again since" if replaced else ""
    blocks: list[Block] = [
        Rule(("verdict", given.seq), f"{verdict(given.passed)}  by {by}", note, ink=ink)
    ]
    if given.served_by is not None:
        text = f"{one_line(given.served_by)}, not the model that was asked"
        blocks.append(Passage(("served", given.seq), "from", text, Ink.WARN, Ink.WARN))
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
