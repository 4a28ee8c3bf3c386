"""What is being said, piece by piece as it comes, is what it is as a whole."""

from __future__ import annotations

import random

from engine.benchmark import ConversationKey, Speaker
from engine.display import display_text
from engine.facts import Speech
from tests.tui.theatre import BENCHMARK, ScriptedLink, Voice
from tui.state.related import TakeRef
from tui.state.transcript import Dialogue, Thoughts
from tui.text.blocks import Passage

KEY = ConversationKey("m01_s001_v01", "steadfast")
PIECES = [
    "\x1b[31m",
    "word ",
    "\t",
    "\n",
    "\n\n",
    "\r\n",
    "a\u0301\u0302\u0303",
    "\u0304\u0305",
    "但是",
    "\u202e",
    "—",
]


def said(dialogue: Dialogue) -> str:
    [text] = [
        block.text
        for block in dialogue.blocks(thoughts=Thoughts.FOLDED)
        if isinstance(block, Passage) and block.growing
    ]
    return text


def test_what_is_heard_in_pieces_is_drawn_as_the_whole_would_be() -> None:
    rng = random.Random(3)
    link = ScriptedLink()
    voice = Voice(Speech(BENCHMARK, KEY, 0, 1, Speaker.TARGET, None, 0.0))
    link.voices[KEY] = voice
    dialogue = Dialogue(TakeRef(BENCHMARK, KEY, 0), 2)

    for _ in range(300):
        voice.text += rng.choice(PIECES)
        assert dialogue.listen(link)
        assert said(dialogue) == display_text(voice.text)


def test_a_message_that_begins_anew_leaves_nothing_of_the_one_before() -> None:
    link = ScriptedLink()
    link.voices[KEY] = Voice(
        Speech(BENCHMARK, KEY, 0, 1, Speaker.TARGET, None, 0.0), "one line\nand half of"
    )
    dialogue = Dialogue(TakeRef(BENCHMARK, KEY, 0), 2)
    dialogue.listen(link)
    link.voices[KEY] = Voice(Speech(BENCHMARK, KEY, 0, 1, Speaker.TARGET, None, 1.0), "anew")
    dialogue.listen(link)

    assert said(dialogue) == "anew"
    assert not dialogue.wordless
