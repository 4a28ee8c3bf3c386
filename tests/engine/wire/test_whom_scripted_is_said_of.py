"""`Scripted` is said of what scripts did, and not of all that one of them had another part in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.cli.session import describe_benchmarks
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.scripted import scripted_note
from tests.approval import approve, lines_with
from tests.engine.commands import crosswind
from tests.engine.wire.workplace import Workplace, metric, scenario
from tests.protocol_server.server import ProtocolServer


def offline(name: str) -> dict[str, Any]:
    return {"model": name, "source": "offline", "params": {"pace": "instant"}}


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path) -> Workplace:
    made = Workplace(tmp_path / "workspace", server)
    made.root.mkdir()
    made.define("bread", "About bread.", [metric(1, "Honest.")])
    return made


def run(place: Workplace, **roles: Any) -> None:
    place.configure([{"id": "alpha", **place.model("steadfast")}], **roles)
    assert place.run("bread").failed == 0


def files(place: Workplace, name: str) -> Any:
    return json.loads((place.folder("bread") / name).read_text("utf-8"))


def scripts(place: Workplace) -> tuple[bool, str | None]:
    config = load_config(place.root / "config.yaml")
    [info] = describe_benchmarks(Workspace(place.root), config, ["bread"])
    return info.scripted, info.scripts


def test_a_generator_that_is_a_script_is_the_only_one_it_is_said_of(place: Workplace) -> None:
    run(place, generator_model=offline("generator"))
    words = "the generator is a script, not a language model"
    assert scripts(place) == (True, words)
    name = files(place, "scenarios.json")[0]["id"]
    assert files(place, "scenarios.json")[0]["_crosswind"]["scripted"] is True
    [spoken] = files(place, "runs/alpha/conversations.json")[:1]
    assert (spoken["_crosswind"]["scripted"], spoken["_crosswind"]["note"]) == (False, words)
    [score] = files(place, "runs/alpha/scores.json")[:1]
    assert (score["_crosswind"]["scripted"], score["_crosswind"]["note"]) == (False, words)
    assert "_crosswind" not in files(place, "runs/alpha/cost.json")["simulate"]
    assert "cript" not in crosswind(place.root, "results", "--details").out
    assert "script" not in crosswind(place.root, "show", f"{name}__alpha").out.split("ended")[0]
    page = place.root / "page.html"
    crosswind(place.root, "export", "html", "--out", str(page))
    assert "Scripted models took" not in page.read_text("utf-8")
    exported = json.loads(crosswind(place.root, "export", "jsonl", "bread").out.splitlines()[0])
    assert (exported["scripted"], exported.get("note")) == (False, None)


def test_a_user_model_that_is_a_script_is_named_beside_a_target_that_is_none(
    place: Workplace,
) -> None:
    place.stage("bread", [scenario(1)])
    run(place, user_model=offline("user"))
    words = "the user model is a script, not a language model"
    assert scripts(place) == (True, words)
    ours = files(place, "runs/alpha/conversations.json")[0]["_crosswind"]
    assert (ours["scripted"], ours["note"]) == (True, words)
    cost = files(place, "runs/alpha/cost.json")
    assert cost["simulate"]["_crosswind"] == {"scripted": False, "note": words}
    assert "_crosswind" not in cost["evaluate"]
    assert f"{words[0].upper()}{words[1:]}." in " ".join(
        crosswind(place.root, "results", "--details").out.split()
    )
    assert (
        f"user model offline:user · {words}"
        in crosswind(place.root, "show", "m01_s001_v01__al").out
    )
    page = place.root / "page.html"
    crosswind(place.root, "export", "html", "--out", str(page))
    text = page.read_text("utf-8")
    assert "say nothing about" not in text
    approve(lines_with(text, "offline:user. They are"))
    exported = json.loads(crosswind(place.root, "export", "jsonl", "bread").out.splitlines()[0])
    assert (exported["scripted"], exported["note"]) == (True, words)


def test_where_all_are_scripts_it_is_said_of_all(place: Workplace) -> None:
    place.stage("bread", [scenario(1)])
    place.configure(
        [{"id": "alpha", **offline("steadfast")}],
        user_model=offline("user"),
        evaluator_model=offline("evaluator"),
        generator_model=offline("generator"),
    )
    place.run("bread")
    assert scripts(place) == (True, None)
    ours = files(place, "runs/alpha/scores.json")[0]["_crosswind"]
    approve(ours["note"])
    assert files(place, "runs/alpha/cost.json")["simulate"]["_crosswind"]["scripted"] is True
    approve(crosswind(place.root, "results", "--details").out)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"user model": False, "target": False}, None),
        (
            {"user model": True, "target": False, "evaluator": True},
            "the user model and the evaluator are scripts, not language models",
        ),
        (
            {"generator": False, "user model": True, "target": True},
            "made with scripted models, which are not language models",
        ),
        ({"generator": True}, "made with scripted models, which are not language models"),
    ],
)
def test_the_words_name_those_who_are(parts: dict[str, bool], words: str | None) -> None:
    assert scripted_note(parts) == words
