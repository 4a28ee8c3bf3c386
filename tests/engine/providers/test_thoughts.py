"""Thoughts that a model writes into its reply are told from it."""

from __future__ import annotations

import pytest

from engine.providers.protocols.base import ThoughtSplitter, split_unopened_thought


def split(text: str, size: int) -> tuple[str, str]:
    """What is said, and what is thought, where the text comes in pieces of this size."""
    splitter = ThoughtSplitter()
    said = "".join(splitter.feed(text[n : n + size]) for n in range(0, len(text), size))
    return said + splitter.close(), "".join(splitter.thoughts)


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("Hello.", "Hello.", ""),
        ("<think>Hm.</think>Hello.", "Hello.", "Hm."),
        ("\n<think>\nHm.\n</think>\n\nHello.\n", "Hello.\n", "\nHm.\n"),
        ("<think>a < b </thin k></think>x", "x", "a < b </thin k>"),
        ("<think>never ends", "", "never ends"),
        ("<think></think>Hello.", "Hello.", ""),
        ("<thinker> is a word", "<thinker> is a word", ""),
        ("<thin", "<thin", ""),
        ("  x", "  x", ""),
        ("Say <think>no</think>.", "Say <think>no</think>.", ""),
        ("<think>a</think>b<think>c</think>", "b<think>c</think>", "a"),
    ],
)
def test_only_thoughts_at_the_beginning_are_taken_out(
    text: str, said: str, thought: str, size: int
) -> None:
    assert split(text, size) == (said, thought)


def test_a_reply_whose_opening_mark_the_server_wrote_itself_is_cut_at_the_closing_one() -> None:
    assert split_unopened_thought("Let me see.</think>\nHello.") == ("Let me see.", "Hello.")
    assert split_unopened_thought("Hello.") is None
    assert split_unopened_thought("Say <think>no</think>.") is None
