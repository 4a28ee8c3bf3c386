"""The numbers in which servers say how long a reply may be."""

from __future__ import annotations

import pytest

from engine.providers.capabilities import TokenLimits, room_in


@pytest.mark.parametrize(
    ("message", "room"),
    [
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum"
            " context length is 2048 tokens and your request has 30 input tokens"
            " (8192 > 2048 - 30).",
            TokenLimits(2018, 1024, 2048),
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 8222 tokens"
            " (30 in the messages, 8192 in the completion). Please reduce the length.",
            TokenLimits(2018, 1024, 2048),
        ),
        (
            "This model's maximum context length is 2048 tokens. However, you requested 8192 output"
            " tokens and your prompt contains at least 1 input tokens, in all at least 8193",
            TokenLimits(1024, 1024, 2048),
        ),
        ("Requested tokens (8222) exceed context window of 2048", TokenLimits(1024, 1024, 2048)),
        (
            "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000, decrease",
            TokenLimits(1000, 100000, 200000),
        ),
        (
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for x",
            TokenLimits(4096, 4096, None),
        ),
        (
            "max_tokens is too large: 8192. This model supports at most 4096 completion tokens.",
            TokenLimits(4096, 4096, None),
        ),
        ("max_tokens must be less than or equal to `4096`", TokenLimits(4096, 4096, None)),
        ("temperature must be at most 2", None),
        ("the prompt is too long", None),
        ("context length is " + "9" * 5000, None),
        ("", None),
    ],
)
def test_the_room_for_a_reply_is_read_from_a_refusal(
    message: str, room: TokenLimits | None
) -> None:
    assert room_in(message) == room
