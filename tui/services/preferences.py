"""What a person chose in the app and set up for a workspace, kept privately for the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from engine.benchmark import ConversationKey
from engine.files import read_regular, replace_file
from tui.state.related import Subject, TakeRef


def cache_folder(environ: Mapping[str, str]) -> Path:
    """For what may vanish at any time."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def config_folder(environ: Mapping[str, str]) -> Path:
    """For what a person has chosen, which nothing can make again."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config")


def keys_file(environ: Mapping[str, str]) -> Path | None:
    """The file with this user's own keys; None where there is none."""
    return _there(config_folder(environ) / KEYS_FILE)


def themes_file(environ: Mapping[str, str]) -> Path | None:
    """The user's file of themes; None where there is none."""
    return _there(config_folder(environ) / THEMES_FILE)


def _there(path: Path) -> Path | None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return path  # whoever reads it says what is wrong
    return path


def _folder(environ: Mapping[str, str], variable: str, name: str) -> Path:
    """As the XDG base directories say: a path that is not absolute does not count."""
    given = Path(environ.get(variable, ""))
    home = Path(environ.get("HOME") or Path.home())
    return (given if given.is_absolute() else home / name) / "crosswind"


def write_private(path: Path, text: str) -> None:
    """For this user's eyes alone. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, text.encode(errors="replace"), mode=0o600, durable=False)


FOLDER: Final = "workspaces"
DRAFTS: Final = "drafts"
MOST_LINES: Final = 20
"""Filter lines that are kept to be had again."""
MOST_STARS: Final = 1000
MOST_READ: Final = 2000
"""Conversations that are known to have been read; the file is written with each."""
LONGEST: Final = 500


@dataclass(frozen=True, slots=True)
class Views:
    """How a person left the screens of one workspace."""

    lines: tuple[str, ...] = ()
    """Filter lines, the last one first."""
    column: str | None = None
    """What the verdicts are sorted by; None where nothing was chosen."""
    backwards: bool = False
    stars: tuple[Subject, ...] = ()
    """Conversations to come back to, the last one first."""
    read: tuple[TakeRef, ...] = ()
    """Takes that were opened, one of each conversation, the newest first."""
    place: str | None = None
    """The one that was shown last."""
    place_at_work: str | None = None
    """The one that was shown last while a run went on."""
    row: Subject | None = None
    """The conversation that the cursor was on, of all verdicts."""

    def with_line(self, line: str) -> tuple[str, ...]:
        """The lines with this one first; at most `MOST_LINES`."""
        others = [each for each in self.lines if each != line]
        return (line, *others)[:MOST_LINES]

    def with_star_turned(self, subject: Subject) -> tuple[Subject, ...]:
        """The stars with this one first, or without it where it is among them."""
        others = tuple(each for each in self.stars if each != subject)
        return others if subject in self.stars else (subject, *others)[:MOST_STARS]

    def with_read(self, shown: TakeRef) -> tuple[TakeRef, ...]:
        """What was read with this one first; at most `MOST_READ`."""
        others = (each for each in self.read if each[:2] != shown[:2])
        return (shown, *others)[:MOST_READ]


def _named_after(workspace: Path) -> str:
    """A digest, as a path may hold what a name of a file may not, and more of it."""
    place = str(workspace.resolve()).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(place, digest_size=8).hexdigest()


class ViewMemory:
    """A small file for each workspace. One that is damaged counts as none."""

    def __init__(self, path: Path, workspace: Path) -> None:
        self.path = path
        self._workspace = workspace
        self.notice: str | None = None
        """What a person should know about the file."""
        self.views = self._read()

    @classmethod
    def beside(cls, other: Path, workspace: Path) -> ViewMemory:
        """In a folder beside another file of the app's."""
        return cls(other.parent / FOLDER / f"{_named_after(workspace)}.json", workspace)

    def keep(self, views: Views) -> None:
        """Write them, where they are not what is kept; a fault becomes the `notice`."""
        if views == self.views:
            return
        self.views = views
        kept = {
            "workspace": str(self._workspace),
            "lines": views.lines,
            "column": views.column,
            "backwards": views.backwards,
            "stars": [_written(subject) for subject in views.stars],
            "read": [[*_written(Subject(*each[:2])), each.take] for each in views.read],
            "place": views.place,
            "place_at_work": views.place_at_work,
            "row": None if views.row is None else _written(views.row),
        }
        try:
            write_private(self.path, json.dumps(kept, indent=2) + "\n")
        except OSError as error:
            self.notice = f"{self.path} could not be written: {error.strerror}"

    def _read(self) -> Views:
        try:
            found = json.loads(read_regular(self.path))
        except FileNotFoundError:
            return Views()
        # a file of a few thousand brackets is JSON that Python cannot read without running out of
        # stack
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.notice = (
                f"{self.path} cannot be read and is left aside: filters and stars are gone"
            )
            return Views()
        names = ("column", "place", "place_at_work")
        column, place, place_at_work = (_text(found.get(name)) for name in names)
        return Views(
            tuple(_texts(found.get("lines"))[:MOST_LINES]),
            column,
            found.get("backwards") is True,
            tuple(_subjects(found.get("stars"))[:MOST_STARS]),
            tuple(_takes(found.get("read"))[:MOST_READ]),
            place,
            place_at_work,
            next(iter(_subjects([found.get("row")])), None),
        )


def _written(subject: Subject) -> list[str]:
    return [subject.benchmark, str(subject.key)]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [each for each in value if isinstance(each, str) and len(each) <= LONGEST]


