"""Workspaces: finding them, naming what is in them, and never leaving them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engine.config.benchmark_file import load_definition
from engine.config.schema import load_config
from engine.config.templates import init_workspace, new_benchmark
from engine.config.workspace import Workspace, find_workspace
from engine.errors import InputError
from tests.approval import approve

Refused = Callable[[Callable[[], object]], InputError]

BENCHMARK = "name: x\ndescription: y\n"
UNSAFE = ["../x", "/x", "", "a" * 300, "a\0b", "a\nb", "..", "-rf", "a/b", ".hidden", "é", "a__b"]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    for name in ("zebra", "own-view", "empty"):
        (tmp_path / "benchmarks" / name).mkdir(parents=True)
    for name in ("zebra", "own-view"):
        (tmp_path / "benchmarks" / name / "benchmark.yaml").write_text(BENCHMARK)
    return Workspace(tmp_path)


def test_a_workspace_is_found_from_within(workspace: Workspace) -> None:
    inside = workspace.benchmarks_dir / "zebra"
    assert find_workspace(inside) == find_workspace(workspace.root) == workspace
    assert workspace.config_path == workspace.root / "config.yaml"


def test_where_there_is_no_workspace_the_way_to_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        find_workspace(tmp_path)
    assert "`crosswind init DIR`" in str(caught.value)
    assert "`crosswind demo`" in str(caught.value)
    with pytest.raises(InputError, match="no such folder"):
        find_workspace(tmp_path / "gone")
    with pytest.raises(InputError, match="no such folder"):
        find_workspace(Path("a\0b"))


def test_benchmarks_are_the_folders_with_a_definition(workspace: Workspace) -> None:
    assert workspace.benchmark_names() == ("own-view", "zebra")
    assert workspace.benchmark_problems() == ()
    assert workspace.require_benchmarks([]) == ["own-view", "zebra"]
    assert workspace.require_benchmarks(["zebra", "zebra"]) == ["zebra"]
    assert Workspace(workspace.root / "gone").benchmark_names() == ()


def test_folders_that_cannot_be_benchmarks_are_told_apart(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "benchmark.yaml").write_text(BENCHMARK)
    for name in ("a b", "Zebra", ".git"):
        (workspace.benchmarks_dir / name).mkdir()
        (workspace.benchmarks_dir / name / "benchmark.yaml").write_text(BENCHMARK)
    (workspace.benchmarks_dir / "linked").symlink_to(outside)
    assert workspace.benchmark_names() == ("Zebra", "own-view")
    told = "\n".join(str(problem) for problem in workspace.benchmark_problems())
    approve(told)
    with pytest.raises(InputError, match="leads out of the workspace"):
        workspace.definition_path("linked")
    with pytest.raises(InputError, match="leads out of the workspace"):
        workspace.require_benchmarks(["linked"])


def test_an_unsafe_name_is_refused_with_the_rule(workspace: Workspace, refused: Refused) -> None:
    told = []
    for name in UNSAFE:
        actions = (
            partial(workspace.definition_path, name),
            partial(workspace.require_benchmarks, [name]),
            partial(new_benchmark, workspace, name),
        )
        [text] = {str(refused(action)) for action in actions}
        assert text.isprintable()
        assert len(text) < 200
        told.append(text)
    approve("\n".join(told))


def test_every_unknown_benchmark_is_told_with_the_nearest_known_one(workspace: Workspace) -> None:
    with pytest.raises(InputError) as caught:
        workspace.require_benchmarks(["zebra", "own-veiw", "zzz", "empty"])
    first, second, third = (str(problem) for problem in caught.value.problems)
    approve(first)
    approve(second)
    approve(third)


def test_a_workspace_without_benchmarks_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="crosswind new NAME"):
        Workspace(tmp_path).require_benchmarks([])


def test_the_store_is_in_the_workspace_unless_said_otherwise(
    workspace: Workspace, tmp_path: Path
) -> None:
    text = """\
