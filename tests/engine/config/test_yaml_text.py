"""YAML files of every bad kind are refused at the exact place, and none crashes the process."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from engine.config.yaml_text import MAX_BYTES, Position, dotted_path, parse_yaml, read_yaml
from engine.errors import InputError
from tests.approval import approve

Write = Callable[[str | bytes], Path]
Refused = Callable[[Callable[[], object]], InputError]


def place_and_text(error: InputError) -> tuple[int | None, int | None, str]:
    [problem] = error.problems
    return problem.line, problem.column, problem.what


def test_every_value_has_its_place_and_every_key_its_own(config_file: Write) -> None:
    document = read_yaml(config_file("a: 1\ntargets:\n  - {id: x, é: [ü, 2]}\n"))
    assert document.data == {"a": 1, "targets": [{"id": "x", "é": ["ü", 2]}]}
    assert document.place(("targets", 0, "id")) == Position(3, 10)
    assert document.key_place(("targets", 0, "id")) == Position(3, 6)
    assert document.place(("targets", 0, "é", 1)) == Position(3, 20)
    assert document.place(("targets", 0, "missing", "deep")) == Position(3, 5)
    assert document.value(("targets", 0, "é", 1)) == 2
    assert document.value(("targets", 4, "id")) is None


def test_a_dotted_key_reads_as_people_write_it() -> None:
    assert dotted_path(("targets", 0, "params", "seed")) == "targets[0].params.seed"
    assert dotted_path(("a\x1b[31m",)) == "a�[31m"


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("a: [1, 2\nb: 3\n", 1, 4, "`[` that opens here is never closed"),
        ("a: {b: 1\n", 1, 4, "`{` that opens here is never closed"),
        ("x: 1\na: 'x\nb: 3\n", 2, 4, "quotation mark that opens here is never closed"),
        ("a: b: c\n", 1, 5, "needs quotes"),
        ("a:\n\t- x\n", 2, 1, "a tab cannot indent"),
        ("a: 1\n\tb: 2\n", 2, 1, "a tab cannot indent"),
        ('a: "\\ud83d"\n', 1, 7, "this escape names no character"),
        ("a: @x\n", 1, 4, "cannot begin with `@`"),
        ("a:\n  - x\n - y\n", 3, 2, "does not fit the lines around it"),
        ("a: 1\nb\nc: 1\n", 2, 1, "no `:`"),
        ("é: 'ü' : x\n", 1, 8, "`:` stands where no key can be"),
        ("a: 1\n---\nb: 1\n", 2, 1, "second document"),
        ("? [a]\n: 1\n", 1, 3, "not a plain word"),
        ("a\x00b: 1\n", 1, 2, "U+0000"),
        ("x: 1\na: \x1b[2J\n", 2, 4, "U+001B"),
        ("- a\n", 1, 1, "found a list"),
        ("only words\n", 1, 1, "found a single value"),
        ("a: 1\nb: 2\n'a': 3\n", 3, 1, "twice, first on line 1"),
        ("a: {x: 1,\n  x: 2}\n", 2, 3, "twice, first on line 1"),
        ("b: *y\n", 1, 4, "`*y` is an alias"),
        ("a: &x [1]\n", 1, 4, "`&x` is an anchor"),
        ("&x a: 1\n", 1, 1, "`&x` is an anchor"),
        ("a: !!python/object/apply:os.system [ls]\n", 1, 4, "the tag `!!python/object"),
        ("a: !foo 1\n", 1, 4, "the tag `!foo`"),
        ("a: !!binary aGk=\n", 1, 4, "the tag `!!binary`"),
        ("a: 2024-13-45\n", 1, 4, "takes this for a date"),
        ("a: " + "9" * 5000 + "\n", 1, 4, "takes this for a number"),
    ],
)
def test_a_fault_is_told_at_its_place(
    config_file: Write, refused: Refused, text: str, line: int, column: int, says: str
) -> None:
    path = config_file(text)
    found = place_and_text(refused(lambda: read_yaml(path)))
    assert found[:2] == (line, column)
    assert says in found[2]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "a: " + "[" * 100_000 + "]" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000 + "x",
        "".join(" " * depth + "a:\n" for depth in range(1_900)),
    ],
    ids=["flow list", "closed flow list", "flow mapping", "block list", "block mapping"],
)
def test_deep_nesting_is_refused_and_does_not_crash(
    config_file: Write, refused: Refused, text: str
) -> None:
    path = config_file(text)
    line, _, what = place_and_text(refused(lambda: read_yaml(path)))
    assert "deeper than 50 levels" in what
    assert line == (52 if text.startswith("a:\n") else 1)


def test_fifty_levels_are_still_read(config_file: Write) -> None:
    assert read_yaml(config_file("a: " + "[" * 49 + "]" * 49)).data["a"] is not None


def test_aliases_that_multiply_are_never_built(config_file: Write, refused: Refused) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    path = config_file("\n".join(rows))
    error = refused(lambda: read_yaml(path))
    assert len(error.problems) == 81
    assert (error.problems[1].line, error.problems[1].column) == (2, 5)


def test_all_faults_that_reading_survives_are_told_at_once(
    config_file: Write, refused: Refused
) -> None:
    path = config_file("a: 1\na: 2\nb: &x 1\nc: !t 1\n")
    error = refused(lambda: read_yaml(path))
    assert [(problem.line, problem.key) for problem in error.problems] == [
        (2, "a"),
        (3, "b"),
        (4, "c"),
    ]


@pytest.mark.parametrize("text", ["", "# nothing but a note\n", "---\n", "\ufeff"])
def test_an_empty_file_is_called_empty(config_file: Write, refused: Refused, text: str) -> None:
    path = config_file(text)
    approve(str(refused(lambda: read_yaml(path))))


def test_a_missing_file_a_folder_and_a_pipe_are_told_apart(
    tmp_path: Path, refused: Refused
) -> None:
    os.mkfifo(tmp_path / "pipe")
    missing = tmp_path / "config.yaml"
    approve(str(refused(lambda: read_yaml(missing))))
    approve(str(refused(lambda: read_yaml(tmp_path))))
    with pytest.raises(InputError, match="not a regular file"):
        read_yaml(tmp_path / "pipe")
    approve(str(refused(lambda: read_yaml(Path("a\0b")))))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_says_so(config_file: Write) -> None:
    path = config_file("a: 1")
    path.chmod(0)
    with pytest.raises(InputError, match="no permission"):
        read_yaml(path)


def test_a_huge_file_is_refused(config_file: Write, refused: Refused) -> None:
    path = config_file(b"a: " + b"x" * MAX_BYTES)
    assert "larger than 2 MiB" in str(refused(lambda: read_yaml(path)))


def test_a_file_of_countless_values_is_refused(config_file: Write, refused: Refused) -> None:
    path = config_file("a: [" + "1," * 50_000 + "]")
    assert "more than 20,000 values" in str(refused(lambda: read_yaml(path)))


def test_a_byte_order_mark_moves_no_place(config_file: Write) -> None:
    document = read_yaml(config_file(b"\xef\xbb\xbfa: 1\n"))
    assert document.data == {"a": 1}
    assert document.place(("a",)) == Position(1, 4)


def test_bytes_that_are_not_utf_8_are_named_by_their_offset(
    config_file: Write, refused: Refused
) -> None:
    path = config_file("a: é\nb: ".encode() + b"\xff\n")
    line, column, what = place_and_text(refused(lambda: read_yaml(path)))
    assert (line, column) == (2, 4)
    approve(what)
    path = config_file("a: 1".encode("utf-16"))
    assert "UTF-16" in str(refused(lambda: read_yaml(path)))


def test_windows_line_ends_are_read(config_file: Write) -> None:
    document = read_yaml(config_file("a: 1\r\nb: |\r\n  x\r\n  y\r\n"))
    assert document.data == {"a": 1, "b": "x\ny\n"}
    assert document.place(("b",)) == Position(2, 4)


def test_a_key_is_what_is_written_and_a_value_what_yaml_makes_of_it() -> None:
    document = parse_yaml("no: no\n1: 2024-01-02\n<<: {a: =}\n", Path("x"))
    assert document.data == {"no": False, "1": date(2024, 1, 2), "<<": {"a": "="}}
    assert document.written == {("no",): "no", ("1",): "2024-01-02"}


def test_a_document_shows_nothing_of_what_it_holds() -> None:
    assert "canary" not in repr(parse_yaml("apikey: canary", Path("config.yaml")))