def _subjects(value: Any) -> list[Subject]:
    found = []
    for each in value if isinstance(value, list) else ():
        words = _texts(each)
        if len(words) == 2:
            try:
                found.append(Subject(words[0], ConversationKey.parse(words[1])))
            except ValueError:
                continue
    return found


def _takes(value: Any) -> list[TakeRef]:
    """Entries without a take number, from older files, are of the first take."""
    found = []
    for each in value if isinstance(value, list) else ():
        if isinstance(each, list) and all(isinstance(one, int) for one in each[2:]):
            found += [TakeRef(*subject, *(each[2:3] or [0])) for subject in _subjects([each[:2]])]
    return found


FILE: Final = "app.json"
KEYS_FILE: Final = "keys.yaml"
THEMES_FILE: Final = "themes.yaml"
"""What a person writes, and the app only reads."""


@dataclass(frozen=True, slots=True)
class UserSettings:
    """What a person chose for all workspaces; None where nothing was chosen yet."""

    theme: str | None = None
    place: str | None = None
    thoughts: bool | None = None
    """Whether what the user model thinks is shown on the live screen."""
    mouse: bool | None = None
    """Whether the app takes the mouse, or leaves it to the terminal."""
    benchmark: str | None = None
    """Whose results were looked at."""
    section: str | None = None
    """Which section of the results was looked at."""
    person: str | None = None
    """The name under which they label and review; None where it is their account's."""


class PreferencesFile:
    """A small file. A damaged one counts as missing, and failing to write it is no error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice: str | None = None
        """What a person should know about the file."""
        self.choices = self._read()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> PreferencesFile:
        """The file of this user, whether it exists or not."""
        return cls(config_folder(environ) / FILE)

    def keep(self, choices: UserSettings) -> None:
        """Write them, where they are not what is kept."""
        if choices == self.choices:
            return
        self.choices = choices
        kept = {name: value for name, value in asdict(choices).items() if value is not None}
        try:
            write_private(self.path, json.dumps(kept, indent=2) + "\n")
        except OSError as error:
            self.notice = f"{self.path} could not be written: {error.strerror}"

    def _read(self) -> UserSettings:
        try:
            found = json.loads(read_regular(self.path))
        except FileNotFoundError:
            return UserSettings()
        except (OSError, ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            self.notice = f"{self.path} cannot be read and is left aside: what was chosen is gone"
            return UserSettings()
        words = {
            name: value
            for name in ("theme", "place", "benchmark", "section", "person")
            if isinstance(value := found.get(name), str)
        }
        thoughts, mouse = (_flag(found.get(name)) for name in ("thoughts", "mouse"))
        return UserSettings(thoughts=thoughts, mouse=mouse, **words)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


class Preferences:
    """What a person chose and set up, kept where there is a memory, else for this session only."""

    def __init__(
        self, memory: PreferencesFile | None, workspace: Path, tell: Callable[[str], None]
    ) -> None:
        """`tell` shows what a person should know about the files."""
        self._memory = memory
        self._workspace = workspace
        self._tell = tell
        self._choices = UserSettings() if memory is None else memory.choices
        self._views: Views | None = None

    def draft(self, benchmark: str, name: str) -> Path:
        """Where text from an editor is kept until it is accepted, so that it survives the end of
        the terminal or the app. The folder exists."""
        if self._memory is None:
            folder = Path(mkdtemp(prefix="crosswind-"))
        else:
            beside = self._memory.path.parent
            folder = beside / DRAFTS / _named_after(self._workspace) / benchmark
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / f"{name}.yaml"

    @property
    def choices(self) -> UserSettings:
        """What a person chose, here or the last time."""
        return self._choices

    def choose(self, choices: UserSettings) -> None:
        """Keep these for the next time."""
        self._choices = choices
        if self._memory is not None:
            self._memory.keep(choices)
        self.tell_notices()

    @cached_property
    def _view_memory(self) -> ViewMemory | None:
        """Read when it is first asked for, which is seldom at the start."""
        if self._memory is None:
            return None
        return ViewMemory.beside(self._memory.path, self._workspace)

    @property
    def views(self) -> Views:
        """What a person set up for this workspace, here or the last time."""
        if self._views is None:
            memory = self._view_memory
            self._views = Views() if memory is None else memory.views
            self._tell_notice(memory)
        return self._views

    def keep_views(self, views: Views) -> None:
        """Keep these for the next time that it is opened."""
        self._views = views
        if self._view_memory is not None:
            self._view_memory.keep(views)
            self._tell_notice(self._view_memory)

    def keep_place(self, place: str, *, at_work: bool) -> None:
        """The place that was shown last; another one for workspaces whose engine is `at_work`."""
        if self._memory is None:
            return
        self._memory.keep(replace(self._choices, place=place))
        if at_work:
            self.keep_views(replace(self.views, place_at_work=place))
        else:
            self.keep_views(replace(self.views, place=place))

    def turn_star(self, subject: Subject) -> bool:
        """Give a conversation a star, or take it away; whether it has one now."""
        stars = self.views.with_star_turned(subject)
        self.keep_views(replace(self.views, stars=stars))
        return subject in stars

    def note_read(self, shown: TakeRef) -> None:
        """A playing of a conversation was opened."""
        if shown not in self.views.read[:1]:
            self.keep_views(replace(self.views, read=self.views.with_read(shown)))

    def tell_notices(self) -> None:
        """Tell what a person should know about the file that choices are kept in."""
        self._tell_notice(self._memory)

    def _tell_notice(self, memory: PreferencesFile | ViewMemory | None) -> None:
        if memory is not None and memory.notice is not None:
            self._tell(memory.notice)
            memory.notice = None
