"""`benchmark.yaml`: what is read, what is refused, and what writing metrics leaves alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.benchmark import Metric, Track, When
from engine.config.benchmark_file import load_definition
from engine.config.write_back import write_metrics
from engine.config.yaml_text import parse_yaml
from engine.errors import InputError
from tests.approval import approve
from tests.engine.config.conftest import told

Write = Callable[[str | bytes], Path]
Refused = Callable[[Callable[[], object]], InputError]

HEAD = "name: Own view\ndescription: Whether it asks.\n"
ASKS = Metric("m01", "Asks first", Track.POSITIVE, "It asks what the person thinks.", ("And you?",))
DECIDES = Metric("m02", "Avoid deciding", Track.NEGATIVE, "It decides.\nAlone counts: yes.\n")
ODD = Metric(
    "m03",
    "no",
    Track.NEGATIVE,
    "It says so at length, and then once more at such length that the line has to be broken "
    "somewhere between two words.",
    ("12:30", "a: b # c", "- x", "é 😀", "tab\there", "nul\0", "'q'", '"', "2024-01-02", "~"),
)

KEPT = """\
# Why we measure this.
name:   "Own view"     # a title

contributor: Ana       # thanks!
description: >
  Whether it asks
  first.

metrics:   # by hand
# the first one
- id: m01    # stays
  name: 'Asks first'
  type: positive
  definition: It asks
    what the person thinks.
  examples: [ "And you?" ]
  metric_contributor: Ana

# the second one
- id: m02
  name: Avoid deciding
  type: restrain_harm   # the old word
  definition: |
    It decides.
    Alone counts: yes.
  source: {benchmark: old,   metric_id: 7}
# after the last

mattersBecause: people    matter   # end
"""


def test_a_benchmark_is_read_with_the_keys_of_others_left_in_peace(benchmark_file: Write) -> None:
    definition = load_definition(benchmark_file(KEPT))
    assert (definition.name, definition.title) == ("own-view", "Own view")
    approve(definition.description)
    assert definition.user_context is None
    assert definition.metrics == (ASKS, DECIDES)
    [warning] = definition.warnings
    approve(warning)


@pytest.mark.parametrize("tail", ["", "metrics:\n", "metrics: []\n", "scenario:\nmetrics: null\n"])
def test_metrics_may_be_missing(benchmark_file: Write, tail: str) -> None:
    assert load_definition(benchmark_file(HEAD + tail)).metrics == ()


def test_the_setting_is_read(benchmark_file: Write) -> None:
    text = HEAD + "scenario: {user_context: You are a clerk., place: here}\n"
    approve(load_definition(benchmark_file(text)).user_context)


def test_every_fault_of_a_benchmark_is_told_at_once(
    benchmark_file: Write, refused: Refused
) -> None:
    path = benchmark_file(
        """\
name: 3
descripton: x
metrics:
  - {id: m01, name: no, type: positve, definition: d, exampels: [x]}
  - {id: M01, name: n, type: positive}
  - {id: a/b, name: n, type: negative, definition: " "}
  - 4
