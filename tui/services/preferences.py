"""Preferences: a user's choices and view state, stored privately for the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

from engine.benchmark import ConversationKey
from engine.files import read_regular, replace_file
from tui.state.related import Subject, TakeRef


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder for files that may be deleted at any time."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def config_folder(environ: Mapping[str, str]) -> Path:
    """The folder for a user's choices, which cannot be recreated."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config")


def keys_file(environ: Mapping[str, str]) -> Path | None:
    """The file with this user's own keys; None where there is none."""
    return _existing_file(config_folder(environ) / KEYS_FILE)


def _existing_file(path: Path) -> Path | None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return path  # whoever reads it says what is wrong
    return path


def _folder(environ: Mapping[str, str], variable: str, name: str) -> Path:
    """A folder by the XDG base directory rules: a path that is not absolute is ignored."""
    base = Path(environ.get(variable, ""))
    try:
        home = Path(environ.get("HOME") or Path.home())
    except RuntimeError:  # a user without an account, whose home folder is that of the system
        home = Path("/")
    return (base if base.is_absolute() else home / name) / "crosswind"


def write_private(path: Path, text: str) -> None:
    """Write a file that only this user can read. Raises `OSError`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, text.encode(errors="replace"), mode=0o600, durable=False)


FOLDER: Final = "workspaces"
DRAFTS: Final = "drafts"
MOST_LINES: Final = 20
"""The most filter lines kept."""
MOST_STARS: Final = 1000
MOST_DISMISSED: Final = 10_000
MOST_READ: Final = 2000
"""The most conversations remembered as read; the file is written at each."""
LONGEST: Final = 500


class TableView(NamedTuple):
    """The state in which a user left a table."""

    column: str | None = None
    """The column that it is sorted by; None if none was chosen."""
    backwards: bool = False
    row: Subject | None = None
    """The conversation under the cursor."""


@dataclass(frozen=True, slots=True)
class Views:
    """The state in which a user left the screens of one workspace."""

    lines: tuple[str, ...] = ()
    """Filter lines, the latest first."""
    tables: Mapping[str, TableView] = field(default_factory=dict)
    stars: tuple[Subject, ...] = ()
    """Starred conversations, the latest first."""
    read: tuple[TakeRef, ...] = ()
    """Takes that were opened, one per conversation, the newest first."""
    dismissed: tuple[int, ...] = ()
    """Failures that are not shown any more, by the `seq` of their rows, the latest first."""
    place: str | None = None
    """The place shown last while no run was on."""
    place_at_work: str | None = None
    """The place shown last while a run was on."""

    def with_line(self, line: str) -> tuple[str, ...]:
        """Put a line first; keeps at most `MOST_LINES`."""
        others = [other for other in self.lines if other != line]
        return (line, *others)[:MOST_LINES]

    def with_star_turned(self, subject: Subject) -> tuple[Subject, ...]:
        """Put a star first, or remove it if it is there."""
        others = tuple(star for star in self.stars if star != subject)
        return others if subject in self.stars else (subject, *others)[:MOST_STARS]

    def with_dismissed(self, failures: Sequence[int]) -> Views:
        """Dismiss failures; none at all brings all back."""
        kept = (*failures, *self.dismissed)[:MOST_DISMISSED] if failures else ()
        return replace(self, dismissed=kept)

    def with_read(self, shown: TakeRef) -> tuple[TakeRef, ...]:
        """Put a read take first; keeps at most `MOST_READ`."""
        others = (take for take in self.read if take[:2] != shown[:2])
        return (shown, *others)[:MOST_READ]


def _named_after(workspace: Path) -> str:
    """A file name for a path: a digest, as file names are limited in length and characters."""
    place = str(workspace.resolve()).encode("utf-8", "surrogateescape")
    return hashlib.blake2b(place, digest_size=8).hexdigest()


class _MemoryFile:
    """A small file of JSON. A damaged one counts as missing; failing to write it raises nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.notice: str | None = None
        """A problem with the file to report to the user; None without one."""

    def _write(self, values: Mapping[str, object]) -> None:
        try:
            write_private(self.path, json.dumps(values, indent=2) + "\n")
        except OSError as error:
            self.notice = f"{self.path} could not be written: {error.strerror}"

    def _read(self, lost: str) -> Mapping[str, Any]:
        """What the file holds; `lost` is said of what a damaged one held."""
        try:
            content = json.loads(read_regular(self.path))
        except FileNotFoundError:
            return {}
        # Python runs out of stack on JSON of a few thousand nested brackets
        except (OSError, ValueError, RecursionError):
            content = None
        if isinstance(content, dict):
            return content
        self.notice = f"{self.path} cannot be read and is left aside: {lost}"
        return {}


