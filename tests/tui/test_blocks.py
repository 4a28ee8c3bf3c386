"""A document of blocks: what changed is found, and growing is the same as being written anew."""

from __future__ import annotations

import random
from dataclasses import replace

from tui.widgets.blocks import Block, Document, Passage, Rule
from tui.widgets.ink import Ink, Line, Styled

REPLY = """## Two things

- **What you feel** after that week, `worn out` and *not seen* by anyone at all
- What you decide

```python
say("- not a list")
```
And 但是我还是觉得应该谨慎一点 👩‍👩‍👧 at the end of it all, in a row that is long enough to wrap."""


def said(text: str, *, growing: bool = False) -> Passage:
    return Passage("reply", "target", text, gutter=Ink.TARGET, light_markdown=True, growing=growing)


def lines(document: Document) -> list[Line]:
    return [document.line(row) for row in range(document.height)]


def texts(document: Document) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in lines(document)]


def inks(document: Document, text: str) -> set[Ink]:
    return {piece.ink for line in lines(document) for piece in line if text in piece.text}


def test_a_growing_passage_is_drawn_like_one_that_was_always_whole() -> None:
    rng = random.Random(5)
    grown = Document(46)
    length = 0

    while length < len(REPLY):
        length = min(length + rng.randint(1, 9), len(REPLY))
        grown.set([Rule("turn", "turn 1"), said(REPLY[:length], growing=True)])
        whole = Document(46)
        whole.set([Rule("turn", "turn 1"), said(REPLY[:length], growing=True)])
        assert lines(grown) == lines(whole)


def test_only_the_rows_from_the_last_one_on_have_changed() -> None:
    document = Document(46)
    text = "one two three four five six seven eight nine ten"
    document.set([Rule("turn", "turn 1"), said(text, growing=True)])

    assert document.set([Rule("turn", "turn 1"), said(text, growing=True)]) is None
    assert document.set([Rule("turn", "turn 1"), said(text + " eleven", growing=True)]) == 2


def test_the_stored_message_replaces_the_live_one_without_another_row_changing() -> None:
    document = Document(46)
    document.set([said(REPLY, growing=True)])
    before = lines(document)

    first = document.set([said(REPLY)])

    assert first == len(before) - 2  # its last row, which loses the mark that says it is growing
    assert lines(document)[:first] == before[:first]


def test_blocks_that_go_are_noticed() -> None:
    document = Document(46)
    blocks: list[Block] = [Rule("a", "a"), Rule("b", "b"), Rule("c", "c")]
    document.set(blocks)

    assert document.set(blocks[:2]) == 2
    assert document.height == 2


def test_labels_stand_beside_the_text_and_above_it_where_there_is_no_room() -> None:
    document = Document(46)
    document.set([replace(said("yes"), gutter=None)])
    assert texts(document) == [" target    yes", ""]

    document.resize(20)
    assert texts(document) == ["target", "yes", ""]


def test_light_markdown_keeps_every_character_and_gives_it_an_ink() -> None:
    document = Document(110)
    document.set([said(REPLY)])

    assert any("## Two things" in text for text in texts(document))
    assert inks(document, "Two things") == {Ink.STRONG}
    assert inks(document, "What you feel") == {Ink.STRONG}
    assert inks(document, "worn out") == {Ink.CODE}
    assert inks(document, "not a list") == {Ink.CODE}
    assert inks(document, "What you decide") == {Ink.TEXT}


def test_marks_are_drawn_and_found_by_their_rows() -> None:
    document = Document(40)
    text = "one two three four five six seven eight nine ten"
    mark = Styled(text.index("six"), text.index("eight") + 5, Ink.EVIDENCE)
    document.set([Rule("turn", "turn 1"), replace(said(text), marks=(mark,))])

    [found] = document.marks()

    first, last = document.mark_rows(found)
    marked = [
        piece.text
        for row in range(first, last)
        for piece in document.line(row, found)
        if piece.ink is Ink.EVIDENCE_NOW
    ]
    assert " ".join(marked).split() == ["six", "seven", "eight"]


def test_a_place_is_found_again_after_a_change_of_width() -> None:
    document = Document(46)
    document.set([said("word " * 200), Rule("second", "turn 2"), said("later " * 50)])
    place = document.locate(document.rules()[0])

    document.resize(90)

    assert place is not None
    assert document.find(place) == document.rules()[0]


def test_a_folded_passage_is_one_row() -> None:
    document = Document(46)
    document.set([Passage("p", "persona", "word\n" * 100, folded=True)])

    assert document.height == 2
    assert max(map(len, texts(document))) < 46
