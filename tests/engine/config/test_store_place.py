"""Where the store is can be told from the file alone, as the whole configuration would tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.schema import load_config
from engine.config.workspace import Workspace
from engine.errors import InputError
from tests.engine.small_workspace import CONFIG


@pytest.mark.parametrize(
    "line",
    [
        "",
        "# store: elsewhere.db",
        "store: elsewhere.db",
        "store: folder/  # of results",
        '"store": elsewhere.db',
        '"st\\x6fre": elsewhere.db',
        "? store\n: elsewhere.db",
        "store:",
        "default_system_prompt: You work in a store.",
    ],
)
def test_it_is_where_the_whole_configuration_says(tmp_path: Path, line: str) -> None:
    workspace = Workspace(tmp_path)
    workspace.config_path.write_text(f"{CONFIG}{line}\n", "utf-8")

    config = load_config(workspace.config_path)

    assert workspace.written_store_path(config.path) == workspace.store_path(config)


def test_what_else_is_wrong_is_left_to_whoever_reads_all_of_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.config_path.write_text("nonsense: 1\nstore: elsewhere.db\n", "utf-8")
    assert workspace.written_store_path(workspace.config_path) == tmp_path / "elsewhere.db"

    workspace.config_path.write_text("store: [\n", "utf-8")
    with pytest.raises(InputError, match="never closed"):
        workspace.written_store_path(workspace.config_path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        Workspace(tmp_path).written_store_path(tmp_path / "config.yaml")
