"""Failures that explain themselves: the same number and the same kinds wherever they are told."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from engine.benchmark import Stage, State
from engine.cli.lines import REASON, FailureNews, failure_lines
from engine.cli.session import describe_benchmarks
from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.facts import StateChanged
from engine.pipeline.remedies import KnownFailure, failure_kind, grouped, standing_failures
from engine.providers.attempts import classify, describe
from engine.providers.failures import Cause, Failure, FailureKind
from engine.store.open_reader import open_reader
from engine.store.tables import StateRow
from engine.watch import Watch, named_only
from tests.approval import approve, lines_with
from tests.engine.commands import crosswind
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.faults import Fault
from tests.protocol_server.server import ProtocolServer
from tui.launch import exit_summary, failures
from tui.services.terminal import how_far


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """Whose target takes no request, whose one metric is given no scenarios, and that is judged in
    a shape that nobody asked for."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    place = Workplace(tmp_path, server)
    place.configure(
        [{"id": "bad", **place.model("erratic")}, {"id": "good", **place.model("steadfast")}],
        turns=1,
    )
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in (1, 2)])
    place.stage("bread", [scenario(1)])
    server.plan(Fault.BAD_REQUEST, match="erratic")
    server.plan(Fault.WRONG_SCHEMA, match="evaluator")
    server.plan(Fault.TOO_LARGE, match="generator")
    return place


def test_every_place_tells_the_same_number_and_the_same_kinds(place: Workplace) -> None:
    shell = partial(crosswind, place.root)
    ended = shell("run", "--headless", "--plain", "--json", "--yes")
    assert ended.code == 1, ended.err
    told = ended.json()
    assert told["failed"] == 3
    kinds = {each["kind"]: each for each in told["failures"]}
    assert set(kinds) == {"bad_request", "wrong_shape", "too_long"}
    assert kinds["too_long"]["rows"] == [
        {"benchmark": "bread", "stage": "gen_scenarios", "id": "m02"}
    ]
    assert not kinds["bad_request"]["may_pass_unchanged"]

    # while it runs: each kind once, when it is first met
    for id_ in ("m02", "m01_s001_v01__bad", "m01_s001_v01__good"):
        assert ended.err.count(f"{id_} failed: ") == 1

    status = shell("status", "--json").json()
    assert (status["failed"], status["failures"]) == (3, told["failures"])
    lines = shell("status").out.splitlines()
    assert sum(int(found[1]) for line in lines if (found := re.match(r"(\d+) rows? failed", line)))
    assert len([line for line in lines if re.match(r"1 row failed: ", line)]) == 3
    mended = (
        "may mend 1 of these 3 rows as things are; the other 2 are likely to fail again until "
        "what is named there is changed"
    )
    assert lines[-1] == f"`crosswind run` {mended}"

    explained = shell("run", "--explain").out
    assert explained.count(": failed before: ") == 3
    assert "missing" not in explained.replace("nothing is missing", "")
    assert len(re.findall(r"^1 row failed: ", explained, re.MULTILINE)) == 3
    assert f"`crosswind run` {mended}" in explained.splitlines()

    names = named_only(["bread"])
    with closing(Watch(open_reader(place.root / "crosswind.db"), names)) as watch:
        groups = standing_failures(watch.reader, ["bread"], (), {})
        assert sum(len(group.units) for group in groups) == 3
        assert sum(watch.progress.stage_tally("bread", stage).failed for stage in Stage) == 3
        assert how_far(watch)[1] == 3
        said = list(exit_summary(watch))
    assert "3 failed" in said[0]
    assert [line[:12] for line in said[1:]] == ["1 row failed"] * 3


def test_a_run_that_fails_for_one_reason_says_it_in_one_line_with_its_ids_and_its_remedy(
    place: Workplace,
) -> None:
    place.server.reset()
    place.server.plan(Fault.BAD_REQUEST, match="erratic")
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, 6)])
    place.stage("bread", [scenario(n) for n in range(1, 6)])
    ended = crosswind(place.root, "run", "--headless", "--plain", "--yes")
    assert ended.code == 1, ended.err
    [line] = [line for line in ended.err.splitlines() if line.startswith("5 rows failed")]
    assert KnownFailure.BAD_REQUEST.name_in_words in line
    approve(re.sub(r"m0\d_", "m0N_", line))
    assert KnownFailure.BAD_REQUEST.advice in line
    assert "tries them again" not in ended.err
    approve(lines_with(ended.err, "then `crosswind run`:"))
    assert ended.err.count(KnownFailure.BAD_REQUEST.advice) == 2  # when it was met, and at the end


