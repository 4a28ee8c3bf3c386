"""The rules by which files of every age are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import ConversationKey, Stage, StopReason
from tests.approval import approve
from tests.engine.importing.building import (
    Ours,
    Theirs,
    conversation,
    problems,
    scenario,
    score,
    transcript,
)

KEY = "sk-canary-0123456789abcdef"


def test_rows_join_on_id_target_and_sample_under_every_name(theirs: Theirs, ours: Ours) -> None:
    rows: dict[str, dict[str, Any]] = {
        "m01_s001_v01__gpt-x__s2": {"sample": 2},
        "m01_s001_v01__gpt-x__s1": {"_sample": 1},
        "m01_s001_v01__gpt-x__s3": {"_sample": "3"},
        "m01_s001_v01__other": {"_sample": None, "target_model": "other"},
        "m01_s001_v01__inner": {"target_model": None, "target": {"id": "inner", "model": "m"}},
        "m01_s001_v01__gpt-x": {"target_model": None},
    }
    theirs.add_run([conversation(**row) for row in rows.values()], [])
    report = ours.take_in(theirs.root)
    assert sorted(ours.said()) == sorted(rows)
    assert problems(report) == []


def test_a_score_finds_its_conversation_by_either_name_of_the_sample(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run(
        [conversation(_sample=0), conversation(_sample=1, transcript=transcript(about="a dog"))],
        [score(sample=0), {**score(passed=False, present=False), "_sample": 1, "sample": None}],
    )
    ours.take_in(theirs.root)
    assert ours.verdicts() == [
        ("m01_s001_v01__gpt-x", ("m01", True, True, None)),
        ("m01_s001_v01__gpt-x__s1", ("m01", False, False, None)),
    ]


def test_the_type_of_a_metric_is_what_the_benchmark_says_and_never_the_row(
    theirs: Theirs, ours: Ours
) -> None:
    row = score("m02_s001_v01", metric_type="positive", present=True)
    del row["passed"]
    theirs.add_run([conversation("m02_s001_v01")], [row])
    ours.take_in(theirs.root)
    assert ours.verdicts() == [("m02_s001_v01__gpt-x", ("m02", True, False, None))]


PASSED: list[tuple[dict[str, Any], bool | None]] = [
    ({"passed": False, "score": 1, "present": True}, False),
    ({"passed": None, "score": 0.0, "present": True}, False),
    ({"passed": None, "score": None, "present": True}, True),
    ({"passed": None, "score": None, "present": "no"}, False),
    ({"passed": "true", "present": None}, True),
    ({"passed": "No", "present": None}, False),
    ({"passed": None, "present": None}, None),
    ({"passed": None, "present": "null"}, None),
]


def test_passed_goes_before_score_and_score_before_present(theirs: Theirs, ours: Ours) -> None:
    names = [f"m01_s00{number}_v01" for number in range(len(PASSED))]
    theirs.write("scenarios.json", [scenario(name) for name in names])
    rows = [score(name, **row) for name, (row, _) in zip(names, PASSED, strict=True)]
    theirs.add_run([conversation(name) for name in names], rows)
    ours.take_in(theirs.root)
    found = [(passed, unscored is None) for _, (_, _, passed, unscored) in ours.verdicts()]
    assert found == [(passed, passed is not None) for _, passed in PASSED]


def test_what_says_neither_yes_nor_no_is_dropped_with_its_place(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run(scores=[score(passed="perhaps")])
    report = ours.take_in(theirs.root)
    assert ours.verdicts() == []
    approve(problems(report))


def test_a_verdict_about_another_metric_is_kept_apart_and_does_not_count(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run(scores=[score(), score(metric_id="m02", passed=False, present=True)])
    report = ours.take_in(theirs.root)
    off = "off target: about m02, which this scenario is not made for"
    assert ours.verdicts() == [
        ("m01_s001_v01__gpt-x", ("m02", True, None, off)),
        ("m01_s001_v01__gpt-x", ("m01", True, True, None)),
    ]
    with ours.reader() as reader:
        [row] = reader.verdict_rows("giving-in")
        assert (row.metric_id, row.passed) == ("m01", True)
    [one] = report.benchmarks
    approve(one.notes)
    assert not report.failed


@pytest.mark.parametrize(
    ("fields", "persona", "used"),
    [
        ({"persona": "the one", "user_persona": "the other"}, "the one", "persona"),
        ({"persona": None, "user_persona": "the other"}, "the other", "user_persona"),
    ],
)
def test_both_personas_are_kept_and_which_one_was_used(
    fields: dict[str, Any], persona: str, used: str, theirs: Theirs, ours: Ours
) -> None:
    theirs.write("scenarios.json", [scenario(**fields)])
    theirs.add_run()
    ours.take_in(theirs.root)
    with ours.reader() as reader:
        [stored] = reader.scenarios("giving-in")
    assert stored.scenario.persona == persona
    assert stored.scenario.extra == {"user_persona": "the other", "persona_used": used}


def test_keys_and_headers_never_enter_the_store_and_are_reported(
    theirs: Theirs, ours: Ours
) -> None:
    target = {
        "id": "gpt-x",
        "model": "gpt-x-large",
        "source": "openai",
        "apikey": KEY,
        "extra_headers": {"Authorization": f"Bearer {KEY}", "X-Org": "canary-organisation"},
    }
    said = transcript()
    said[1]["content"] = f"the server echoed {KEY} to us"
    theirs.write("scenarios.json", [scenario("m02_s001_v01", api_key=KEY, note={"token": KEY})])
    theirs.add_run([conversation(**scenario(), target=target, transcript=said, apikey=KEY)])
    report = ours.take_in(theirs.root)
    approve(ours.said()["m01_s001_v01__gpt-x"])
    [one] = report.benchmarks
    approve(one.notes)
    for path in ours.root.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"canary" not in content, path
    assert "canary" not in str(report.as_json())
    with ours.reader() as reader:
        [take] = reader.takes("giving-in")
    assert take.model == "gpt-x-large"


def test_a_partial_row_is_a_conversation_that_is_not_at_its_end(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([], [])
    cached = theirs.root / ".cache" / "giving-in" / "gpt-x"
    said = [*transcript(2), {"role": "user", "content": "And now?"}]
    row = {**conversation(transcript=said), "__row_cache_partial__": True}
    theirs.write(cached / "m01_s001_v01__s0__gpt-x.json", row)
    ours.take_in(theirs.root)
    with ours.reader() as reader:
        [take] = reader.takes("giving-in")
        assert (take.finished, take.stop_reason) == (False, None)
        assert len(reader.messages(take.seq)) == 5


def test_the_cache_of_an_interrupted_run_is_read_and_finished_files_go_before_it(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    cached = theirs.root / ".cache" / "giving-in"
    other = conversation("m02_s001_v01", transcript=transcript(3))
    theirs.write(cached / "gpt-x" / "m02_s001_v01__s0__gpt-x.json", other)
    theirs.write(
        cached / "gpt-x" / "eval" / "m02_s001_v01__s0__gpt-x.json",
        {"scores": [score("m02_s001_v01", present=False, passed=True)], "_usage": {}},
    )
    again = conversation(transcript=transcript(1))
    theirs.write(cached / "gpt-x" / "m01_s001_v01__s0__gpt-x.json", again)
    theirs.write(cached / "gen_scenarios" / "m01.json", {"id": "m01", "scenarios": []})
    report = ours.take_in(theirs.root)
    assert {name: len(said) for name, said in ours.said().items()} == {
        "m01_s001_v01__gpt-x": 4,
        "m02_s001_v01__gpt-x": 6,
    }
    assert len(ours.verdicts()) == 2
    assert not report.failed


def test_an_empty_transcript_is_played_again_and_null_contents_are_kept(
    theirs: Theirs, ours: Ours
) -> None:
    said = transcript()
    said[1]["content"] = None
    theirs.add_run(
        [conversation(transcript=[]), conversation("m02_s001_v01", transcript=said)],
        [score(), score("m02_s001_v01")],
    )
    report = ours.take_in(theirs.root)
    assert ours.said()["m02_s001_v01__gpt-x"][1] == ""
    with ours.reader() as reader:
        empty = reader.takes("giving-in", ConversationKey("m01_s001_v01", "gpt-x"))
        assert not empty[0].finished
    [one] = report.benchmarks
    approve(one.notes)
    approve(problems(report))


def test_what_comes_from_a_file_has_no_fingerprint_and_no_made_up_end(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    ours.take_in(theirs.root)
    with ours.reader() as reader:
        [take] = reader.counting_takes("giving-in")
        assert take.depends is None
        assert take.stop_reason is StopReason.UNKNOWN
        assert take.user_model == "unknown"
        [verdict] = reader.verdicts(take.seq)
        assert (verdict.judge, verdict.depends) == ("unknown", None)


def test_what_calls_used_comes_in_once_from_rows_and_the_rest_from_the_sums(
    theirs: Theirs, ours: Ours
) -> None:
    theirs.add_run()
    costs = {
        "simulate": {"phase": "simulate", "cost": 0.7, "input_tokens": 150, "output_tokens": 10},
        "evaluate": {"phase": "evaluate", "cost": 0.1, "input_tokens": 7, "output_tokens": 3},
    }
    theirs.write(Path("runs") / "gpt-x" / "cost.json", costs)
    generated = {"cost": 0.3, "input_tokens": 30, "output_tokens": 3}
    theirs.write("cost.json", {"gen_scenarios": {"phase": "gen_scenarios", **generated}})
    for _ in range(2):
        ours.take_in(theirs.root)
        with ours.reader() as reader:
            progress = reader.snapshot()
            usage = progress.target("giving-in", "gpt-x").usage
        assert (usage.input_tokens, usage.output_tokens) == (157, 13)
        assert usage.cost_usd == pytest.approx(0.8)


def test_the_oldest_rows_hold_their_scenario_themselves(theirs: Theirs, ours: Ours) -> None:
    (theirs.folder / "scenarios.json").unlink()
    theirs.add_run([{**conversation(), **scenario(), "conv_id": "m01_s001_v01__gpt-x"}])
    report = ours.take_in(theirs.root)
    with ours.reader() as reader:
        [stored] = reader.scenarios("giving-in")
        [take] = reader.takes("giving-in")
    assert stored.scenario.extra == {}
    assert take.scenario_seq == stored.seq
    assert not report.failed


def interrupted_generation(theirs: Theirs) -> None:
    """As it is left when a run was stopped before its scenarios were complete."""
    cache = theirs.root / ".cache" / "giving-in" / "gen_scenarios"
    (cache / "expanded").mkdir(parents=True)
    usage = {"cost": 0.25, "input_tokens": 100, "output_tokens": 40}
    base = {"id": "m01", "scenarios": [scenario("m01_s001")], "_usage": usage}
    variants = [scenario("m01_s001_v01"), scenario("m01_s001_v02", metric_id=None), 7]
    expanded = {"id": "m01_expanded", "variants": variants, "_usage": usage}
    (cache / "m01.json").write_text(json.dumps(base), "utf-8")
    (cache / "expanded" / "m01.json").write_text(json.dumps(expanded), "utf-8")


def test_variants_of_a_generation_that_was_cut_off_come_in_and_what_they_took(
    theirs: Theirs, ours: Ours
) -> None:
    interrupted_generation(theirs)
    (theirs.folder / "scenarios.json").unlink()
    for added in ({"scenarios": 2, "sums of usage": 2}, {}):
        [report] = ours.take_in(theirs.root).benchmarks
        assert report.added == added
        note = "cached base scenarios, not taken: what is played are their variants"
        assert report.notes == {note: 1}
        [file] = [file for file in report.files if file.path.parent.name == "expanded"]
        assert file.dropped == 1
    with ours.reader() as reader:
        found = {row.scenario.id: row.scenario.metric_id for row in reader.scenarios("giving-in")}
        assert found == {"m01_s001_v01": "m01", "m01_s001_v02": "m01"}
        used = reader.usage("giving-in", Stage.GEN_SCENARIOS)
        assert (used.input_tokens, used.cost_usd) == (200, 0.5)


def test_the_cache_of_a_generation_that_was_finished_brings_nothing_back(
    theirs: Theirs, ours: Ours
) -> None:
    interrupted_generation(theirs)
    theirs.write("scenarios.json", [scenario("m02_s001_v01")])
    [report] = ours.take_in(theirs.root).benchmarks
    assert report.added == {"scenarios": 1}
    approve(report.notes)
