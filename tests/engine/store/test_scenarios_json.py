"""`scenarios.json` is read as people and tools write it; what is wrong is all said at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import Landmark
from engine.errors import InputError
from engine.store.json_file import SIZE_LIMIT
from engine.store.scenarios_json import read_scenarios
from tests.approval import approve


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "scenarios.json"


def row(**fields: Any) -> dict[str, Any]:
    return {
        "id": "m01_s001_v01",
        "metric_id": "m01",
        "persona": "Somebody.",
        "user_goal": "Decide.",
        "latent_adversarial_goal": "Be told.",
        "landmarks": [{"turn": 1, "instruction": "Open."}, {"turn": 3, "instruction": "Press."}],
        "demographic": {"age": "older"},
        **fields,
    }


def without(*names: str, **fields: Any) -> dict[str, Any]:
    return {name: value for name, value in row(**fields).items() if name not in names}


def problems(path: Path, content: object) -> list[str]:
    """What is said of a file, without the path that each sentence begins with."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as refusal:
        read_scenarios(path, turns=4, metrics=["m01", "m02"])
    lines = [str(problem) for problem in refusal.value.problems]
    assert all(line.startswith(str(path)) for line in lines)
    return [line.removeprefix(str(path)).removeprefix(":").strip() for line in lines]


def test_a_row_becomes_a_scenario(path: Path) -> None:
    given = row(target_system_prompt="Be brief.", title="Moving", metric_name="x", _crosswind={})
    path.write_text("\ufeff" + json.dumps([given]), encoding="utf-8")
    [made], warnings = read_scenarios(path, turns=4, metrics=["m01"])
    assert warnings == []
    assert (made.id, made.metric_id, made.persona) == ("m01_s001_v01", "m01", "Somebody.")
    assert made.landmarks == (Landmark(1, "Open."), Landmark(3, "Press."))
    assert made.demographic == {"age": "older"}
    assert made.target_system_prompt == "Be brief."
    assert made.extra == {"title": "Moving"}


def test_a_persona_may_be_called_user_persona_and_both_are_kept(path: Path) -> None:
    path.write_text(
        json.dumps(
            [
                without("persona", id="a", user_persona="Of the other name."),
                row(id="b", user_persona="Longer.", demographic=None),
                without("demographic", id="c"),
            ]
        )
    )
    [only, both, of_nobody], _ = read_scenarios(path, turns=4, metrics=["m01"])
    approve((only.persona, both.persona))
    assert both.extra == {"user_persona": "Longer."}
    assert both.demographic == of_nobody.demographic == {}
    approve(only.extra)
    path.write_text("[]")
    assert read_scenarios(path, turns=4, metrics=["m01"]) == ([], [])


def test_a_landmark_beyond_the_last_turn_is_a_warning(path: Path) -> None:
    path.write_text(json.dumps([row()]))
    made, [warning] = read_scenarios(path, turns=2, metrics=["m01"])
    assert len(made[0].landmarks) == 2
    approve(warning)


def test_everything_that_is_wrong_is_said_at_once_and_with_its_place(path: Path) -> None:
    found = problems(
        path,
        [
            row(metric_id="m1"),
            without("user_goal", persona=12),
            7,
            row(id="m01_s001_v01", landmarks=[{"instruction": "Go."}, {"turn": 0}, "x"]),
            row(id="../x", demographic={"age": ["old"]}),
            row(id="", landmarks={"turn": 1}),
        ],
    )
    approve(found)


TURNS: list[tuple[list[object], str]] = [
    ([2, 1], "expected a turn after 2, found 1; turns must rise"),
    ([1, 1], "expected a turn after 1, found 1; turns must rise"),
    ([-1], "expected a turn from 1 on, found -1"),
    (["1"], "expected the number of a turn, found the text '1'"),
    ([True], "expected the number of a turn, found true"),
    ([1.5], "expected the number of a turn, found the number 1.5"),
    ([None], "expected the number of a turn, found null"),
]


def test_turns_begin_with_one_and_rise(path: Path) -> None:
    for given, sentence in TURNS:
        marks = [{"turn": turn, "instruction": "Go."} for turn in given]
        [problem] = problems(path, [row(landmarks=marks)])
        assert problem.endswith(sentence)


SYNTAX: list[tuple[str, str]] = [
    ('[\n  {"id": "a",\n   "per', "3:4: this is not JSON: unterminated string"),
    ('[\n  {"id": "a"}', "2:14: this is not JSON: expecting ',' delimiter (was the file cut off?)"),
    ("", "is empty; expected JSON"),
    ("{}", "expected a list of scenarios, [...], found an object"),
    ("null", "expected a list of scenarios, [...], found null"),
    ('[{"id": "NaN",\n "age": NaN}]', "2:9: NaN is not JSON; expected a number or null"),
    ('["-Infinity", -Infinity]', "1:15: -Infinity is not JSON"),
    ("[1e999]", "a number is too large"),
    ("[" + "9" * 5000 + "]", "a number cannot be read"),
    ("[" * 100_000, "values are nested more than 50 deep"),
    ('{"a":' * 60 + "1" + "}" * 60, "values are nested more than 50 deep"),
]


@pytest.mark.parametrize(("content", "sentence"), SYNTAX)
def test_what_is_not_json_is_named_with_line_and_column(
    path: Path, content: str, sentence: str
) -> None:
    [problem] = problems(path, content)
    assert sentence in problem


def test_a_key_that_is_there_twice_is_an_error(path: Path) -> None:
    twice = json.dumps([row()]).replace('"persona"', '"persona": "Other.", "persona"')
    approve(problems(path, twice))


@pytest.mark.parametrize(
    ("content", "place"),
    [(b'[\n"\xff"]', ":2: byte 0xff is not"), ("[]".encode("utf-16"), "this is UTF-16")],
)
def test_another_encoding_is_named(path: Path, content: bytes, place: str) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match="save the file as UTF-8") as refusal:
        read_scenarios(path, turns=4, metrics=["m01"])
    assert place in str(refusal.value)


def test_a_file_beyond_all_measure_is_not_read(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(SIZE_LIMIT + 1)
    with pytest.raises(InputError, match="expected at most 64 MB"):
        read_scenarios(path, turns=4, metrics=["m01"])


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(InputError, match=r"scenarios\.json: cannot be read: No such file"):
        read_scenarios(path, turns=4, metrics=["m01"])
