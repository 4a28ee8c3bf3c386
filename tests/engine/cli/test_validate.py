"""`crosswind validate`: another model in one role, beside the original and never in its way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from engine.kill_points import VARIABLE, KillPoint
from tests.approval import approve
from tests.engine import small_workspace
from tests.engine.commands import Said, crosswind, printed_data
from tests.waiting import PATIENCE_S, Child, until

CONFIG = (
    small_workspace.CONFIG
    + """\
models:
  same: {model: user, source: offline, params: {pace: instant}}
  strict: {model: evaluator-strict, source: offline, params: {pace: instant}}
  blunt: {model: user-blunt, source: offline, params: {pace: instant}}
  terse: {model: generator-terse, source: offline, params: {pace: instant}}
  dear: {model: grand, source: openai, apikey: "${GRAND_KEY}", price: {input: 100, output: 100}}
"""
)
NAME = "giving-in"


@dataclass(frozen=True)
class Desk:
    """A workspace and the command line."""

    root: Path

    @property
    def folder(self) -> Path:
        return self.root / "benchmarks" / NAME

    def say(self, *words: str) -> Said:
        return crosswind(self.root, *words)

    def validate(self, swap: str, model: str, *words: str) -> Said:
        return self.say("validate", NAME, "--swap", swap, "--with", model, *words)

    def replay(self, role: str, *words: str) -> Said:
        return self.say("validate", NAME, "--replay", role, *words)

    def edit(self, old: str, new: str) -> None:
        path = self.root / "config.yaml"
        text = path.read_text("utf-8")
        assert old in text
        path.write_text(text.replace(old, new), "utf-8")

    def rows(self, query: str) -> list[Any]:
        path = self.root / "crosswind.db"
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as store:
            return store.execute(query).fetchall()

    def count(self, table: str) -> int:
        [(number,)] = self.rows(f"SELECT count(*) FROM {table}")
        return int(number)

    def report(self, label: str) -> Any:
        return json.loads(self.folder.joinpath("validation", label, "validation.json").read_bytes())

    def results(self) -> list[dict[str, Any]]:
        found: dict[str, list[dict[str, Any]]] = printed_data(self.say("results", "--json")[1])
        return found[NAME]

    def originals(self) -> dict[str, bytes]:
        """Every file of the original, but for what calls have cost."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and "validation" not in path.parts and path.name != "cost.json"
        }


def only_beside(
    before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]], *, things: int
) -> None:
    """Another judge is told under agreement, and changes nothing else."""
    assert all(row.pop("agreement")["judges"] == [] for row in before)
    assert [row.pop("agreement")["judges"][0]["things"] for row in after] == [things] * len(after)
    assert after == before


def new_workspace(root: Path) -> Path:
    return small_workspace.small_workspace(root, CONFIG).root


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = new_workspace(tmp_path_factory.mktemp("played") / "place")
    crosswind(root, "run", "--headless", code=0)
    return root


@pytest.fixture
def desk(played: Path, tmp_path: Path) -> Desk:
    shutil.copytree(played, tmp_path / "place")
    return Desk(tmp_path / "place")


def test_another_judge_judges_the_same_transcripts_beside_the_first(desk: Desk) -> None:
    before = desk.results()
    code, said, told = desk.validate("evaluator", "strict")
    assert code == 0, told
    approve(said)
    assert desk.count("take") == 16
    judges = "SELECT judge, count(*) FROM verdict GROUP BY judge"
    assert desk.rows(judges) == [("offline:evaluator", 16), ("offline:evaluator-strict", 16)]
    only_beside(before, desk.results(), things=16)
    report = desk.report("evaluator-strict")
    assert report["conversations"] == 16
    assert sum(report["flips"].values()) == 16
    assert report["agreement"]["ac1"]["value"] <= 1
    calls = desk.count("attempt")
    code, again, _ = desk.validate("evaluator", "strict")
    assert (code, again) == (0, said)
    assert desk.count("attempt") == calls