user_model: {model: user, source: offline}
evaluator_model: {model: evaluator, source: offline}
targets: [{id: a, model: erratic, source: offline}]
"""

    def store(path: str | None) -> Path:
        workspace.config_path.write_text(text + ("" if path is None else f"store: {path}\n"))
        return workspace.store_path(load_config(workspace.config_path))

    (tmp_path / "folder").mkdir()
    assert store(None) == tmp_path / "crosswind.db"
    assert store("x.db") == tmp_path / "x.db"
    assert store("folder") == tmp_path / "folder" / "crosswind.db"
    assert store("new/") == tmp_path / "new" / "crosswind.db"
    assert store("/var/x.db") == Path("/var/x.db")
    assert store("~/x.db") == Path.home() / "x.db"
    with pytest.raises(InputError, match="home folder is not known"):
        store("~nobody-of-this-name/x.db")


def test_init_makes_a_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "deep"
    written = init_workspace(folder)
    assert [path.name for path in written] == ["config.yaml", ".env.example", ".gitignore"]
    config = load_config(find_workspace(folder).config_path)
    assert config.warnings == ()
    assert all(model.is_offline for model in (config.user_model, config.generator, *config.targets))
    ignored = (folder / ".gitignore").read_text().splitlines()
    assert {"crosswind.db*", "search.db*", ".env", "crosswind.lock"} <= set(ignored)


def test_what_the_config_comments_suggest_can_be_uncommented(tmp_path: Path) -> None:
    [path, *_] = init_workspace(tmp_path)
    text = path.read_text()
    for commented in (
        "  # - id: gpt-5.4",
        "  #   model: gpt-5.4",
        "  #   source: openai",
        "  #   apikey",
    ):
        assert commented in text
        text = text.replace(commented, commented.replace("# ", "", 1))
    for commented in ("# default_system_prompt", "# models:", "#   strict:", "# store:"):
        assert commented in text
        text = text.replace(commented, commented.replace("# ", "", 1).replace("#", "", 1))
    text = text.replace("demographics: {}\n# ", "demographics:\n ")
    path.write_text(text)
    config = load_config(path)
    assert [target.id for target in config.targets] == ["steadfast", "pushover", "gpt-5.4"]
    assert list(config.demographics) == ["age"]
    assert config.model_named("strict").is_offline


def test_init_leaves_what_is_there(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / ".gitignore").write_text("mine")
    assert [path.name for path in init_workspace(tmp_path)] == ["config.yaml", ".env.example"]
    assert (tmp_path / ".gitignore").read_text() == "mine"
    assert "is there already" in str(refused(lambda: init_workspace(tmp_path)))


def test_init_where_nothing_can_be_written_changes_nothing(
    tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "file").write_text("x")
    assert "so nothing was" in str(refused(lambda: init_workspace(tmp_path / "file" / "x")))
    assert "so nothing was" in str(refused(lambda: init_workspace(tmp_path / "new" / ("x" * 300))))


@pytest.mark.parametrize(
    ("name", "title"),
    [("own-judgement", "Own judgement"), ("no", "No"), ("2024", "2024"), ("a.b_c", "A.b c")],
)
def test_a_new_benchmark_loads_as_it_is(tmp_path: Path, name: str, title: str) -> None:
    [path] = new_benchmark(Workspace(tmp_path), name)
    definition = load_definition(path)
    assert (definition.name, definition.title, definition.metrics) == (name, title, ())
    notes, examples = path.read_text().split("# metrics:")
    path.write_text(notes + "metrics:" + examples.replace("\n#", "\n"))
    assert [metric.id for metric in load_definition(path).metrics] == ["m01", "m02"]


def test_a_benchmark_is_never_written_over(workspace: Workspace, refused: Refused) -> None:
    for name in ("zebra", "ZEBRA", "empty"):
        error = refused(partial(new_benchmark, workspace, name))
        approve(str(error))
