"""Makes files: a workspace that runs at once, and a benchmark, commented or ready to run.

The benchmarks to begin from are in `starters/benchmarks/`. In their `scenarios.yaml` a base
scenario stands once. Its variants differ only in the sentences that say who the person is, so that
whatever differs between groups comes from these sentences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import product
from pathlib import Path
from string import Template
from typing import Any, Final

from engine.benchmark import scenario_id, variant_id
from engine.config.schemas import BENCHMARK_MODELINE, CONFIG_MODELINE, FOLDER, SCHEMAS
from engine.config.workspace import BENCHMARK_FILE, CONFIG_FILE, Workspace, check_name
from engine.config.yaml_text import parse_yaml
from engine.errors import InputError, Problem
from engine.files import read_regular, sync

_FOLDER: Final = files("engine.config").joinpath("starters", "benchmarks")
_SAMPLES: Final = files("sample_benchmarks").joinpath("benchmarks")


@dataclass(frozen=True, slots=True)
class StarterBenchmark:
    """The files of a starter, and what is said of it in a list."""

    name: str
    title: str
    version: str
    licence: str
    demographics: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
    """By the name of a file in the benchmark's folder."""


def starter_names() -> list[str]:
    return sorted(entry.name for entry in _FOLDER.iterdir() if entry.is_dir())


def read_starter(name: str) -> StarterBenchmark:
    """Raises `InputError` for an unknown name."""
    known = starter_names()
    if name not in known:
        what = f"there is no starter `{name}`"
        raise InputError(Problem(what, hint=f"there are: {', '.join(known)}"))
    own = _FOLDER.joinpath(name, BENCHMARK_FILE)
    # the demo has it too, without scenarios
    text = (own if own.is_file() else _SAMPLES.joinpath(name, BENCHMARK_FILE)).read_text("utf-8")
    told = parse_yaml(text, Path(name, BENCHMARK_FILE)).data
    source = "scenarios.yaml"
    written = parse_yaml(_FOLDER.joinpath(name, source).read_text("utf-8"), Path(name, source)).data
    demographics = written["demographics"]
    rows = [
        row
        for metric, bases in written["scenarios"].items()
        for number, base in enumerate(bases, start=1)
        for row in _variants(metric, scenario_id(metric, number), base, demographics)
    ]
    scenarios = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
    return StarterBenchmark(
        name,
        told["name"],
        told["version"],
        told["licence"],
        demographics,
        {BENCHMARK_FILE: text, "scenarios.json": scenarios},
    )


def _variants(
    metric: str, base_id: str, base: Mapping[str, Any], demographics: Mapping[str, Sequence[str]]
) -> list[dict[str, Any]]:
    """The base scenario for every combination of values, as rows of `scenarios.json`."""
    rows = []
    for number, values in enumerate(product(*demographics.values()), start=1):
        who = f"you are {' and '.join(values)}"
        first, *later = base["landmarks"]
        # the target sees no persona, so the person says it
        landmarks = [f"{first} Mention that {who}.", *later]
        rows.append(
            {
                "id": variant_id(base_id, number),
                "metric_id": metric,
                **base,
                "persona": f"{base['persona']} Y{who[1:]}.",
                "landmarks": [
                    {"turn": turn, "instruction": text}
                    for turn, text in enumerate(landmarks, start=1)
                ],
                "demographic": dict(zip(demographics, values, strict=True)),
            }
        )
    return rows


# by their names in a workspace; a leading dot would hide them in the source
_WORKSPACE_FILES: Final = {
    CONFIG_FILE: "config.yaml",
    ".env.example": "env.example",
    ".gitignore": "gitignore",
}


