"""Failures that explain themselves: the same number and the same kinds wherever they are told."""

from __future__ import annotations

import json
import re
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, CompletedProcess, run

import pytest

from engine.benchmark import Stage, State
from engine.cli.lines import REASON, failure_lines
from engine.pipeline.remedies import KnownFailure, grouped, standing_failures
from engine.store.open_reader import open_reader
from engine.store.tables import StateRow
from engine.watch import Watch, named_only
from tests.engine.wire.workplace import VARIABLES, Workplace, metric, scenario
from tests.protocol_server.faults import Fault
from tests.protocol_server.server import ProtocolServer
from tests.waiting import PATIENCE_S
from tui.launch import farewell
from tui.services.terminal import how_far


@dataclass(frozen=True)
class Shell:
    root: Path

    def __call__(self, *words: str) -> CompletedProcess[str]:
        return run(
            [sys.executable, "-m", "tui", *words, "--workspace", str(self.root)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            stdin=DEVNULL,
            env={"PATH": "/usr/bin:/bin", "NO_COLOR": "1", **VARIABLES},
        )


@pytest.fixture
def place(server: ProtocolServer, tmp_path: Path) -> Workplace:
    """Whose target takes no request, whose one metric is given no scenarios, and that is judged in
    a shape that nobody asked for."""
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


@pytest.mark.process
def test_every_place_tells_the_same_number_and_the_same_kinds(place: Workplace) -> None:
    shell = Shell(place.root)
    ended = shell("run", "--headless", "--plain", "--json", "--yes")
    assert ended.returncode == 1, ended.stderr
    told = json.loads(ended.stdout)
    assert told["failed"] == 3
    kinds = {each["kind"]: each for each in told["failures"]}
    assert set(kinds) == {"bad_request", "wrong_shape", "too_long"}
    assert kinds["too_long"]["rows"] == [
        {"benchmark": "bread", "stage": "gen_scenarios", "id": "m02"}
    ]
    assert not kinds["bad_request"]["may_pass_unchanged"]

    # while it runs: each kind once, when it is first met
    for id_ in ("m02", "m01_s001_v01__bad", "m01_s001_v01__good"):
        assert ended.stderr.count(f"{id_} failed: ") == 1

    status = json.loads(shell("status", "--json").stdout)
    assert (status["failed"], status["failures"]) == (3, told["failures"])
    lines = shell("status").stdout.splitlines()
    assert sum(int(found[1]) for line in lines if (found := re.match(r"(\d+) rows? failed", line)))
    assert len([line for line in lines if re.match(r"1 row failed: ", line)]) == 3
    assert "`crosswind retry` tries all 3 again: 1 may pass as things are" in lines[-1]

    explained = shell("run", "--explain").stdout
    assert explained.count(": failed before: ") == 3
    assert "missing" not in explained.replace("nothing is missing", "")
    assert len(re.findall(r"^1 row failed: ", explained, re.MULTILINE)) == 3

    names = named_only(["bread"])
    with closing(Watch(open_reader(place.root / "crosswind.db"), names)) as watch:
        groups = standing_failures(watch.reader, ["bread"])
        assert sum(len(group.units) for group in groups) == 3
        assert sum(watch.progress.stage_tally("bread", stage).failed for stage in Stage) == 3
        assert how_far(watch)[1] == 3
        said = list(farewell(watch))
    assert "3 failed" in said[0]
    assert [line[:12] for line in said[1:]] == ["1 row failed"] * 3


@pytest.mark.process
def test_a_run_that_fails_for_one_reason_says_it_in_one_line_with_its_ids_and_its_remedy(
    place: Workplace,
) -> None:
    place.server.reset()
    place.server.plan(Fault.BAD_REQUEST, match="erratic")
    place.define("bread", "About bread.", [metric(n, f"Honest {n}.") for n in range(1, 6)])
    place.stage("bread", [scenario(n) for n in range(1, 6)])
    ended = Shell(place.root)("run", "--headless", "--plain", "--yes")
    assert ended.returncode == 1, ended.stderr
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("5 rows failed")]
    assert KnownFailure.BAD_REQUEST.name_in_words in line
    assert re.search(r"\(m0\d_s001_v01__bad, m0\d_\S+, m0\d_\S+ and 2 more\)", line)
    assert "400: the request was not accepted" in line
    assert KnownFailure.BAD_REQUEST.advice in line
    assert "tries them again" not in ended.stderr
    assert "then `crosswind run`: else they will fail again" in ended.stderr
    assert (
        ended.stderr.count(KnownFailure.BAD_REQUEST.advice) == 2
    )  # when it was met, and at the end


def test_a_reason_that_is_cut_says_so() -> None:
    row = StateRow(
        benchmark="bread",
        stage=Stage.SIMULATE,
        unit="m01_s001_v01__bad",
        target="bad",
        state=State.FAILED,
        reason=f"bad: 400: there is no such model ({'x' * REASON}) (parked; check model of bad)",
    )
    [line] = failure_lines(grouped([row]))
    assert f"{'x' * 9}… {KnownFailure.REFUSED_ACCOUNT.advice}" in line
