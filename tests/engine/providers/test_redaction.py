"""A key that a server echoes is taken out, in whatever spelling."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import partial
from urllib.parse import quote, quote_plus

import pytest

from engine.providers.redaction import LONGEST, Redactor
from tests.waiting import assert_quick

KEY = "sk-canary/0123+4567=89ab cdef"
PLAIN = "abcdef0123456789"


@pytest.mark.parametrize("key", [KEY, PLAIN])
@pytest.mark.parametrize(
    "spelled",
    [
        lambda key: key,
        lambda key: quote(key, safe=""),
        quote_plus,
        lambda key: base64.b64encode(key.encode()).decode(),
        lambda key: base64.urlsafe_b64encode(key.encode()).decode(),
        lambda key: base64.b64encode(f"Bearer {key}".encode()).decode(),
        lambda key: base64.b64encode(f"x{key}".encode()).decode(),
        lambda key: key.encode().hex(),
        lambda key: json.dumps({"key": key}),
        lambda key: f"Authorization: Bearer {key}",
        lambda key: f"{key[:9]}****{key[-4:]}",
        lambda key: f"{key[:8]}…",
        lambda key: f"...{key[-4:]}",
        lambda key: f"Key Hash (Token) ={hashlib.sha256(key.encode()).hexdigest()}",
    ],
)
def test_no_spelling_of_a_key_is_left(key: str, spelled: object) -> None:
    assert callable(spelled)
    echo = spelled(key)
    shown = Redactor([key])(f"you sent {echo} to us")
    assert "[hidden]" in shown
    assert shown.startswith("you sent ")
    assert key[:8] not in shown
    assert key[-4:] not in shown
    inner = base64.b64encode(key.encode()).decode()[4:12]
    assert inner not in shown


def test_what_looks_like_anybodys_key_is_taken_out_too() -> None:
    redact = Redactor([])
    assert redact("wrong key sk-proj-0123456789") == "wrong key [hidden]"
    assert redact("wrong key abc***wxyz") == "wrong key [hidden]"


def test_plain_words_stay_as_they_are() -> None:
    assert (
        Redactor([KEY])("The task-list model is\n not there.")
        == "The task-list model is not there."
    )


def test_half_a_character_is_replaced() -> None:
    assert Redactor([])("a \ud83d b") == "a ? b"


def test_a_long_text_is_cut() -> None:
    assert len(Redactor([])("word " * 1000)) == LONGEST


def test_it_does_not_show_what_it_hides() -> None:
    assert KEY not in repr(Redactor([KEY]))


@pytest.mark.parametrize("spelled", [lambda key: key, lambda key: key.encode().hex(), quote_plus])
@pytest.mark.parametrize("shift", [0, 1, 2, 3, 7, 20])
def test_no_cut_leaves_a_part_of_a_key(spelled: object, shift: int) -> None:
    """Echoes of a long key fill what is looked through, so that its cut falls into the last."""
    assert callable(spelled)
    key = "".join(f"{number:03x}" for number in range(300))
    shown = Redactor([key])(" " * shift + f"{spelled(key)} " * 20)
    assert shown.split("[hidden]") == ["", *[" "] * (shown.count("[hidden]") - 1), ""]


def test_a_word_without_end_takes_no_time() -> None:
    redact = Redactor([KEY])
    for piece in ("a", "sk-", "bearer ", "*", "a.", "sk", "b**"):
        assert_quick(partial(redact, piece * (1_000_000 // len(piece))), 0.1)
