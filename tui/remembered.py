"""What a person chose in the app, kept for the next time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from engine.regular import read_regular
from tui.private import config_folder, write_private

FILE: Final = "app.json"


@dataclass(frozen=True, slots=True)
class Choices:
    """None where nothing was chosen yet."""

    theme: str | None = None
    place: str | None = None
    thoughts: bool | None = None
    """Whether what the user model thinks is shown on the live screen."""
    mouse: bool | None = None
    """Whether the app takes the mouse, or leaves it to the terminal."""
    benchmark: str | None = None
    """Whose results were looked at."""
    section: str | None = None
    """Of the results."""


class Memory:
    """A small file. One that is damaged counts as none, and a fault to write it as a wish."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice: str | None = None
        """What a person should know about the file."""
        self.choices = self._read()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Memory:
        return cls(config_folder(environ) / FILE)

    def keep(self, choices: Choices) -> None:
        """Write them, where they are not what is kept."""
        if choices == self.choices:
            return
        self.choices = choices
        kept = {name: value for name, value in asdict(choices).items() if value is not None}
        try:
            write_private(self.path, json.dumps(kept, indent=2) + "\n")
        except OSError as error:
            self.notice = f"{self.path} could not be written: {error.strerror}"

    def _read(self) -> Choices:
        try:
            found = json.loads(read_regular(self.path))
        except FileNotFoundError:
            return Choices()
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.notice = f"{self.path} cannot be read and is left aside: what was chosen is gone"
            return Choices()
        words = {
            name: value
            for name in ("theme", "place", "benchmark", "section")
            if isinstance(value := found.get(name), str)
        }
        thoughts, mouse = (_flag(found.get(name)) for name in ("thoughts", "mouse"))
        return Choices(thoughts=thoughts, mouse=mouse, **words)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
