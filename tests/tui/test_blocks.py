"""A document of blocks: what changed is found, and growing is the same as being written anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.approval import approve
from tests.waiting import assert_quick
from tui.text.blocks import Block, Document, Passage, Rule
from tui.text.ink import Ink, Line, Styled

REPLY = """## Two things

- **What you feel** after that week, `worn out` and *not seen* by anyone at all
- What you decide

```python
say("- not a list")
```
And 但是我还是觉得应该谨慎一点 👩‍👩‍👧 at the end of it all, in a row that is long enough to wrap."""

LANDMARK = Passage("mark", "landmark", "Says that a friend disagrees. " * 3, close=True, aside=True)


def said(text: str, *, growing: bool = False) -> Passage:
    return Passage("reply", "target", text, gutter=Ink.TARGET, light_markdown=True, growing=growing)


def lines(document: Document) -> list[Line]:
    return [document.line(row) for row in range(document.height)]


def texts(document: Document) -> list[str]:
    return ["".join(piece.text for piece in line).rstrip() for line in lines(document)]


def inks(document: Document, text: str) -> set[Ink]:
    return {piece.ink for line in lines(document) for piece in line if text in piece.text}


@pytest.mark.parametrize("width", [46, 120])
def test_a_growing_passage_is_drawn_like_one_that_was_always_whole(width: int) -> None:
    rng = random.Random(5)
    grown = Document(width, rail=True)
    length = 0

    while length < len(REPLY):
        length = min(length + rng.randint(1, 9), len(REPLY))
        blocks: list[Block] = [Rule("turn", "turn 1"), LANDMARK]
        blocks.append(said(REPLY[:length], growing=True))
        grown.set(blocks)
        whole = Document(width, rail=True)
        whole.set(blocks)
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

    [found] = document.marks(Ink.EVIDENCE)

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


def test_a_landmark_stands_on_the_rail_where_there_is_one_and_above_its_message_elsewhere() -> None:
    blocks: list[Block] = [
        Rule("one", "turn 1"),
        LANDMARK,
        said("yes " * 60),
        Rule("two", "turn 2"),
    ]
    wide, narrow = Document(120, rail=True), Document(80, rail=True)
    wide.set(blocks)
    narrow.set(blocks)

    assert texts(wide)[1].split() == ["target", "▎", *["yes"] * 19, "│", "landmark"]
    approve(texts(wide)[2])
    approve(texts(narrow)[1])
    assert max(map(len, texts(wide))) <= 120


def test_what_is_on_the_rail_never_reaches_into_the_next_turn() -> None:
    document = Document(120, rail=True)
    blocks: list[Block] = [Rule("one", "turn 1"), LANDMARK, said("yes"), Rule("two", "turn 2")]
    document.set(blocks[:2])
    alone = texts(document)
    document.set(blocks)

    assert [text for text in alone if "│" in text] == [" " * 92 + text for text in ON_RAIL]
    told = texts(document)
    assert [text[92:] for text in told if "│" in text] == ON_RAIL
    assert document.rules() == [0, 1 + len(ON_RAIL)]
    assert told[-1].strip() == "turn 2 " + "─" * 112


ON_RAIL = [
    "│ landmark",
    "│ Says that a friend",
    "│ disagrees. Says that a",
    "│ friend disagrees. Says",
    "│ that a friend disagrees.",
]


def test_what_has_moved_is_drawn_where_it_is_now() -> None:
    document = Document(46)
    document.set([said("word " * 30), Rule("second", "turn 2")])

    assert (
        document.set([Rule("first", "turn 1"), said("word " * 30), Rule("second", "turn 2")]) == 0
    )
    assert texts(document)[0].strip().startswith("turn 1")
    assert texts(document)[1].startswith(" target    ▎ word")


def test_marks_that_overlap_are_all_drawn() -> None:
    document = Document(110)
    text = "one two three four five"
    found = Styled(text.index("two"), text.index("four") + 4, Ink.EVIDENCE)
    within = Styled(text.index("three"), text.index("three") + 5, Ink.FOUND)
    document.set([replace(said(text), marks=(found, within))])

    assert inks(document, "two") == {Ink.EVIDENCE}
    assert inks(document, "three") == {Ink.FOUND}
    assert inks(document, "four") == {Ink.EVIDENCE}
    assert [mark.number for mark in document.marks(Ink.FOUND)] == [1]


def test_a_line_without_end_is_no_markdown_and_costs_a_page_no_more() -> None:
    def last_page() -> list[Line]:
        document = Document(110)
        document.set([said("**bold**" * 100_000)])
        return [document.line(row) for row in range(document.height - 40, document.height - 1)]

    assert_quick(last_page, 1)
    pieces = [piece for line in last_page() for piece in line]
    assert {piece.ink for piece in pieces if "bold" in piece.text} == {Ink.TEXT}


def test_a_folded_passage_is_one_row() -> None:
    document = Document(46)
    document.set([Passage("p", "persona", "word\n" * 100, folded=True)])

    assert document.height == 2
    assert max(map(len, texts(document))) < 46
