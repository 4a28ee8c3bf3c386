"""Keys: where they are looked for, and that none is shown when something is wrong with one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.config.secrets import Environment, Secret
from engine.errors import InputError
from engine.trust import NOWHERE
from tests.approval import approve

CANARY = "sk-canary-0123456789"


def environment(
    root: Path, dotenv: str | bytes | None = None, environ: Mapping[str, str] | None = None
) -> Environment:
    if dotenv is not None:
        content = dotenv.encode() if isinstance(dotenv, str) else dotenv
        (root / ".env").write_bytes(content)
    return Environment(root, environ or {})


def test_the_environment_comes_first_and_then_the_file(tmp_path: Path) -> None:
    known = environment(tmp_path, "A=file\nB=file\nC=file\n", {"A": "shell", "B": ""})
    approve(known.resolve("${A} ${B}-${C} $A {B}", where="x", to=NOWHERE))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("export KEY=abc", "abc"),
        ("KEY='a b'", "a b"),
        ('KEY="a#b"  # note', "a#b"),
        ("KEY=a$HOME${OTHER}", "a$HOME${OTHER}"),
        ("\ufeffKEY=abc\r", "abc"),
        ("  KEY = abc  ", "abc"),
    ],
)
def test_lines_of_the_file_are_read_as_people_write_them(
    tmp_path: Path, line: str, value: str
) -> None:
    known = environment(tmp_path, f"{line}\nOTHER=1\n", {"HOME": "/x"})
    assert known.resolve("${KEY}", where="x", to=NOWHERE) == value


def test_the_file_is_read_once_and_late(tmp_path: Path) -> None:
    known = environment(tmp_path)
    (tmp_path / ".env").write_text("A=1")
    assert known.resolve("${A}", where="x", to=NOWHERE) == "1"
    (tmp_path / ".env").write_text("A=2")
    assert known.resolve("${A}", where="x", to=NOWHERE) == "1"


def test_every_missing_variable_is_named_with_where_it_was_looked_for(tmp_path: Path) -> None:
    known = environment(tmp_path, "A=1\nnot a line\nB=\n")
    with pytest.raises(InputError) as caught:
        known.resolve(
            f"{CANARY} ${{A}} ${{B}} ${{C}} ${{C}}", where="targets[0].apikey", to=NOWHERE
        )
    first, second = (str(problem) for problem in caught.value.problems)
    approve(first)
    approve(second)
    assert str(tmp_path / ".env") in second
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"), [(b"A=\xff", "offset 2"), (b"A=" + b"x" * 2**20, "larger than 1 MiB")]
)
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(InputError, match=says):
        environment(tmp_path, content).resolve("${B}", where="x", to=NOWHERE)


def test_a_folder_in_place_of_the_file_says_so(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    with pytest.raises(InputError, match="not a file"):
        environment(tmp_path).resolve("${B}", where="x", to=NOWHERE)


def test_a_key_is_ready_to_be_sent(tmp_path: Path) -> None:
    known = environment(tmp_path, environ={"KEY": f" {CANARY}\n"})
    assert known.key(Secret("${KEY}"), where="x", to=NOWHERE) == CANARY
    assert known.header(Secret("Bearer ${KEY}"), where="x", to=NOWHERE) == f"Bearer  {CANARY}"


def test_a_key_that_cannot_be_sent_is_refused_unseen(tmp_path: Path) -> None:
    told = []
    for key in ("sk-canary\r\nX: y", "sk-canary é", "sk-canary\x1b", "sk-ca nary", "  "):
        known = environment(tmp_path, environ={"KEY": key})
        with pytest.raises(InputError) as caught:
            known.key(Secret("${KEY}"), where="targets[0].apikey", to=NOWHERE)
        told.append(str(caught.value))
    approve("\n".join(told))


def test_a_secret_shows_and_pickles_nothing() -> None:
    secret = Secret(CANARY)
    assert "canary" not in f"{secret} {secret!r} {[secret]} {secret!s:>20}"
    assert secret.template == CANARY
    assert copy.deepcopy(secret) is secret
    assert secret == Secret(CANARY) != Secret("other")
    assert not hasattr(secret, "__dict__")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(AttributeError):
        secret.template = "x"  # type: ignore[misc]  # that it cannot be assigned is what is tested


def test_a_secret_knows_whether_it_only_refers_to_a_key() -> None:
    assert Secret("${A_1}").is_reference
    assert not Secret("Bearer ${A}").is_reference
    assert not Secret("$A").is_reference
    assert Secret("${A}:${B}").variables == ("A", "B")


def test_an_environment_shows_and_pickles_nothing(tmp_path: Path) -> None:
    known = environment(tmp_path, f"A={CANARY}", {"B": CANARY})
    assert known.holds("A")
    assert "canary" not in repr(known)
    with pytest.raises(TypeError):
        pickle.dumps(known)