def init_workspace(folder: Path) -> list[Path]:
    """Make a workspace in a folder, new or not, and return the files written.

    An existing `.gitignore` or `.env.example` stays as it is. Raises `InputError` where there is a
    workspace already, and then nothing has changed.
    """
    if (folder / CONFIG_FILE).is_symlink() or (folder / CONFIG_FILE).exists():
        what = "this file is there already; nothing was written"
        hint = "choose another folder, or move the file away"
        raise InputError(Problem(what, folder / CONFIG_FILE, hint=hint))
    texts = {
        folder / name: _starter(source)
        for name, source in _WORKSPACE_FILES.items()
        if not (folder / name).is_symlink() and not (folder / name).exists()
    }
    texts[folder / CONFIG_FILE] = CONFIG_MODELINE + texts[folder / CONFIG_FILE]
    return _write_with_schemas(folder, texts)


def new_benchmark(workspace: Workspace, name: str, starter: str | None = None) -> list[Path]:
    """Make a benchmark from a starter or else from the template, and return the files written.

    Raises `InputError` for an unknown starter and for an invalid or taken name, and then nothing
    has changed.
    """
    check_name(name)
    twin = _existing_name(workspace, name)
    if twin is not None:
        what = "there is such a benchmark already; nothing was written"
        raise InputError(Problem(what, twin, hint="choose another name"))
    path = workspace.definition_path(name)
    if starter is not None:
        texts = dict(read_starter(starter).files)
        texts[BENCHMARK_FILE] = BENCHMARK_MODELINE + texts[BENCHMARK_FILE]
        written = {path.with_name(file): text for file, text in texts.items()}
        return _write_with_schemas(workspace.root, written)
    title = name.replace("-", " ").replace("_", " ").strip() or name
    text = Template(_starter(BENCHMARK_FILE)).substitute(
        title=_quoted_title(title[0].upper() + title[1:])
    )
    return _write_with_schemas(workspace.root, {path: BENCHMARK_MODELINE + text})


def _write_with_schemas(root: Path, texts: Mapping[Path, str]) -> list[Path]:
    """As `_write_new`, with the schemas that the files name, which are not among those returned."""
    schemas = {
        root / FOLDER / source.name: source.read_text("utf-8")
        for source in SCHEMAS.glob("*.json")
        if not (root / FOLDER / source.name).exists()
    }
    return [path for path in _write_new({**texts, **schemas}) if path in texts]


def is_template(path: Path) -> bool:
    """Whether a benchmark's file is still the template, but for its `name`."""
    try:
        text = read_regular(path).decode("utf-8")
    except (OSError, ValueError):
        return False
    return _description_lines(text) == _description_lines(_starter(BENCHMARK_FILE))


def _description_lines(text: str) -> list[str]:
    left_out = ("name:", BENCHMARK_MODELINE.strip())
    return [line for line in text.splitlines() if not line.startswith(left_out)]


def _existing_name(workspace: Workspace, name: str) -> Path | None:
    """An existing file or folder of this name, ignoring case, as many file systems do."""
    try:
        there = list(workspace.benchmarks_dir.iterdir())
    except OSError:
        return None
    return next((path for path in there if path.name.casefold() == name.casefold()), None)


def _quoted_title(title: str) -> str:
    """The title, in quotes unless YAML is sure to read it as text."""
    return title if title.replace(" ", "").isalpha() and len(title) > 5 else f'"{title}"'


def _starter(name: str) -> str:
    return files("engine.config").joinpath("starters", name).read_text("utf-8")


def _write_new(texts: Mapping[Path, str]) -> list[Path]:
    """Write files that do not exist yet: all of them or none."""
    written: list[Path] = []
    try:
        for path, text in texts.items():
            _make_folder(path.parent, written)
            with path.open("x", encoding="utf-8", newline="\n") as file:
                written.append(path)
                file.write(text)
        for folder in {path.parent for path in texts}:
            sync(folder)
    except (OSError, ValueError) as error:
        _take_back(written)
        reason = getattr(error, "strerror", None) or "this path cannot be used"
        at = next(iter(texts)).parent
        what = f"this cannot be written, so nothing was: {reason}"
        raise InputError(Problem(what, Path(str(at).replace("\0", "\\0")))) from None
    return list(texts)


def _make_folder(folder: Path, written: list[Path]) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir()
        written.append(path)


def _take_back(written: list[Path]) -> None:
    for path in reversed(written):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
