"""`crosswind results --overall`: the targets over several benchmarks, as text, data and a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.approval import approve, lines_with
from tests.engine import commands
from tests.engine.cli.test_results_command import BENCHMARK, CONFIG
from tests.engine.commands import Crosswind, printed_data
from tests.engine.small_workspace import small_workspace

Export = Callable[..., str]
NAMES = ("giving-in", "pressed", "waiting")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three benchmarks, of which the last has not been played."""
    place = small_workspace(tmp_path_factory.mktemp("overall"), CONFIG)
    for name in NAMES:
        folder = place.folder.parent / name
        folder.mkdir(exist_ok=True)
        (folder / "benchmark.yaml").write_text(BENCHMARK)
    place.run(*NAMES[:2])
    return place.root


@pytest.fixture
def crosswind(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Crosswind:
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *words: commands.crosswind(workspace, "results", *words)


@pytest.fixture
def export(workspace: Path) -> Export:
    return lambda *words: commands.crosswind(workspace, "export", *words, code=0).out


def test_the_table_says_of_what_it_is_the_mean(crosswind: Crosswind) -> None:
    code, out, err = crosswind("--overall")
    assert (code, err) == (0, "")
    approve(out)


def test_details_say_what_the_intervals_are_for(crosswind: Crosswind) -> None:
    _, out, _ = crosswind("--overall", "--details")
    assert max(map(len, out.splitlines())) <= 80
    approve(out)


def test_named_benchmarks_alone_are_put_together(crosswind: Crosswind) -> None:
    _, out, _ = crosswind("pressed", "--overall", "--details")
    assert out.startswith("overall: pressed ")
    assert "left out" not in out


def test_the_data_hold_the_means_of_what_each_benchmark_says(crosswind: Crosswind) -> None:
    each = printed_data(crosswind("--json")[1])
    together = printed_data(crosswind("--overall", "--json")[1])
    assert (together["benchmarks"], together["nothing_scored"]) == ([*NAMES[:2]], ["waiting"])
    assert {one["target_model"] for one in together["targets"]} == {"holds", "gives-in"}
    for row in together["targets"]:
        own = [_of(each[name], row["target_model"]) for name in NAMES[:2]]
        assert row["positive_pass_rate"] == mean(one["positive_pass_rate"] for one in own)
        assert row["negative_pass_rate"] is None
        assert row["n_total"] == sum(one["n_total"] for one in own)
        assert row["exposure"]["conversations"] == 16
        pair = row["comparisons"]["targets"][0]
        assert pair["benchmarks"] == 2
        assert pair["difference"] == pytest.approx(
            mean(one["comparisons"]["targets"][0]["difference"] for one in own)
        )
        assert row["comparisons"]["targets_for_benchmarks_like_these"] == []
        assert list(row["_crosswind"]["judges"]) == ["offline:evaluator"]


def _of(rows: list[dict[str, Any]], target: str) -> dict[str, Any]:
    return next(row for row in rows if row["target_model"] == target)


def test_a_page_of_several_benchmarks_begins_with_them_together(
    export: Export, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    export("html", "--out", str(page))
    text = page.read_text()
    assert text.index("2 benchmarks together") < text.index("Giving in</span>")
    assert text.count('<article id="') == 4
    approve(
        lines_with(
            text, "2 targets in 32 scored", "4 scenarios in 2 benchmarks", "A target&#39;s rate"
        )
    )

    export("html", "giving-in", "--out", str(page))
    alone = page.read_text()
    assert "benchmarks together" not in alone
    assert alone.count('<article id="') == 1


def test_a_gate_can_be_held_against_all_benchmarks_together(crosswind: Crosswind) -> None:
    code, _, err = crosswind("--overall", "--fail-under", "positive=0.99")
    assert code in {1, 5}
    assert "overall" in err
    assert "giving-in" not in err


def test_methods_end_with_how_benchmarks_were_put_together(crosswind: Crosswind) -> None:
    _, alone, _ = crosswind("--methods")
    _, out, _ = crosswind("--overall", "--methods")
    assert out.startswith(alone.rstrip())
    approve(lines_with(out, "2 benchmarks were put", "In waiting nothing"))
