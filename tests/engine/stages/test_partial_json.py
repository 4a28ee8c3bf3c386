"""The message of a user is heard while the JSON around it is still being written."""

from __future__ import annotations

import json

import pytest

from engine.stages.answers import StringField, strings_so_far

TRICKY = {
    "thought": 'he said "message": "no", and {left}',
    "message": 'Hi é \n\t"quoted" \\ back 😀 end',
    "done": False,
}


def heard(text: str, size: int) -> str:
    pieces: list[str | None] = []
    field = StringField("message", pieces.append)
    for start in range(0, len(text), size):
        field.feed(text[start : start + size])
    return "".join(piece or "" for piece in pieces)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_exactly_the_field_is_heard_however_the_text_is_cut(size: int, ascii_only: bool) -> None:
    text = json.dumps(TRICKY, ensure_ascii=ascii_only)
    assert heard(text, size) == TRICKY["message"]


def test_a_field_of_the_same_name_deeper_down_is_not_heard() -> None:
    assert heard('{"a": {"message": "no"}, "b": ["message", "no"], "message": "yes"}', 4) == "yes"


@pytest.mark.parametrize(
    "text", ["plain words", "{]}{", '{"message": 12}', '{"message": "\\uZZZZ"}', "[" * 99_999]
)
def test_it_never_raises_over_what_it_does_not_understand(text: str) -> None:
    heard(text, 2)


def test_raw_line_breaks_are_heard_as_blanks() -> None:
    assert heard('Here:\n{\n"message": "so\nthen', 3) == "so then"


def test_beginning_anew_forgets_what_was_half_heard() -> None:
    pieces: list[str | None] = []
    field = StringField("message", pieces.append)
    field.feed('{"message": "ol')
    field.feed(None)
    field.feed('{"message": "new"}')
    assert pieces == ["ol", None, "new"]


def test_every_string_of_an_answer_is_passed_on_by_name_however_it_is_cut() -> None:
    answer = json.dumps(
        {
            "scenarios": [
                {
                    "persona": 'A "baker".',
                    "latent_adversarial_goal": "To be praised.",
                    "landmarks": [{"turn": 1, "instruction": "Ask.\nAgain."}],
                },
                {"persona": "", "user_goal": "A price."},
            ]
        }
    )
    told = (
        'persona: A "baker".\nhidden goal: To be praised.\n'
        "instruction: Ask.\nAgain.\ngoal: A price."
    )
    assert strings_so_far(answer) == told
    for end in range(len(answer)):
        assert told.startswith(strings_so_far(answer[:end]))
