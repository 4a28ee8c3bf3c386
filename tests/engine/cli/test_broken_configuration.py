"""A slip in `config.yaml` does not stop what only tells what the store knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.cli.main import main
from tests.engine.small_workspace import Place, small_workspace

KEY = "m01_s001_v01__holds"


@pytest.fixture
def place(played: Place) -> Place:
    played.edit(played.config, "turns: 2", "turnz: 2")
    return played


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", KEY), KEY),
        (("show", "m01_s001_v01"), "conversations"),
        (("search", "the"), "giving-in"),
        (("results",), "holds"),
        (("export", "--format", "csv"), KEY),
        (("status",), "wavers"),
    ],
    ids=["show", "show scenario", "search", "results", "export", "status"],
)
def test_commands_that_only_read_go_on_with_the_last_run_s_configuration(
    place: Place, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str
) -> None:
    assert main([*words, "--workspace", str(place.root)]) == 0
    shown = capsys.readouterr()
    assert told in shown.out
    assert f"note: {place.config}:5" in shown.err
    assert "turnz" in shown.err
    assert "by the configuration of the run of" in shown.err
    assert "the judges that count are evaluator" in shown.err.replace("offline:", "")


def test_what_writes_or_runs_does_not_go_on_with_it(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (("run", "--headless"), ("mirror",), ("retry",)):
        assert main([*words, "--workspace", str(place.root)]) == 2
        assert "turnz" in capsys.readouterr().err


def test_where_nothing_has_run_the_slip_is_all_there_is_to_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = small_workspace(tmp_path)
    place.config.write_text("half: [", "utf-8")
    assert main(["results", "--workspace", str(tmp_path)]) == 2
    assert "config.yaml" in capsys.readouterr().err