class ViewMemory(_MemoryFile):
    """The views of one workspace."""

    def __init__(self, path: Path, workspace: Path) -> None:
        super().__init__(path)
        self._workspace = workspace
        self.views = self._read_views()

    @classmethod
    def beside(cls, other: Path, workspace: Path) -> ViewMemory:
        """The memory of a workspace, in a folder beside another file of the app."""
        return cls(other.parent / FOLDER / f"{_named_after(workspace)}.json", workspace)

    def keep(self, views: Views) -> None:
        """Write the views if they have changed; an error becomes the `notice`."""
        if views == self.views:
            return
        self.views = views
        values = {
            "workspace": str(self._workspace),
            "lines": views.lines,
            "tables": {
                name: [table.column, table.backwards, *_row_as_list(table.row)]
                for name, table in views.tables.items()
            },
            "stars": [_subject_as_list(subject) for subject in views.stars],
            "read": [[*_subject_as_list(Subject(*take[:2])), take.take] for take in views.read],
            "dismissed": views.dismissed,
            "place": views.place,
            "place_at_work": views.place_at_work,
        }
        self._write(values)

    def _read_views(self) -> Views:
        values = self._read("filters and stars are gone")
        place, place_at_work = (_text(values.get(name)) for name in ("place", "place_at_work"))
        return Views(
            tuple(_texts(values.get("lines"))[:MOST_LINES]),
            _tables(values.get("tables")),
            tuple(_subjects(values.get("stars"))[:MOST_STARS]),
            tuple(_takes(values.get("read"))[:MOST_READ]),
            tuple(_numbers(values.get("dismissed"))[:MOST_DISMISSED]),
            place,
            place_at_work,
        )


def _tables(value: Any) -> dict[str, TableView]:
    tables = {}
    for name, kept in value.items() if isinstance(value, dict) else ():
        if isinstance(kept, list) and len(kept) >= 2:
            row = next(iter(_subjects([kept[2:]])), None)
            tables[name] = TableView(_text(kept[0]), kept[1] is True, row)
    return tables


def _subject_as_list(subject: Subject) -> list[str]:
    return [subject.benchmark, str(subject.key)]


def _row_as_list(row: Subject | None) -> list[str]:
    return [] if row is None else _subject_as_list(row)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _numbers(value: Any) -> list[int]:
    return [each for each in value if type(each) is int] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        return []
    return [text for text in value if isinstance(text, str) and len(text) <= LONGEST]


def _subjects(value: Any) -> list[Subject]:
    subjects = []
    for entry in value if isinstance(value, list) else ():
        words = _texts(entry)
        if len(words) == 2:
            try:
                subjects.append(Subject(words[0], ConversationKey.parse(words[1])))
            except ValueError:
                continue
    return subjects


def _takes(value: Any) -> list[TakeRef]:
    """Entries without a take number, from older files, are of the first take."""
    takes = []
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, list) and all(isinstance(number, int) for number in entry[2:]):
            takes += [TakeRef(*subject, *(entry[2:3] or [0])) for subject in _subjects([entry[:2]])]
    return takes


FILE: Final = "app.json"
KEYS_FILE: Final = "keys.yaml"
"""The file that the user writes and the app only reads."""