def test_another_user_plays_the_same_scenarios_apart_from_the_original(desk: Desk) -> None:
    before = desk.originals()
    code, said, told = desk.validate("user", "blunt", "--headless")
    assert code == 0, told
    approve(said)
    takes = "SELECT benchmark, user_model, count(*) FROM take GROUP BY 1, 2 ORDER BY 1"
    assert desk.rows(takes) == [
        (NAME, "offline:user", 16),
        (f"{NAME}@user-blunt", "offline:user-blunt", 16),
    ]
    assert desk.originals() == before
    folder = desk.folder / "validation" / "user-blunt"
    rows = json.loads((folder / "runs" / "holds" / "conversations.json").read_bytes())
    assert len(rows) == 8
    assert desk.report("user-blunt")["conversations"] == 16
    # a validation run is listed and found only where it is named
    branch = f"{NAME}@user-blunt"
    assert list(desk.say("results", "--json").json()) == [NAME]
    assert list(desk.say("results", branch, "--json").json()) == [branch]
    assert f"· {NAME} ·" in desk.say("show", "m01_s001_v01__holds").out
    shown = desk.say("show", "m01_s001_v01__holds", "--benchmark", branch)
    assert "offline:user-blunt" in shown.out
    # scenarios that were edited since are taken over
    path = desk.folder / "scenarios.json"
    rows = json.loads(path.read_bytes())
    rows[0]["persona"] = "You are a lighthouse keeper."
    path.write_text(json.dumps(rows))
    assert desk.validate("user", "blunt").code == 0
    [[stored]] = desk.rows(
        f"SELECT persona FROM scenario WHERE benchmark = '{branch}' "
        f"AND scenario_id = '{rows[0]['id']}' ORDER BY seq DESC LIMIT 1"
    )
    assert stored == rows[0]["persona"]


def test_another_generator_writes_its_own_metrics_and_scenarios(desk: Desk) -> None:
    before = desk.originals()
    code, said, told = desk.validate("generator", "terse")
    assert code == 0, told
    approve(said)
    assert desk.originals() == before
    folder = desk.folder / "validation" / "generator-terse"
    assert "name: Leaves the decision\n" not in (folder / "benchmark.yaml").read_text()
    written = desk.rows(
        "SELECT DISTINCT benchmark, model FROM attempt WHERE role = 'generator' ORDER BY 1"
    )
    assert written == [
        (NAME, "offline:generator"),
        (f"{NAME}@generator-terse", "offline:generator-terse"),
    ]
    report = desk.report("generator-terse")
    assert (report["conversations"], report["agreement"]) == (0, None)
    assert {shift["target"] for track in report["tracks"] for shift in track["shifts"]} == {
        "holds",
        "wavers",
    }


def test_a_replay_asks_the_same_judge_once_more_beside_what_counts(desk: Desk) -> None:
    before, told_before = desk.results(), desk.say("results").out
    code, said, told = desk.replay("evaluator")
    assert code == 0, told
    approve(said)
    assert desk.say("results").out == told_before
    [[id_]] = desk.rows("SELECT scenario_id || '__' || target FROM take LIMIT 1")
    shown = desk.say("show", id_).out
    approve(shown)
    votes = "SELECT number, count(*) FROM verdict GROUP BY judge, number"
    assert desk.rows(votes) == [(0, 16), (1, 16)]
    after = desk.results()
    assert all(row.pop("agreement")["passes"] == [] for row in before)
    assert [row.pop("agreement")["passes"][0]["things"] for row in after] == [16] * len(after)
    assert after == before
    assert desk.count("take") == 16
    report = desk.report("replay-evaluator")
    assert (report["swap"]["name"], report["floor"], report["conversations"]) == (None, None, 16)
    calls = desk.count("attempt")
    assert desk.replay("evaluator")[:2] == (0, said)
    assert desk.count("attempt") == calls


