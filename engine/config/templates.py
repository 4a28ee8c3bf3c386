"""Makes files: a workspace that runs at once, and a benchmark, commented or ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from engine.config.schemas import BENCHMARK_MODELINE, CONFIG_MODELINE, FOLDER, SCHEMAS
from engine.config.starter_benchmarks import read_starter
from engine.config.workspace import BENCHMARK_FILE, CONFIG_FILE, Workspace, check_name
from engine.errors import InputError, Problem
from engine.files import read_regular, sync

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