@dataclass(frozen=True, slots=True)
class UserSettings:
    """A user's choices for all workspaces; None where none was made."""

    theme: str | None = None
    place: str | None = None
    thoughts: bool | None = None
    """Whether the user model's thoughts are shown on the live screen."""
    mouse: bool | None = None
    """Whether the app uses the mouse, or leaves it to the terminal."""
    benchmark: str | None = None
    """The benchmark whose results were shown last."""
    section: str | None = None
    """The section of the results shown last."""
    person: str | None = None
    """The name under which the user labels and reviews; None for that of their account."""


class PreferencesFile(_MemoryFile):
    """A user's choices for all workspaces."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.choices = self._read_choices()

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> PreferencesFile:
        """The user's file, whether or not it exists."""
        return cls(config_folder(environ) / FILE)

    def keep(self, choices: UserSettings) -> None:
        """Write the choices if they have changed."""
        if choices == self.choices:
            return
        self.choices = choices
        self._write({name: value for name, value in asdict(choices).items() if value is not None})

    def _read_choices(self) -> UserSettings:
        values = self._read("what was chosen is gone")
        words = {
            name: value
            for name in ("theme", "place", "benchmark", "section", "person")
            if isinstance(value := values.get(name), str)
        }
        thoughts, mouse = (_flag(values.get(name)) for name in ("thoughts", "mouse"))
        return UserSettings(thoughts=thoughts, mouse=mouse, **words)


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


class Preferences:
    """A user's choices and views, stored if there is a memory, else kept for this session."""

    def __init__(
        self, memory: PreferencesFile | None, workspace: Path, tell: Callable[[str], None]
    ) -> None:
        """`tell` shows problems with the files."""
        self._memory = memory
        self._workspace = workspace
        self._tell = tell
        self._choices = UserSettings() if memory is None else memory.choices
        self._views: Views | None = None

    def draft(self, benchmark: str, name: str) -> Path:
        """The path where text from an editor is kept until accepted, so that it survives the end of
        the terminal or the app. Its folder exists."""
        if self._memory is None:
            folder = Path(mkdtemp(prefix="crosswind-"))
        else:
            beside = self._memory.path.parent
            folder = beside / DRAFTS / _named_after(self._workspace) / benchmark
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / f"{name}.yaml"

    @property
    def choices(self) -> UserSettings:
        """The user's choices."""
        return self._choices

    def choose(self, choices: UserSettings) -> None:
        """Keep these for the next time."""
        self._choices = choices
        if self._memory is not None:
            self._memory.keep(choices)
        self.tell_notices()

    @cached_property
    def _view_memory(self) -> ViewMemory | None:
        """The views' file, read on first use, which is rarely at start-up."""
        if self._memory is None:
            return None
        return ViewMemory.beside(self._memory.path, self._workspace)

    @property
    def views(self) -> Views:
        """The user's views of this workspace."""
        if self._views is None:
            memory = self._view_memory
            self._views = Views() if memory is None else memory.views
            self._tell_notice(memory)
        return self._views

    def keep_views(self, views: Views) -> None:
        """Store the views of this workspace."""
        self._views = views
        if self._view_memory is not None:
            self._view_memory.keep(views)
            self._tell_notice(self._view_memory)

    def keep_place(self, place: str, *, at_work: bool) -> None:
        """Store the place shown last, kept apart for when an engine is `at_work`."""
        if self._memory is None:
            return
        self._memory.keep(replace(self._choices, place=place))
        if at_work:
            self.keep_views(replace(self.views, place_at_work=place))
        else:
            self.keep_views(replace(self.views, place=place))

    def turn_star(self, subject: Subject) -> bool:
        """Give a conversation a star or remove it. Returns whether it has one now."""
        stars = self.views.with_star_turned(subject)
        self.keep_views(replace(self.views, stars=stars))
        return subject in stars

    def note_read(self, shown: TakeRef) -> None:
        """Note that a take was opened."""
        if shown not in self.views.read[:1]:
            self.keep_views(replace(self.views, read=self.views.with_read(shown)))

    def tell_notices(self) -> None:
        """Report a problem with the file of choices."""
        self._tell_notice(self._memory)

    def _tell_notice(self, memory: _MemoryFile | None) -> None:
        if memory is not None and memory.notice is not None:
            self._tell(memory.notice)
            memory.notice = None
