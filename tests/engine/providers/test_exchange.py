"""What is passed on of a reply while it is spoken."""

from __future__ import annotations

import pytest

from engine.providers.exchange import LONGEST_REPLY, Voice
from engine.providers.sse import OversizedError


def speak(*pieces: str) -> tuple[str, list[str | None]]:
    """The text in the end, and what a listener was told."""
    told: list[str | None] = []
    voice = Voice(told.append, clock=lambda: 0.0)
    for piece in pieces:
        voice.heard(piece)
    voice.ended()
    return "".join(voice.spoken), told


def test_pieces_are_passed_on_as_they_come() -> None:
    assert speak("Hel", "", "lo.") == ("Hello.", ["Hel", "lo."])


def test_thoughts_are_not_passed_on() -> None:
    assert speak("<thi", "nk>Hm.</th", "ink>\n", "Hello.") == ("Hello.", ["Hello."])


def test_thoughts_without_their_opening_mark_are_taken_back() -> None:
    assert speak("Hm.", "</think>", "Hello.") == (
        "Hello.",
        ["Hm.", "</think>", "Hello.", None, "Hello."],
    )


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["\ud83d\ude00"], "😀"),
        (["a\ud83d", "b"], "a\ufffdb"),
        (["a\ud83d"], "a\ufffd"),
        (["a\ude00b"], "a\ufffdb"),
        (["größer 🌍"], "größer 🌍"),
    ],
)
def test_half_a_character_waits_for_the_other(pieces: list[str], text: str) -> None:
    whole, told = speak(*pieces)
    assert whole == text
    assert "".join(piece for piece in told if piece) == text


def test_a_reply_has_a_largest_size() -> None:
    with pytest.raises(OversizedError):
        speak(*["x" * 65536] * (LONGEST_REPLY // 65536 + 1))