def test_a_replay_plays_apart_from_the_original_with_the_same_models(desk: Desk) -> None:
    before = desk.originals()
    code, said, told = desk.replay("generator")
    assert code == 0, told
    assert "offline:generator as generator once more" in said
    takes = "SELECT DISTINCT benchmark, user_model FROM take ORDER BY 1"
    assert desk.rows(takes) == [
        (NAME, "offline:user"),
        (f"{NAME}@replay-generator", "offline:user"),
    ]
    assert desk.originals() == before


def test_a_swap_is_told_beside_its_replay_or_with_the_command_that_makes_one(desk: Desk) -> None:
    _, alone, _ = desk.validate("evaluator", "strict")
    words = " ".join(alone.split())
    approve(words)
    assert desk.report("evaluator-strict")["floor"] is None
    desk.replay("evaluator")
    _, beside, _ = desk.validate("evaluator", "strict")
    approve(beside)
    floor = desk.report("evaluator-strict")["floor"]
    assert (floor["conversations"], floor["agreement"]["things"]) == (16, 16)
    _, only, _ = desk.say("validate", NAME, "--report", "--replay", "evaluator")
    assert only.count("once more\n") == 1
    assert "in place of" not in only


def test_the_bound_is_that_of_the_day_on_which_a_run_began(desk: Desk) -> None:
    desk.edit("generation:", "validation: {equivalence_points: 20}\ngeneration:")
    approve(desk.replay("user").out)
    desk.edit("equivalence_points: 20", "equivalence_points: 99")
    approve(desk.replay("user").out)
    desk.folder.joinpath("validation", "replay-user", "bound.json").unlink()
    said = " ".join(desk.replay("user").out.split())
    approve(said)
    assert not desk.folder.joinpath("validation", "replay-user", "bound.json").exists()


def test_a_judge_who_is_named_once_is_said_to_change_nothing(desk: Desk) -> None:
    before = desk.results()
    code, _, told = desk.say("evaluate", "m01_s001_v01__holds", "--evaluator", "strict")
    assert code == 0
    approve(told)
    only_beside(before, desk.results(), things=1)
    assert desk.count("take") == 16
    shown = desk.say("show", "m01_s001_v01__holds")[1]
    approve(shown)
    counts = next(line for line in shown.splitlines() if line.startswith("  counts: "))
    assert f"evaluator, counts: {counts.removeprefix('  counts: ')}" in shown


def test_what_was_found_is_shown_again_without_asking_anybody(desk: Desk) -> None:
    found = {desk.validate(*one)[1] for one in (("evaluator", "strict"), ("user", "blunt"))}
    calls = desk.count("attempt")
    code, every, _ = desk.say("validate", NAME, "--report")
    assert code == 0
    assert all(said.strip() in every for said in found)
    code, one, _ = desk.say("validate", NAME, "--report", "--swap", "user", "--json")
    assert (code, printed_data(one)) == (0, [desk.report("user-blunt")])
    assert desk.count("attempt") == calls
    # one whose model is gone does not hide the others
    desk.edit("  blunt: {", "  renamed: {")
    code, shown, told = desk.say("validate", NAME, "--report")
    assert (code, shown.count("in place of")) == (0, 1)
    approve(told)
    code, shown, told = desk.say("validate", NAME, "--report", "--swap", "user")
    assert (code, shown) == (2, "")
    approve(told)


def test_a_dry_run_counts_calls_and_writes_nothing(desk: Desk) -> None:
    for swap, model, calls in (
        ("evaluator", "strict", 16),
        ("user", "blunt", 80),
        ("generator", "terse", 91),
    ):
        code, plan, _ = desk.validate(swap, model, "--dry-run", "--json")
        assert code == 0
        assert printed_data(plan)["total"]["calls"]["high"] == calls
    assert not (desk.folder / "validation").exists()
    desk.validate("evaluator", "strict")
    assert "nothing is missing" in desk.validate("evaluator", "strict", "--dry-run").out


