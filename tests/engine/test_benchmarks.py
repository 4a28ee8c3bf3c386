"""The list of the benchmarks, and the frame that all of them stand in."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks.frame import Row

FOLDER = Path(benchmarks.__file__).parent
SIMULATIONS = FOLDER.parents[1] / "tools" / "simulations"
CLIENTS = {"bare_client"}
"""A program that a benchmark starts, in a process that has nothing else."""


def test_a_bound_that_is_missed_fails_the_benchmark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(bound: int) -> Iterator[Row]:
        yield Row("it", "5", f"{bound}", missed=bound < 5)

    monkeypatch.setattr(benchmarks.Benchmark, "run", lambda _: measured)
    monkeypatch.setattr(benchmarks, "machine", lambda: "this machine")
    assert benchmarks.main(["house", "6"]) == 0
    table = "\n| what | takes | may take |\n|---|---|---|\n| it | 5 | 6 |\n"
    assert capsys.readouterr().out.startswith("this machine\n\n**house**: ")
    with pytest.raises(SystemExit) as ended:
        benchmarks.main(["house", "4"])
    assert ended.value.code == 1
    assert capsys.readouterr().out.endswith(table.replace("6 |", "4 | missed"))


def test_each_that_is_listed_is_there_and_each_file_belongs_to_one() -> None:
    paths = {path.stem: path for path in FOLDER.glob("*.py")}
    paths |= {f"tools.simulations.{path.stem}": path for path in SIMULATIONS.glob("*.py")}
    trees = {name: ast.parse(path.read_bytes()) for name, path in paths.items()}
    defined = {
        (module, node.name)
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node)
    }
    assert {
        (benchmark.module, benchmark.function) for benchmark in benchmarks.BENCHMARKS.values()
    } <= defined
    used = {
        name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for name in (node.module, node.module.rpartition(".")[2])
    }
    listed = {benchmark.module for benchmark in benchmarks.BENCHMARKS.values()}
    assert trees.keys() - used - listed == {"__main__"} | CLIENTS - used