scenario: {user_contxt: x}
"""
    )
    found = told(refused(lambda: load_definition(path)))
    assert {key: place[:2] for key, place in found.items()} == {
        "description": (1, 1),
        "name": (1, 7),
        "descripton": (2, 1),
        "metrics[0].name": (4, 21),
        "metrics[0].type": (4, 31),
        "metrics[0].exampels": (4, 55),
        "metrics[1].definition": (5, 5),
        "metrics[1].id": (5, 6),
        "metrics[2].id": (6, 10),
        "metrics[2].definition": (6, 52),
        "metrics[3]": (7, 5),
        "scenario.user_contxt": (8, 12),
    }
    approve(found["descripton"][2])
    approve(found["metrics[0].name"][2])
    approve(found["metrics[0].type"][2])
    approve(found["metrics[1].id"][2])
    approve(found["metrics[3]"][2])


@pytest.mark.parametrize("when", When)
def test_when_a_behaviour_must_hold_is_read_and_anywhere_is_left_out(
    benchmark_file: Write, when: When
) -> None:
    path = benchmark_file(f"{HEAD}metrics: []\n")
    metric = replace(ASKS, when=when)
    write_metrics(path, [metric])
    assert load_definition(path).metrics == (metric,)
    assert (f"  when: {when}\n" in path.read_text("utf-8")) is (when is not When.ANYWHERE)
    for other in (When.EVERY_REPLY, When.ANYWHERE):
        write_metrics(path, [replace(metric, when=other)])
        assert load_definition(path).metrics == (replace(metric, when=other),)


def test_an_unknown_time_at_which_to_hold_is_told_with_what_is_expected(
    benchmark_file: Write, refused: Refused
) -> None:
    lines = [
        f"  - {{id: m0{n}, name: n, type: positive, definition: d, when: {word}}}\n"
        for n, word in enumerate(("at_the_ent", "3", "often"), 1)
    ]
    path = benchmark_file(f"{HEAD}metrics:\n{''.join(lines)}")
    found = told(refused(lambda: load_definition(path)))
    expected = "`anywhere`, `at_the_end`, `under_pressure` or `every_reply`"
    assert [where[0] for where in found.values()] == [line + HEAD.count("\n") for line in (2, 3, 4)]
    approve(found["metrics[0].when"][2])
    assert f"found `often`, expected {expected}" in found["metrics[2].when"][2]
    approve(found["metrics[1].when"][2])


@pytest.mark.parametrize(
    ("key", "meant"),
    [("metrisc", "metrics"), ("metric", "metrics"), ("scenarios", "scenario"), ("nmae", "name")],
)
def test_a_slip_of_the_finger_is_no_key_of_somebody_else(
    benchmark_file: Write, refused: Refused, key: str, meant: str
) -> None:
    text = HEAD.replace("name:", "Name:") if meant == "name" else HEAD
    path = benchmark_file(f"{text}{key}: x\n")
    assert f"did you mean `{meant}`?" in told(refused(lambda: load_definition(path)))[key][2]


def test_a_key_near_one_that_stands_there_too_is_meant(benchmark_file: Write) -> None:
    load_definition(benchmark_file(HEAD + "descriptions: {de: x}\ntitle: x\nnote: y\ntags: [z]\n"))


@pytest.mark.parametrize(
    "before",
    [
        HEAD,
        HEAD.rstrip("\n"),
        HEAD + "metrics:\n",
        HEAD + "metrics: []   # none yet\nother: 1   # kept\n",
        HEAD + "metrics: null\n\n# end\n",
        HEAD + "metrics:\n  # - id: m01   an example\n\nother: 1\n",
        HEAD + "metrics: [\n]\nother: 1\n",
        HEAD + "...\n",
        "---\n" + HEAD + "list:\n- 1\n",
        HEAD.replace("\n", "\r\n") + "metrics: []\r\nother: 1\r\n",
        "\ufeff" + HEAD,
        "  name: Own view\n  description: |\n    Whether\n",
        "name: x\ndescription: |+\n  Whether it asks\n\n\n",
        "name: x\nlist: [1,\n  2]\ndescription: >-\n  Whether it\n  asks",
    ],
)
@pytest.mark.parametrize("metrics", [(ASKS,), (ASKS, DECIDES, ODD)], ids=["one", "three"])
def test_new_metrics_go_in_and_every_other_line_stays(
    benchmark_file: Write, before: str, metrics: tuple[Metric, ...]
) -> None:
    path = benchmark_file(before)
    old = load_definition(path)
    write_metrics(path, metrics)
    new = load_definition(path)
    assert new.metrics == metrics
    assert replace(new, metrics=(), description=new.description.rstrip("\n")) == replace(
        old, description=old.description.rstrip("\n")
    )
    now = path.read_bytes().decode()
    assert ("\r\n" in before) == ("\r\n" in now)
    assert now.replace("\r\n", "").count("\n") == (0 if "\r\n" in before else now.count("\n"))
    for line in before.splitlines():
        assert line.startswith(("metrics", "]")) or line in now.splitlines()
    assert "none yet" not in before or "metrics:   # none yet" in now


def test_what_is_written_reads_well(benchmark_file: Write) -> None:
    path = benchmark_file(HEAD)
    write_metrics(path, [ASKS, replace(DECIDES, examples=("Sign it.", "no")), ODD])
    approve(path.read_text("utf-8").split("- id: m03")[0])


def test_metrics_that_stand_keep_their_own_lines_byte_for_byte(benchmark_file: Write) -> None:
    path = benchmark_file(KEPT)
    write_metrics(path, [ASKS, DECIDES])
    assert path.read_text("utf-8") == KEPT
    write_metrics(path, [ASKS, DECIDES, replace(ASKS, id="m03", name="Other", definition="Else.")])
    added = "\n- id: m03\n  name: Other\n  type: positive\n  definition: Else.\n  examples:\n"
    marker = "metric_id: 7}\n"
    expected = KEPT.replace(marker, f"{marker}{added}  - And you?\n")
    assert path.read_text("utf-8") == expected


def test_an_edited_metric_keeps_its_comments_and_the_keys_of_others(benchmark_file: Write) -> None:
    path = benchmark_file(KEPT)
    write_metrics(path, [ASKS, replace(DECIDES, definition="It decides alone.")])
    assert path.read_text("utf-8") == KEPT.replace(
        "definition: |\n    It decides.\n    Alone counts: yes.\n",
        "definition: It decides alone.\n",
    )


def test_another_metric_under_an_old_id_takes_over_nothing(benchmark_file: Write) -> None:
    path = benchmark_file(KEPT)
    write_metrics(path, [Metric("m01", "Quite another", Track.NEGATIVE, "Something else.")])
    assert (
        path.read_text("utf-8")
        == KEPT[: KEPT.index("- id: m01")]
        + ("- id: m01\n  name: Quite another\n  type: negative\n  definition: Something else.\n")
        + KEPT[KEPT.index("# after the last") :]
    )


def test_metrics_within_brackets_are_kept_and_added_to(benchmark_file: Write) -> None:
    one = "{id: m01, name: n,   type: positive, definition: d, who: me}"
    path = benchmark_file(f"{HEAD}metrics: [{one}]  # short\nother: 1\n")
    [standing] = load_definition(path).metrics
    write_metrics(path, [standing, ODD])
    assert load_definition(path).metrics == (standing, ODD)
    assert f"metrics:  # short\n  - {one}\n" in path.read_text("utf-8")


def test_a_file_within_braces_is_written_too(benchmark_file: Write) -> None:
    path = benchmark_file("{name: Own view, description: Whether it asks., other: 1}\n")
    write_metrics(path, [ASKS, DECIDES, ODD])
    assert load_definition(path).metrics == (ASKS, DECIDES, ODD)
    assert parse_yaml(path.read_text("utf-8"), path).data["other"] == 1


def test_half_a_character_of_a_model_is_replaced(benchmark_file: Write) -> None:
    path = benchmark_file(HEAD)
    write_metrics(path, [replace(ASKS, definition="It \ud83d asks.", examples=("", "x"))])
    [metric] = load_definition(path).metrics
    assert (metric.definition, metric.examples) == ("It � asks.", ("x",))


def test_the_mode_stays_and_no_other_file_appears(benchmark_file: Write) -> None:
    path = benchmark_file(HEAD)
    path.chmod(0o640)
    write_metrics(path, [ASKS])
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.name for entry in path.parent.iterdir()] == ["benchmark.yaml"]


def test_a_link_is_followed_within_the_workspace_only(
    tmp_path: Path, benchmark_file: Write, refused: Refused
) -> None:
    root = tmp_path / "ours"
    folder = root / "benchmarks" / "own-view"
    folder.mkdir(parents=True)
    for real in (root / "shared.yaml", tmp_path / "outside.yaml"):
        real.write_text(HEAD, "utf-8")
    link = folder / "benchmark.yaml"
    link.symlink_to(root / "shared.yaml")
    write_metrics(link, [ASKS])
    assert link.is_symlink()
    assert load_definition(root / "shared.yaml").metrics == (ASKS,)
    link.unlink()
    link.symlink_to(tmp_path / "outside.yaml")
    approve(str(refused(lambda: write_metrics(link, [ASKS]))))


@pytest.mark.parametrize(
    ("metrics", "key"),
    [
        ((ASKS, replace(DECIDES, id="M01")), "metrics[1].id"),
        ((replace(ASKS, id="../x"),), "metrics[0].id"),
        ((replace(ASKS, definition=" \n"),), "metrics[0].definition"),
    ],
)
def test_metrics_that_could_not_be_read_again_are_not_written(
    benchmark_file: Write, refused: Refused, metrics: tuple[Metric, ...], key: str
) -> None:
    path = benchmark_file(HEAD)
    assert list(told(refused(lambda: write_metrics(path, metrics)))) == [key]


def test_a_faulty_or_missing_file_is_not_written(
    tmp_path: Path, benchmark_file: Write, refused: Refused
) -> None:
    path = benchmark_file("name: x\nmetrics: [\n")
    assert told(refused(lambda: write_metrics(path, [ASKS])))[None][:2] == (3, 1)
    gone = tmp_path / "benchmarks" / "x" / "benchmark.yaml"
    assert "no such file" in str(refused(lambda: write_metrics(gone, [ASKS])))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every folder")
def test_a_folder_that_may_not_be_written_says_so(benchmark_file: Write) -> None:
    path = benchmark_file(HEAD)
    path.parent.chmod(0o500)
    with pytest.raises(InputError, match="nothing was changed"):
        write_metrics(path, [ASKS])
    path.parent.chmod(0o700)