def test_targets_with_one_model_and_the_user_model_with_it_too_are_told_apart(
    place: Workplace,
) -> None:
    """Each has a name of its own in the reason, wherever it stands."""
    place.server.reset()
    place.configure(
        [{"id": name, **place.model("erratic")} for name in ("warm", "cold")],
        turns=1,
        user_model=place.model("user"),
    )
    place.stage("bread", [scenario(1), scenario(2)])
    place.server.plan(Fault.BAD_REQUEST, match="user")
    asked = crosswind(place.root, "run", "--headless", "--plain", "--yes", "--json")
    [kind] = asked.json()["failures"]
    assert list(kind["models"]) == ["user model (user)"]
    place.server.reset()
    place.server.plan(Fault.BAD_REQUEST, match="erratic")
    ended = crosswind(place.root, "run", "--headless", "--plain", "--yes")
    assert ended.code == 1, ended.err
    said = "400: the request was not accepted"
    assert f"m01_s001_v01__warm failed: {KnownFailure.BAD_REQUEST.name_in_words}" in ended.err
    assert f"target warm (erratic): {said}" in ended.err
    assert f" failed likewise: target cold (erratic): {said}" in ended.err
    [line] = re.findall(r"^4 rows failed: .*$", ended.err, re.MULTILINE)
    assert f"target warm (erratic), target cold (erratic): {said}" in line


def failed_row(target: str, reason: str, number: int = 1) -> StateRow:
    return StateRow(
        benchmark="bread",
        stage=Stage.SIMULATE,
        unit=f"m{number:02d}_s001_v01__{target}",
        target=target,
        state=State.FAILED,
        reason=reason,
    )


def refused(model: str) -> str:
    return (
        f"{model}: 401: the key was refused (parked; check apikey, model and base_url of {model})"
    )


def test_a_line_about_several_models_says_which_of_them_says_what() -> None:
    long = f"bad: 400: there is no such model ({'x' * REASON}) (parked; check model of bad)"
    several = [failed_row("a", f"a: 422: the request was not accepted ({n})", n) for n in (1, 2)]
    several += [failed_row("b", "b: 400: the request was not accepted (no tools here)")]
    names = [f"model-{n}" for n in range(5)]
    groups = (
        [failed_row("bad", long)],
        several,
        [failed_row(name, refused(name)) for name in names],
        [failed_row(f"m{n}", f"m{n}: 400: no {n}") for n in range(9)],
    )
    approve("\n\n".join(line for rows in groups for line in failure_lines(grouped(rows))))


def test_while_it_runs_each_model_is_told_once_and_the_remedy_once_for_each_kind() -> None:
    news, when = FailureNews(), datetime(2026, 1, 1, tzinfo=UTC)
    facts = [(n, name) for n in (1, 2) for name in "abcdef"]
    told = [
        news.hear(StateChanged(
            seq=place, at=when, benchmark="bread", stage=Stage.SIMULATE, target=name,
            unit=f"m{n:02d}_s001_v01__{name}", was=State.RUNNING, state=State.FAILED,
            reason=refused(name),
        ))
        for place, (n, name) in enumerate(facts, 1)
    ]  # fmt: skip
    advice = KnownFailure.REFUSED_KEY.advice
    first, *more = [line for line in told if line is not None]
    assert first.startswith("m01_s001_v01__a failed: ")
    assert advice in first
    approve(more)


def test_only_what_may_pass_by_itself_is_advised_to_be_run_again() -> None:
    for status in (*range(300, 310), *range(400, 430), *range(500, 530)):
        failure = Failure(Cause.STATUS, status=status)
        needs_a_person = classify(failure) in {
            *(FailureKind.FATAL_TARGET, FailureKind.FATAL_REQUEST, FailureKind.CONTEXT_FULL)
        }
        assert failure_kind(f"gpt: {describe(failure)}").can_pass is not needs_a_person


def test_rows_of_a_target_that_is_taken_out_are_told_nowhere_and_not_tried_again(
    place: Workplace,
) -> None:
    crosswind(place.root, "run", "--headless", "--plain", "--yes", code=1)
    place.configure([{"id": "good", **place.model("steadfast")}], turns=1)
    told = crosswind(place.root, "status", "--json", code=0).json()
    assert {each["kind"] for each in told["failures"]} == {"wrong_shape", "too_long"}
    config = load_config(place.root / "config.yaml")
    infos = describe_benchmarks(Workspace(place.root), config, ["bread"])
    with closing(Watch(open_reader(place.root / "crosswind.db"), infos)) as watch:
        assert how_far(watch)[1] == told["failed"] == 2
        assert sum(len(group.units) for group in failures(watch)) == 2
    place.server.reset()
    crosswind(place.root, "run", "--headless", "--yes", code=0)
    assert place.server.counters.by_role.get("target", 0) <= 1
