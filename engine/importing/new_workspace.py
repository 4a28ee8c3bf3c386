"""Makes the workspace that an import fills: its configuration is that of the imported folder, with
the targets and the number of samples that were found in its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from engine.config.checks import current_words
from engine.config.schemas import CONFIG_MODELINE
from engine.config.secrets import Secret
from engine.config.templates import init_workspace
from engine.config.workspace import Workspace
from engine.config.yaml_text import read_yaml
from engine.files import replace_file
from engine.importing.report import UnknownTarget

_ROLES: Final = ("user_model", "evaluator_model", "generator_model")
_KEPT: Final = ("generation", "demographics", "landmarks", "perfunctory")
_HEAD: Final = """\
# Made by `crosswind import`. Keys are looked up in the environment and in .env by these names.
# `crosswind init DIR` makes a config.yaml that explains every key.
"""


def make_workspace(folder: Path, imported: Path | None) -> Workspace:
    """Make a workspace with the models of the imported `config.yaml`, or else with those of a new
    workspace. Raises `InputError`."""
    theirs = {} if imported is None else current_words(read_yaml(imported)).data
    workspace = Workspace(folder)
    init_workspace(folder)
    starter = read_yaml(workspace.config_path).data
    kept = {key: _without_keys(theirs.get(key) or starter.get(key)) for key in _ROLES}
    kept |= {key: theirs[key] for key in _KEPT if key in theirs}
    targets = theirs.get("targets")
    listed = targets if isinstance(targets, list) and targets else starter["targets"]
    _write(workspace, {**kept, "targets": [_without_keys(target) for target in listed]})
    return workspace


def complete_configuration(
    workspace: Workspace, found: Sequence[UnknownTarget], num_samples: int, *, add: bool
) -> None:
    """Write the targets that were found into the configuration of a workspace made for them, after
    those that stand there if `add`, or else in their place, and the number of samples."""
    config = dict(read_yaml(workspace.config_path).data)
    targets = [target for line in found for target in yaml.safe_load(line.as_yaml())]
    if targets:
        config["targets"] = [*(config["targets"] if add else []), *targets]
    made = dict(config.get("generation") or {})
    config["generation"] = {**made, "num_samples": max(num_samples, made.get("num_samples", 1))}
    _write(workspace, config)


def _without_keys(model: Any) -> Any:
    """Leave out headers, and a key that is not the name of a variable."""
    if not isinstance(model, dict):
        return model
    kept = {key: value for key, value in model.items() if "headers" not in str(key)}
    if not Secret(str(kept.get("apikey"))).is_reference:
        kept.pop("apikey", None)
    return kept


def _write(workspace: Workspace, config: Mapping[str, Any]) -> None:
    text = yaml.safe_dump(dict(config), allow_unicode=True, sort_keys=False, width=100)
    replace_file(workspace.config_path, (CONFIG_MODELINE + _HEAD + text).encode())
