"""Every published number says which program, configuration, prompts and models it comes from."""

from __future__ import annotations

import csv
import io
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from engine.analysis.provenance import served_words
from engine.benchmark import Role, Stage, Usage
from engine.config.schema import load_config
from engine.identity import digest
from engine.store.database import open_store
from engine.store.tables import AttemptRow
from tests.approval import approve
from tests.engine.commands import crosswind
from tests.engine.small_workspace import Place, small_workspace
from tests.engine.store.building import write


def answered(role: Role, model: str, served: str, outcome: str = "answer") -> AttemptRow:
    return AttemptRow(
        benchmark="giving-in",
        stage=Stage.SIMULATE,
        unit="m01_s001_v01__holds",
        role=role,
        model=model,
        outcome=outcome,
        duration_ms=1,
        usage=Usage(1),
        served=served,
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = small_workspace(tmp_path_factory.mktemp("provenance"))
    place.run()
    with open_store(place.root / "crosswind.db") as store:
        write(
            store,
            answered(Role.TARGET, "offline:steadfast", "steadfast-2"),
            answered(Role.TARGET, "offline:steadfast", "steadfast-1"),
            answered(Role.TARGET, "offline:steadfast", "not-from-here", "server_error"),
            answered(Role.USER, "offline:steadfast", "another-role"),
        )
    return place


def test_each_row_of_the_results_says_what_it_was_made_with(played: Place) -> None:
    rows = {
        row["target_model"]: row["_crosswind"]
        for row in crosswind(played.root, "results", "--json").json()["giving-in"]
    }
    holds = rows["holds"]
    assert holds["version"] == version("crosswind")
    assert holds["configuration"] == digest(load_config(played.config).public())
    assert holds["targets"] == {"offline:steadfast": ["steadfast-1", "steadfast-2"]}
    assert rows["wavers"]["targets"] == {"offline:erratic": []}
    assert holds["user_models"] == {"offline:user": []}
    assert holds["judges"] == {"offline:evaluator": []}
    assert holds["left_out"] == {"conversations": 0, "targets": []}
    with played.reader() as reader:
        takes = [take for take in reader.takes("giving-in") if take.key.target_id == "holds"]
        verdicts = [one for take in takes for one in reader.verdicts(take.seq)]
    of_takes = {take.depends["prompt"] for take in takes if take.depends}
    of_verdicts = {verdict.depends["prompt"] for verdict in verdicts if verdict.depends}
    assert holds["prompts"] == {
        "simulate": sorted(of_takes),
        "evaluate": sorted(of_verdicts),
    }
    assert len(of_takes) == 2  # one for each type of metric
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]+\+00:00", holds["first_at"])
    assert holds["first_at"] <= holds["last_at"]


def test_another_configuration_has_another_digest(tmp_path: Path) -> None:
    place = small_workspace(tmp_path)
    place.run()

    def configuration() -> str:
        [row, *_] = crosswind(place.root, "results", "--json").json()["giving-in"]
        return str(row["_crosswind"]["configuration"])

    before = configuration()
    assert configuration() == before
    place.edit(place.config, "evaluate: 8", "evaluate: 9")
    assert configuration() != before


def test_the_lines_for_a_spreadsheet_say_it_behind_the_columns_of_before(played: Place) -> None:
    lines = list(csv.DictReader(io.StringIO(crosswind(played.root, "export", "rates").out)))
    names = list(lines[0])
    assert names[:9] == [
        *("benchmark", "target", "metric", "pass_rate", "low", "high"),
        *("n_passed", "n_total", "served_by_others"),
    ]
    first = next(line for line in lines if (line["target"], line["metric"]) == ("holds", "m02"))
    assert (first["metric_name"], first["metric_type"]) == ("Avoid flattery", "negative")
    assert int(first["n_total"]) + int(first["unscored"]) == 4
    assert float(first["n_effective"]) > 0
    assert first["base_scenarios"] == "2"
    assert first["target_model"] == "offline:steadfast (steadfast-1, steadfast-2)"
    assert first["judges"] == "offline:evaluator"
    assert first["prompts"].count("simulate:") == 2
    assert first["crosswind"] == version("crosswind")
    assert first["left_out"] == "0"


def test_the_page_says_it(played: Place, tmp_path: Path) -> None:
    crosswind(played.root, "export", "html", "--out", str(tmp_path / "page.html"), code=0)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Where these numbers" in page
    assert "offline:steadfast (steadfast-1, steadfast-2)" in page
    assert f"Counted by Crosswind {version('crosswind')}, configuration" in page


def test_a_name_that_a_server_repeats_is_said_once() -> None:
    served = {"gpt-5": ["gpt-5", "gpt-5-2026-08-07"], "mine": ["mine"], "quiet": []}
    approve(served_words(served))
