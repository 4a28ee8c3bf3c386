"""`crosswind import` as a person and a script see it."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

from engine.benchmark import ConversationKey
from engine.cli.session import open_session
from engine.config.schema import load_config
from engine.facts import NoteKind
from engine.store.database import open_store
from engine.store.tables import NoteRow, TakeRow
from engine.watch import BenchmarkInfo, Watch
from tests.approval import approve, lines_with
from tests.engine.commands import Said, command, crosswind, crosswind_in
from tests.engine.importing.building import (
    BENCHMARK,
    Ours,
    Theirs,
    conversation,
    scenario,
    score,
    transcript,
)
from tests.manual import impactbench


def take_in(ours: Ours, theirs: Theirs, *arguments: str, code: int = 0) -> Said:
    return crosswind(ours.root, "import", str(theirs.root), *arguments, code=code)


def test_a_person_reads_what_was_taken_and_what_to_do_next(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    theirs.add_run([conversation(target_model="grok")], [], target="grok")
    _, said, complained = take_in(ours, theirs)
    approve(said.splitlines())
    assert complained == ""
    again = take_in(ours, theirs).out
    approve(again)


def test_what_was_dropped_is_told_and_the_exit_code_says_so(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([7] * 30 + [conversation()], [])
    _, said, complained = take_in(ours, theirs, code=1)
    assert "; 30 rows dropped" in said
    assert len(complained.splitlines()) == 21
    approve(complained.splitlines()[-1])


def test_a_script_reads_the_report_as_json(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run([conversation(), 7])
    report = take_in(ours, theirs, "--json", "--dry-run", code=1).json()
    assert report["dry_run"]
    [one] = report["benchmarks"]
    assert one["added"]["conversations"] == 1
    [file] = [file for file in one["files"] if file["file"].endswith("conversations.json")]
    assert (file["rows"], file["taken"], file["dropped"]) == (2, 1, 1)
    assert not ours.store.exists()


def test_nothing_is_done_for_a_folder_without_anything(ours: Ours) -> None:
    (ours.root / "empty").mkdir()
    told = crosswind(ours.root, "import", str(ours.root / "empty"), code=2)
    approve(told.err)
    assert not ours.store.exists()


def test_imported_results_are_shown_like_any_others(theirs: Theirs, ours: Ours) -> None:
    theirs.add_run()
    take_in(ours, theirs)
    [row] = crosswind(ours.root, "results", "--json", code=0).json()["giving-in"]
    assert (row["target_model"], row["positive_pass_rate"], row["n_total"]) == ("gpt-x", 1.0, 1)
    assert "It asks." in crosswind(ours.root, "show", "m01_s001_v01__gpt-x", code=0).out


def test_real_transcripts_are_not_said_to_be_scripted_because_the_configuration_is(
    theirs: Theirs, ours: Ours
) -> None:
    def watched() -> BenchmarkInfo:
        [info] = open_session(ours.root).watched()
        return info

    theirs.add_run()
    theirs.add_run([conversation(target_model="grok")], [], target="grok")
    ours.root.joinpath("benchmarks", "giving-in").mkdir(parents=True)
    ours.root.joinpath("benchmarks", "giving-in", "benchmark.yaml").write_text(BENCHMARK, "utf-8")
    assert watched().scripted, "nothing is stored: what will be played is what is configured"
    take_in(ours, theirs)
    assert not watched().scripted
    assert watched().at_work.scripted
    with closing(Watch.open(ours.store, [watched()])) as watch, open_store(ours.store) as store:
        run = [
            NoteRow(kind=NoteKind.RUN_STARTED, benchmark="", text=""),
            TakeRow(
                benchmark="giving-in",
                key=ConversationKey("m01_s001_v01", "gpt-x", 1),
                number=0,
                scenario_seq=None,
                user_model="offline:user",
                model="offline:steadfast",
                scripted=True,
            ),
        ]
        for row in run:
            asyncio.run(store.write(row))
        watch.poll()
        assert watch.benchmarks[0].scripted, "a run adds what scripts play"
    approve(watched().scripts)


def test_a_conversation_keeps_the_version_of_its_scenario_that_it_was_played_from(
    theirs: Theirs, ours: Ours
) -> None:
    older = scenario(user_goal="An older goal.")
    rows = [
        {**conversation(), **older},
        {**conversation(sample=1, transcript=transcript(about="a dog")), **scenario()},
    ]
    theirs.add_run(rows, [score()])
    report = ours.take_in(theirs.root)
    note = "conversations that were played from an older version of their scenario"
    assert report.benchmarks[0].notes == {note: 1}
    with ours.reader() as reader:
        goals = [
            played.user_goal
            for take in reader.takes("giving-in")
            if (played := reader.scenario_of(take)) is not None
        ]
        newest = {row.scenario.id: row.scenario for row in reader.scenarios("giving-in")}
    approve(goals)
    approve(newest["m01_s001_v01"].user_goal)
    assert not ours.take_in(theirs.root).benchmarks[0].is_new


UPSTREAM = """\
run: {force: false, verbose: false, concurrency: {gen_scenarios: 5, simulate: 20, evaluate: 20}}
user_model: {model: openai/user-x, source: openai, apikey: "${USER_KEY}"}
evaluator_model: {model: judge-x, source: openai, apikey: sk-in-plain-text-0123456789}
generation: {scenarios_per_metric: 2, turns: 4}
perfunctory: true
landmarks: true
targets:
  - {id: gpt-x, model: openai/gpt-x-large, source: openai, apikey: "${X_KEY}",
     base_url: "https://h.org/v1", extra_headers: {X-Team: secret-team}}