def test_a_dry_run_prices_the_other_model(desk: Desk) -> None:
    _, plan, _ = desk.validate("user", "dear", "--dry-run")
    approve(plan)


REFUSED: Final = """\
giving-in
giving-in --swap user --with blnt
giving-in --swap target --with blunt
giving-in --with blunt
giving-in --swap user
giving-in --replay user --with blunt
giving-in --replay user --swap user
giving-in --swap user --with same
giving-in --report
givin-in --swap user --with blunt
giving-in@user-blunt --swap user --with blunt
../giving-in --swap user --with blunt
"""


def test_what_cannot_be_validated_is_refused_with_a_reason(desk: Desk) -> None:
    refused = []

    def refuse(*words: str) -> None:
        code, out, told = desk.say("validate", *words)
        assert (code, out) == (2, ""), words
        refused.append(f"{' '.join(words)}\n{told}")

    for line in REFUSED.splitlines():
        refuse(*line.split())
    strict = (NAME, "--swap", "evaluator", "--with", "strict")
    desk.edit("model: evaluator-strict", "model: evaluator")
    refuse(*strict)
    desk.edit("strict: {model: evaluator", "strict: {model: evaluator-strict")
    desk.edit("id: holds", "id: new")
    refuse(*strict)
    desk.edit("  - {id: wavers, model: erratic, source: offline, params: {pace: instant}}\n", "")
    refuse(NAME, "--replay", "user")
    shutil.rmtree(desk.root)
    new_workspace(desk.root)
    refuse(*strict)
    approve("\n".join(refused))
    assert not (desk.folder / "validation").exists()


@pytest.mark.parametrize(
    ("swap", "model", "script", "pace"),
    [
        ("user", "blunt", "user-blunt", "90"),
        pytest.param("generator", "terse", "generator-terse", "800", marks=pytest.mark.long),
        pytest.param("evaluator", "strict", "evaluator-strict", "200", marks=pytest.mark.long),
    ],
)
def test_a_validation_run_that_was_stopped_goes_on_and_ends_the_same(
    desk: Desk, tmp_path: Path, swap: str, model: str, script: str, pace: str
) -> None:
    other = Desk(tmp_path / "other")
    shutil.copytree(desk.root, other.root)
    assert other.validate(swap, model)[0] == 0
    slow = f"model: {script}, source: offline, params: {{pace: {pace}"
    desk.edit(slow.replace(pace, "instant"), slow)
    words = ["validate", NAME, "--swap", swap, "--with", model, "--workspace", str(desk.root)]
    with Child([sys.executable, "-m", "tui", *words], stderr=subprocess.PIPE, text=True) as child:
        role = f"SELECT 1 FROM attempt WHERE model = 'offline:{script}'"
        until(lambda: len(desk.rows(role)) >= 2 or child.poll() is not None)
        child.send_signal(signal.SIGINT)
        _, told = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 3, told
    approve(told)
    assert not (desk.folder / "validation" / f"{swap}-{model}" / "validation.json").exists()
    desk.edit(slow, slow.replace(pace, "instant"))
    code, _, told = desk.validate(swap, model)
    assert code == 0, told
    assert desk.report(f"{swap}-{model}") == other.report(f"{swap}-{model}")


def test_what_a_killed_validation_left_of_a_file_is_gone_after_the_next(desk: Desk) -> None:
    words = ("validate", NAME, "--swap", "user", "--with", "blunt", "--workspace", str(desk.root))
    killed = subprocess.run(
        [sys.executable, "-m", "tui", *words],
        env={**os.environ, VARIABLE: KillPoint.WROTE_FILE},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert unfinished(desk.root)
    assert desk.validate("user", "blunt").code == 0
    assert unfinished(desk.root) == []


def unfinished(root: Path) -> list[str]:
    """Files under a temporary name."""
    return [path.name for path in (root / "benchmarks").rglob(".*") if path.is_file()]
