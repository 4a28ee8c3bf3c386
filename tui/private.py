"""Files of the app's own: where they belong, and how they are written so that nobody else reads
them and none is ever half there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import NamedTemporaryFile


def cache_folder(environ: Mapping[str, str]) -> Path:
    """For what may vanish at any time."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def config_folder(environ: Mapping[str, str]) -> Path:
    """For what a person has chosen."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config")


def _folder(environ: Mapping[str, str], variable: str, name: str) -> Path:
    """As the XDG base directories say: a path that is not absolute does not count."""
    given = Path(environ.get(variable, ""))
    home = Path(environ.get("HOME") or Path.home())
    return (given if given.is_absolute() else home / name) / "crosswind"


def write_private(path: Path, text: str) -> None:
    """Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with NamedTemporaryFile(
        "w", encoding="utf-8", errors="replace", dir=path.parent, delete=False
    ) as new:
        kept = Path(new.name)
        try:
            new.write(text)
        except OSError:
            kept.unlink()
            raise
    kept.replace(path)
