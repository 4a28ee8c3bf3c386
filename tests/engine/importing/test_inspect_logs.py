"""Logs of Inspect, and so of Petri and Bloom, as benchmarks of a workspace."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.benchmark import ConversationKey, Speaker
from engine.config.benchmark_file import load_definition
from engine.importing import inspect_files
from tests.approval import approve
from tests.engine.commands import command, crosswind
from tests.engine.importing.building import Ours
from tests.engine.importing.inspect_building import (
    TALK,
    archive,
    audit,
    document,
    header,
    message,
    packed,
    sample,
)
from tests.engine.small_workspace import small_workspace

TakeIn = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture
def take_in(ours: Ours) -> TakeIn:
    def run(*words: Path | str) -> tuple[int, dict[str, Any], str]:
        told = crosswind(ours.root, "import", "--json", *map(str, words))
        return told.code, told.json() if told.out else {}, told.err

    return run


def verdicts(ours: Ours, benchmark: str) -> dict[str, tuple[str, bool | None, bool | None]]:
    """By conversation: who judged, whether the behaviour is present, and what counts."""
    with ours.reader() as reader:
        return {
            str(take.key): (one.judge, one.present, one.counted)
            for take in reader.counting_takes(benchmark)
            for one in reader.verdicts(take.seq)
        }


@pytest.mark.parametrize("form", ["zstd", "deflate", "json"])
def test_a_sample_is_a_conversation_of_each_of_its_scores(
    form: str, ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    samples = [
        sample(1, {"includes": "C", "grader": {"polite": 0.75, "short": False}}),
        sample(1, {"includes": "I"}, epoch=2),
        sample("a/b", {"includes": "N"}),
    ]
    path = tmp_path / f"one.{'json' if form == 'json' else 'eval'}"
    write = document if form == "json" else archive
    more = {"zstd": {"compression": 93}, "deflate": {"compression": 8}, "json": {}}[form]
    write(path, header(), samples, **more)
    words = ("--metric", "includes", "--metric", "polite", "--metric", "short")
    code, report, complained = take_in(path, *words)
    assert (code, complained, report["problems"]) == (0, "", [])
    [told] = report["benchmarks"]
    assert (told["benchmark"], told["source"]) == ("sums", str(path))
    assert told["samples"] == 2
    assert verdicts(ours, "sums") == {
        "1.includes__mockllm-model": ("includes", True, True),
        "1.polite__mockllm-model": ("grader", True, True),
        "1.short__mockllm-model": ("grader", False, False),
        "1.includes__mockllm-model__s1": ("includes", False, False),
        "a-b.includes__mockllm-model": ("includes", None, None),
    }
    with ours.reader() as reader:
        [take] = reader.takes("sums", ConversationKey("1.polite", "mockllm-model"))
        said = [one.text for one in reader.messages(take.seq)]
        stored = reader.scenario_of(take)
    assert said == [one["content"] for one in TALK[1:]]
    assert stored is not None
    assert (stored.user_goal, stored.target_system_prompt) == ("What is 1+1?", "Be brief.")
    assert take_in(path, *words)[1]["benchmarks"][0]["unchanged"] == 5


def test_each_conversation_of_a_sample_has_its_words_and_no_other_has_them(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    """Nor does a description of methods claim what models of a log were told."""
    config = ours.root / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("gpt-x", "mockllm-model"), "utf-8")
    other = [*TALK[:2], message("assistant", "It is 4.", metadata={"served_by": "elsewhere"})]
    scores = {"one": "C", "two": "I"}
    samples = [sample(1, scores), sample(2, scores, other), sample(3, scores)]
    archive(tmp_path / "log.eval", header(), samples)
    assert take_in(tmp_path / "log.eval", "--metric", "one", "--metric", "two")[0] == 0
    said = {}
    with ours.reader() as reader:
        for take in reader.takes("sums"):
            messages = reader.messages(take.seq)
            said[take.key.scenario_id] = [(one.text, one.served_by) for one in messages]
    talk = [(one["content"], None) for one in TALK[1:]]
    assert said == {
        f"{number}.{name}": [talk[0], ("It is 4.", "elsewhere")] if number == 2 else talk
        for number in (1, 2, 3)
        for name in scores
    }
    methods = crosswind(ours.root, "results", "--methods", code=0).out
    assert "mockllm" in methods
    assert "told the" not in methods
    assert "by unknown" not in methods


def test_a_dimension_of_an_auditor_is_taken_by_name_and_read_as_a_person_says(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    scores = {"audit_judge": {"realism": 6, "gratitude": 5, "concerning": 6}}
    path = archive(tmp_path / "p.eval", audit(), [sample("seed", scores)])
    code, _, complained = take_in(path)
    assert code == 2
    approve(complained)
    code, report, _ = take_in(path, "--metric", "concerning", "--present-from", "6")
    assert code == 0
    assert verdicts(ours, "audit") == {
        "seed.concerning__mockllm-target": ("audit_judge", True, True)
    }
    approve(report["benchmarks"][0]["read_as"])
    approve(report["benchmarks"][0]["notes"])
    with ours.reader() as reader:
        [take] = reader.takes("audit", ConversationKey("seed.concerning", "mockllm-target"))
        assert take.user_model == "mockllm/auditor"
        [verdict] = reader.verdicts(take.seq)
    assert verdict.justification.startswith("concerning: 6 (from 6 on")


def test_a_task_with_several_scores_keeps_no_other_from_coming_in(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    archive(tmp_path / "a.eval", header("other"), [sample()])
    for name in ("b", "c"):
        scores = {"one": "C", "two": "I"}
        archive(tmp_path / f"{name}.eval", header(eval_id=name), [sample(1), sample(2, scores)])
    code, report, _ = take_in(tmp_path)
    assert code == 1
    [problem] = report["problems"]
    approve(problem)
    assert [one["benchmark"] for one in report["benchmarks"]] == ["other"]


def test_a_benchmark_of_bloom_is_called_after_its_behaviour(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    told = {"behavior": {"name": "flattery", "description": "Praise that nobody earned."}}
    about = audit(metadata=told)
    about["eval"]["task"] = "petri_bloom/bloom_audit"
    archive(tmp_path / "b.eval", about, [sample(1, {"audit_judge": {"flattery": 8}})])
    assert take_in(tmp_path / "b.eval")[0] == 0
    defined = load_definition(ours.root / "benchmarks/flattery/benchmark.yaml")
    approve(defined.description)


def test_a_transcript_with_several_scores_is_one_base_scenario_of_what_is_said_of_them_together(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    scored = [sample(f"seed-{n}", {"judge": {"bold": n, "kind": n + 1}}) for n in range(3, 9)]
    archive(tmp_path / "p.eval", audit(), scored)
    take_in(tmp_path / "p.eval", "--metric", "bold", "--metric", "kind", "--present-from", "6")
    config = ours.root / "config.yaml"
    target = {"id": "mockllm-target", "model": "steadfast", "source": "offline"}
    config.write_text(f"{config.read_text()}  - {json.dumps(target)}\n")
    told = crosswind(ours.root, "results", "audit", "--json")
    [row] = [one for one in told.json()["audit"] if one["target_model"] == "mockllm-target"]
    assert row["n_total"] == 12
    assert set(row["by_base_scenario"]) == {f"seed-{n}" for n in range(3, 9)}
    approve(row["notes"][0])


def test_a_person_chooses_where_present_begins_which_scores_and_what_is_wanted(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    path = archive(tmp_path / "n.eval", header(), [sample(1, {"a": 70, "b": 40})])
    _, report, _ = take_in(path, "--metric", "a")
    approve(report["benchmarks"][0]["read_as"][0])
    assert verdicts(ours, "sums") == {"1.a__mockllm-model": ("a", None, None)}
    take_in(path, "--metric", "a", "--present-from", "60")
    assert verdicts(ours, "sums")["1.a__mockllm-model"] == ("a", True, True)
    defined = ours.root / "benchmarks/sums/benchmark.yaml"
    defined.write_text(defined.read_text("utf-8").replace("positive", "negative"), "utf-8")
    assert take_in(path, "--metric", "a", "--present-from", "60")[0] == 0
    assert verdicts(ours, "sums")["1.a__mockllm-model"] == ("a", True, False)
    code, report, _ = take_in(path, "--metric", "b")
    [refused] = report["benchmarks"][0]["refused"]
    assert code == 1
    approve(refused)


def test_what_is_no_speech_of_either_side_is_told_and_never_said(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    messages = [
        message("system", "You are a clerk."),
        message("assistant", "Before anybody spoke."),
        message("user", [{"type": "text", "text": "Hello."}, {"type": "image", "image": "x"}]),
        message("assistant", "", tool_calls=[{"function": "search", "id": "c"}]),
        message("tool", "Found: nothing."),
        message("assistant", "I would say", metadata={"prefill": True}),
        message(
            "assistant",
            [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Nothing there."}],
        ),
        message("system", "Be rude now."),
        message("user", "And"),
        message("user", "now?"),
        message("assistant", "Still nothing."),
    ]
    archive(tmp_path / "t.eval", audit(), [sample(1, {"j": 0.9}, messages)])
    _, report, _ = take_in(tmp_path / "t.eval")
    approve(report["benchmarks"][0]["notes"])
    with ours.reader() as reader:
        [take] = reader.takes("audit")
        said = reader.messages(take.seq)
    assert [(one.speaker, one.text) for one in said] == [
        (Speaker.USER, "Hello."),
        (Speaker.TARGET, "Nothing there."),
        (Speaker.USER, "And\n\nnow?"),
        (Speaker.TARGET, "Still nothing."),
    ]
    assert said[1].reasoning == "Hm."
    assert take.detail is not None
    approve(take.detail)


def test_where_messages_are_the_auditors_own_the_targets_last_call_is_taken(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    own = [message("user", "Begin."), message("assistant", "I send it.", id="a1")]
    pool = [
        message("system", "You help."),
        message("user", "Hi."),
        message("user", "attachment://f"),
    ]
    reply = {"choices": [{"message": message("assistant", "Hello.", id="t1")}]}
    events = [{"event": "model", "role": "target", "input_refs": [[0, 1], [2, 3]], "output": reply}]
    one = sample(
        1,
        {"judge": {"bad": 2}},
        own,
        events=events,
        events_data={"messages": pool, "calls": []},
        attachments={"f": "A long text."},
    )
    document(tmp_path / "old.json", audit(), [one])
    assert take_in(tmp_path / "old.json")[0] == 0
    with ours.reader() as reader:
        [take] = reader.takes("audit")
        assert [one.text for one in reader.messages(take.seq)] == ["A long text.", "Hello."]


def test_logs_of_one_task_are_one_benchmark(ours: Ours, take_in: TakeIn, tmp_path: Path) -> None:
    failed: dict[str, Any] = {
        "error": {"message": "It broke.", "traceback": "", "traceback_ansi": ""}
    }
    broken = sample(6, messages=TALK[:2], **failed)
    nan = json.dumps(sample(3)).replace('"C"', "NaN")
    for name, model, samples in (
        ("a", "openai/x", [sample(1, uuid="u1"), sample(2, uuid="u2", **failed)]),
        ("b", "openai/x", [sample(1, {"includes": "I"}, uuid="u3"), sample(1, uuid="u1", epoch=2)]),
        ("c", "other/y", [sample(1), sample(4, messages=TALK[:2]), sample(5, {}), broken]),
    ):
        archive(tmp_path / f"{name}.eval", header(model=model, eval_id=name), samples)
    packed(
        tmp_path / "d.eval", {"samples/3_epoch_1.json": nan, "header.json": json.dumps(header())}
    )
    code, report, complained = take_in(tmp_path)
    assert (code, complained) == (0, "")
    assert {key: one[2] for key, one in verdicts(ours, "sums").items()} == {
        "1__openai-x": True,
        "1__openai-x__s1": False,
        "1__other-y": True,
        "3__mockllm-model": None,
    }
    notes = report["benchmarks"][0]["notes"]
    approve(notes)
    approve(report["targets_to_add"][1])


def test_models_and_settings_that_would_share_a_name_are_targets_of_their_own(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    long = "org/" + "x" * 90
    models = ["a/b-c", "a-b/c", "A/B-c", "模型一", "模型二", long + "1", long + "2"]
    for number, model in enumerate(models):
        archive(tmp_path / f"{number}.eval", header(model=model, eval_id=model), [sample()])
    code, report, complained = take_in(tmp_path)
    assert (code, complained) == (0, "")
    mapped = report["benchmarks"][0]["mapped"]
    assert mapped.keys() == set(models)
    names = [mapped[model] for model in models]
    assert names[0] == "a-b-c"
    assert len({name.casefold() for name in names}) == len(models)
    assert {name.split("-")[0] for name in names[3:5]} == {"target"}
    assert sorted(verdicts(ours, "sums")) == sorted(f"1__{name}" for name in names)
    # also if they are imported one by one, in any order
    for number in (1, 0, 6, 5):
        code, report, _ = take_in(tmp_path / f"{number}.eval")
        assert (code, report["benchmarks"][0]["added"]) == (0, {})


def test_two_settings_of_one_model_are_two_targets_and_the_difference_is_told(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    settings: list[dict[str, Any]] = [
        {"task_args": {"prompt": "A", "api_key": "sk-secret-1"}},
        {"task_args": {"prompt": "B", "api_key": "sk-secret-2"}},
        {"task_args": {"prompt": "A"}, "model_generate_config": {"temperature": 0.5}},
        {"task_args": {"prompt": "A", "api_key": "sk-secret-3"}},
        {"model_roles": {"target": {"model": "mockllm/model", "config": {"top_p": 1}}}},
    ]
    for number, more in enumerate(settings):
        archive(tmp_path / f"{number}.eval", header(eval_id=str(number), **more), [sample()])
    code, report, complained = take_in(tmp_path)
    assert (code, complained) == (0, "")
    assert sorted(verdicts(ours, "sums")) == [
        "1__mockllm-model",
        "1__mockllm-model-2",
        "1__mockllm-model-3",
        "1__mockllm-model-4",
        "1__mockllm-model__s1",
    ]
    told = report["benchmarks"][0]["read_as"]
    approve(told[:3])
    assert "sk-secret" not in json.dumps(report)


def test_another_setting_that_is_imported_later_is_numbered_beside_the_first(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    logs = []
    for prompt in ("A", "B", "C"):
        about = header(eval_id=prompt, task_args={"prompt": prompt})
        said = [*TALK[:2], message("assistant", f"It is 2, says {prompt}.")]
        logs.append(archive(tmp_path / f"{prompt}.eval", about, [sample(1, None, said)]))
    told = [take_in(log)[1]["benchmarks"][0] for log in (*logs[:2], logs[1], logs[2], logs[0])]
    assert [one["added"].get("takes", 0) for one in told] == [1, 1, 0, 1, 0]
    assert sorted(verdicts(ours, "sums")) == [
        "1__mockllm-model",
        "1__mockllm-model-2",
        "1__mockllm-model-3",
    ]
    difference = 'is mockllm/model with task_args.prompt "C" (the first: "A")'
    assert told[3]["read_as"][0] == f"target mockllm/model 3 {difference}"
    with ours.reader() as reader:
        assert [take.number for take in reader.takes("sums")] == [0, 0, 0]


def test_scores_are_read_as_inspect_reads_them_and_the_rest_is_counted(
    ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    said = ["C", "I", "yes", "TRUE", "No", "false", "1", "0.2", 1, True, False]
    unread = ["P", "N", "c", "i", "PASS", "CORRECT", "", "nan", "inf", None, "y", float("nan")]
    samples = [sample(n, {"judge": value}) for n, value in enumerate([*said, *unread])]
    code, report, _ = take_in(document(tmp_path / "words.json", header(), samples))
    found = {key.partition("__")[0]: one[1] for key, one in verdicts(ours, "sums").items()}
    assert code == 0
    assert [found[str(n)] for n in range(len(said))] == [
        value in {"C", "yes", "TRUE", "1", 1} for value in said
    ]
    assert {found[str(n)] for n in range(len(said), len(samples))} == {None}
    assert [*report["benchmarks"][0]["notes"].values()] == [len(unread)]
    approve(report["benchmarks"][0]["notes"])


@pytest.mark.parametrize(
    ("encoding", "version"), [("utf-8-sig", 2), ("utf-16", 2), ("utf-16-be", 2), ("utf-8", 3)]
)
def test_logs_with_marks_of_a_short_lived_version_and_of_any_name_are_read(
    encoding: str, version: int, ours: Ours, take_in: TakeIn, tmp_path: Path
) -> None:
    text = json.dumps({**header("评测一"), "version": version, "samples": [sample()]})
    mark = "\ufeff" if encoding == "utf-16-be" else ""
    path = tmp_path / "log.json"
    path.write_bytes((mark + text).encode(encoding))
    code, report, complained = take_in(path)
    assert (code, complained) == (0, "")
    name = report["benchmarks"][0]["benchmark"]
    assert name.startswith("task-")
    assert load_definition(ours.root / f"benchmarks/{name}/benchmark.yaml").title == "评测一"
    path.write_bytes(b"\xff\xfe{\x00\x00\xd8")
    assert take_in(path)[2] == f"crosswind: {path}: is not the utf-16-le it says it is\n"


def test_what_was_exported_here_comes_back(tmp_path: Path, take_in: TakeIn, ours: Ours) -> None:
    place = small_workspace(tmp_path / "small")
    place.edit(place.benchmark, "what they think.", "what they think.\n    when: at_the_end")
    place.run()

    def exported(root: Path, folder: Path) -> dict[str, Any]:
        where = ["--workspace", str(root), "--out", str(folder)]
        command("export", "inspect-json", "giving-in", *where, code=0)
        logs = [json.loads(path.read_text("utf-8")) for path in sorted(folder.iterdir())]
        return {log["eval"]["metadata"]["target"]: log for log in logs}

    first = exported(place.root, tmp_path / "out")
    assert take_in(*sorted((tmp_path / "out").iterdir()))[0] == 0
    # a log holds what counts, so the targets must be configured
    (ours.root / "config.yaml").write_text(place.config.read_text("utf-8"), "utf-8")
    again = exported(ours.root, tmp_path / "again")
    kept = "id input target metadata scores messages".split()
    for target, log in first.items():
        back = again[target]
        for one, other in zip(log["samples"], back["samples"], strict=True):
            assert {name: other[name] for name in kept} == {name: one[name] for name in kept}
        assert back["results"] == log["results"]
    theirs, mine = (
        load_definition(root / "benchmarks/giving-in/benchmark.yaml")
        for root in (place.root, ours.root)
    )
    assert (mine.metrics, mine.title, mine.description) == (
        theirs.metrics,
        theirs.title,
        theirs.description,
    )


SAMPLE = json.dumps(sample())
HEADER = json.dumps(header())
BAD_ID = SAMPLE.replace('"id": 1', '"id": []')
GOOD = {"samples/1_epoch_1.json": SAMPLE, "header.json": HEADER}


def cut(path: Path) -> None:
    packed(path, GOOD)
    path.write_bytes(path.read_bytes()[:-40])


def lying(path: Path) -> None:
    """Its list says that a member is small."""
    packed(path, {"header.json": HEADER, "samples/9_epoch_1.json": b"x" * 2_000_000})
    raw = path.read_bytes()
    path.write_bytes(raw.replace((2_000_000).to_bytes(4, "little"), (100).to_bytes(4, "little")))


def broken(path: Path) -> None:
    packed(path, GOOD, compression=8)
    packedly = zlib.compressobj(wbits=-15)
    body = packedly.compress(SAMPLE.encode()) + packedly.flush()
    path.write_bytes(path.read_bytes().replace(body, b"\xff" * len(body)))


def deep(path: Path) -> None:
    nested = SAMPLE.replace(
        '"target": "2"', '"metadata": {"a": ' + "[" * 90_000 + "]" * 90_000 + "}"
    )
    packed(path, {**GOOD, "samples/1_epoch_1.json": nested})


HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "half a zip": (cut, "is not a whole archive"),
    "no log": (lambda path: path.write_text("hello"), "is neither an archive nor a JSON object"),
    "empty": (lambda path: path.write_text(""), "is neither an archive nor a JSON object"),
    "another zip": (lambda path: packed(path, {"a.txt": "a"}), "has neither header.json nor"),
    "another JSON": (lambda path: path.write_text('{"a": 1}'), "has no `version`"),
    "newer": (
        lambda path: packed(
            path, {**GOOD, "header.json": HEADER.replace('"version": 2', '"version": 4')}
        ),
        "header.json: is of version 4 of the log format; this program reads 2 and 3",
    ),
    "no task": (
        lambda path: packed(path, {**GOOD, "header.json": '{"version": 2, "eval": {}}'}),
        "header.json: is not as Inspect writes it",
    ),
    "bomb": (
        lambda path: packed(path, {**GOOD, "samples/9_epoch_1.json": b" " * 4_000_000}),
        "would unpack to 3 MB, which is more than 200 times its size",
    ),
    "lying": (lying, "samples/9_epoch_1.json: cannot be unpacked"),
    "broken": (broken, "samples/1_epoch_1.json: cannot be unpacked"),
    "deep": (deep, "samples/1_epoch_1.json: values are nested deeper than can be read"),
    "in pieces": (
        lambda path: packed(path, {"samples/1_epoch_1/sample.json": "{}", "header.json": HEADER}),
        "samples/1_epoch_1: this sample is kept in pieces, which are not read here",
    ),
    "no sample": (
        lambda path: packed(
            path, {**GOOD, "samples/1_epoch_1.json": SAMPLE.replace('"id": 1', '"id": []')}
        ),
        "samples/1_epoch_1.json: is not as Inspect writes it: Expected `int | str`, got `array`",
    ),
    "nobody spoke": (
        lambda path: archive(path, header("silent"), [sample(messages=[])]),
        "nothing to take in it: 1 samples in which user and target do not both speak, not taken",
    ),
    "nobody scored it": (
        lambda path: archive(path, header("unscored"), [sample(scores={})]),
        "nothing to take in it: 1 samples without a score, not taken",
    ),
    "shards": (
        lambda path: packed(path, {"header.json": json.dumps(header(shards={"ledger": []}))}),
        "its samples are in several logs (shards)",
    ),
}


def test_a_hostile_log_is_refused_in_words_and_harms_no_other(
    ours: Ours, take_in: TakeIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_files, "_FLOOR", 3 << 20)
    paths = [tmp_path / f"{kind}.eval" for kind in HOSTILE]
    for path, (make, _) in zip(paths, HOSTILE.values(), strict=True):
        make(path)
    good = archive(tmp_path / "good.eval", header("other"), [sample()])
    code, report, _ = take_in(*paths, good)
    assert code == 1
    told = dict(problem.split(": ", 1) for problem in report["problems"])
    assert told.keys() == set(map(str, paths))
    for path, (_, words) in zip(paths, HOSTILE.values(), strict=True):
        assert words in told[str(path)], path
    assert verdicts(ours, "other") == {"1__mockllm-model": ("includes", True, True)}
    before = (ours.root / "crosswind.db").stat().st_size
    code, _, complained = take_in(paths[0])
    assert code == 2
    assert HOSTILE["half a zip"][1] in complained
    assert (ours.root / "crosswind.db").stat().st_size == before


def test_what_is_wrong_with_very_many_samples_is_told_of_some(
    take_in: TakeIn, tmp_path: Path
) -> None:
    path = document(tmp_path / "many.json", header(), [{**sample(), "id": []}] * 3_000)
    code, _, complained = take_in(path)
    assert code == 2
    assert len(complained.splitlines()) == 21
    approve(complained.splitlines()[-1])


def test_no_more_of_a_document_is_read_than_one_may_have(
    take_in: TakeIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.write(b'{"version": 2, "samples": "')
        file.truncate(1 << 30)
    monkeypatch.setattr(inspect_files, "LARGEST_DOCUMENT", 1 << 20)
    code, _, complained = take_in(path)
    assert code == 2
    approve(complained)
