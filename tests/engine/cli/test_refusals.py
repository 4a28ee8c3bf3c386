"""What `run` refuses before its first call, `doctor`, `status` and `--dry-run` say too, in the same
words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import CONFIG, small_workspace

REAL = 'source: openai, base_url: "http://127.0.0.1:1/v1", apikey: "${NOT_THERE}"'
KEYED = REAL.replace("${NOT_THERE}", "${PATH_KEY}")
PRICED = "price: {input: 1, output: 1}"
CROSSED = f"""\
run: {{budget: 2}}
user_model: {{model: one, {KEYED}, {PRICED}}}
evaluator_model: {{model: two, {KEYED}}}
generation: {{scenarios_per_metric: 1, turns: 2}}
conditions: [{{id: bare, system_prompt: ""}}, {{id: ours, system_prompt: Be kind.}}]
targets:
  - {{id: alpha, model: three, {KEYED}, {PRICED}}}
  - {{id: beta, model: four, {KEYED}}}
"""
UNDER_PRESSURE = "    type: positive\n    when: under_pressure\n"


@pytest.mark.parametrize(
    ("config", "benchmark", "said"),
    [
        (
            CROSSED,
            {},
            "config.yaml:3:18: evaluator_model: run.budget needs the price of every model, and "
            "that of 'two', 'four' (targets[1], line 8) is not known",
        ),
        (
            CONFIG.replace("turns: 2", "turns: 1"),
            {"    type: positive\n": UNDER_PRESSURE},
            "benchmark.yaml:9:11: metrics[0].when: m01 must hold `under_pressure`, from the second "
            "landmark on, and none is reached with `generation.turns: 1` in config.yaml",
        ),
        (
            CONFIG.replace("user, source: offline, params: {pace: instant}", f"one, {REAL}")
            .replace("evaluator, source: offline, params: {pace: instant}", f"two, {REAL}"),
            {},
            "model one, model two: the variable NOT_THERE is not set",
        ),
        (
            CONFIG,
            {"name: Giving in   # a title": "name: [x]"},
            "benchmark.yaml:2:7: name: ",
        ),
    ],
    ids=["a budget without prices", "pressure", "a key", "a slip in a file"],
)  # fmt: skip
def test_each_says_it_once_and_alike(
    config: str,
    benchmark: dict[str, str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH_KEY", "k")
    place = small_workspace(tmp_path, config)
    for old, new in benchmark.items():
        place.edit(place.benchmark, old, new)
    for command in (*COMMANDS, ("run", "--yes", "--headless")):
        told = crosswind(place.root, *command).words
        assert told.count(said) == 1, (command, told)


COMMANDS = (("doctor",), ("status",), ("run", "--dry-run"))
RUN = ("run", "--yes", "--headless")


def test_a_run_without_its_store_is_refused_wherever_it_is_planned(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    place.run()
    place.store.unlink()
    said = "but files of `giving-in` hold what was run here"
    for command in (*COMMANDS, RUN):
        told = crosswind(place.root, *command)
        assert told.words.count(said) == 1, (command, told)
    dry = crosswind(place.root, "run", "--dry-run", code=2)
    approve(dry.err)
    approve(dry.out)
    assert said not in crosswind(place.root, "run", "--dry-run", "--anew", code=0).words
    for words in (("--headless", "--yes"), ("--dry-run",)):
        told = crosswind(place.root, "validate", "giving-in", "--swap", "stance", *words, code=2)
        assert told.words.count(said) == 1, (words, told)


def test_what_nobody_has_allowed_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is part of a model's name and address, without which there is no plan."""
    monkeypatch.delenv("CROSSWIND_TRUST", raising=False)
    for name in ("OPENAI_API_KEY", "PATH_KEY"):
        monkeypatch.setenv(name, "secret")
    odd = 'source: openai, base_url: "http://127.0.0.1:1/${PATH_KEY}/v1"'
    place = small_workspace(tmp_path, CONFIG)
    place.run()
    places = {
        "{model: evaluator, source: offline, params: {pace: instant}}": f"{{model: two, {odd}}}",
        "{model: user, source: offline, params: {pace: instant}}": (
            f'{{model: "m-${{OPENAI_API_KEY}}", {odd}}}'
        ),
    }
    for old, new in places.items():
        place.edit(place.config, old, new)
    for command in (("status",), ("run", "--dry-run"), ("run", "--force", "--yes", "--headless")):
        told = crosswind(place.root, *command).words
        assert told.count("nobody has allowed") == 1, (command, told)
        assert "secret" not in told


def test_all_that_a_run_refuses_is_said_at_once_and_in_one_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = small_workspace(tmp_path)
    place.run()
    place.store.unlink()
    place.config.write_text(CROSSED, "utf-8")
    monkeypatch.setenv("PATH_KEY", "k")
    crosswind(place.root, "new", "another", code=0)
    refused = crosswind(place.root, *RUN, code=2).err
    assert refused == crosswind(place.root, "run", "--dry-run", code=2).err
    lines = [line.removeprefix("crosswind: ") for line in refused.splitlines()]
    parts = ("crosswind.db is missing", "still the template", "needs the price")
    for line, part in zip(lines, parts, strict=True):
        assert part in line
    status = crosswind(place.root, "status", "--json", code=0).json()
    assert status["refused"] == lines
    told = crosswind(place.root, "status", code=0).words
    assert "crosswind run` goes" not in told