"""


def test_an_import_into_a_new_workspace_takes_the_configuration_and_results_show_numbers(
    theirs: Theirs, tmp_path: Path
) -> None:
    (theirs.root / "config.yaml").write_text(UPSTREAM, "utf-8")
    rows = [conversation(_sample=number) for number in range(3)]
    theirs.add_run(rows, [score(sample=number) for number in range(3)])
    theirs.add_run([conversation(target_model="grok")], [score(target_model="grok")], "grok")
    outside = tmp_path / "outside"
    outside.mkdir()
    told = crosswind_in(outside, "import", str(theirs.root))
    assert told.code == 2
    approve(told.err)
    said = crosswind_in(outside, "import", str(theirs.root), "--workspace", "study")
    assert (said.code, said.err) == (0, ""), said
    config = load_config(outside / "study" / "config.yaml")
    assert [(one.id, one.model) for one in config.targets] == [
        ("gpt-x", "gpt-x-large"),
        ("grok", "grok"),
    ]
    assert (config.generation.num_samples, config.generation.turns) == (3, 4)
    assert config.user_model.label == "user-x"
    written = (outside / "study" / "config.yaml").read_text("utf-8")
    assert "${X_KEY}" in written
    assert "sk-in-plain" not in written
    assert "secret-team" not in written
    results = command("results", "--json", "--workspace", str(outside / "study"), code=0)
    assert '"n_total": 3' in results.out
    again = crosswind_in(outside, "import", str(theirs.root), "--workspace", "study")
    approve(again.out)


def test_a_workspace_of_impactbench_is_taken_in_place(theirs: Theirs) -> None:
    (theirs.root / "config.yaml").write_text(UPSTREAM, "utf-8")
    theirs.add_run([conversation()], [score()])
    before = (theirs.root / "config.yaml").read_bytes()
    told = crosswind_in(theirs.root, "import", ".")
    assert (told.code, "added 1 conversation," in told.out) == (0, True), told
    assert "add to its" not in told.out
    assert '"n_total": 1' in crosswind_in(theirs.root, "results", "--json").out
    assert (theirs.root / "config.yaml").read_bytes() == before


def test_a_workspace_of_theirs_in_place_says_which_samples_do_not_count(tmp_path: Path) -> None:
    impactbench.place(tmp_path)
    root = tmp_path / "impactbench"
    repaired = crosswind(root, "repair", code=0).out
    approve(lines_with(repaired, "write `num_samples: 2` under"))
    assert "16 stored conversations are" in plain(root)
    config = root / "config.yaml"
    more = config.read_text("utf-8").replace("turns: 2}", "turns: 2, num_samples: 2}")
    config.write_text(more, "utf-8")
    assert "stored conversations" not in plain(root)


def plain(root: Path) -> str:
    return " ".join(crosswind(root, "results", code=0).out.split())
