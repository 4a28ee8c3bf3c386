"""Preferences: a user's choices and view state, stored privately for the next time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Final, NamedTuple, TypeVar

import msgspec

from engine.benchmark import ConversationKey
from engine.files import read_regular, replace_file
from tui.state.related import Subject, TakeRef


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The folder for files that may be deleted at any time."""
    return _folder(environ, "XDG_CACHE_HOME", ".cache")


def config_folder(environ: Mapping[str, str]) -> Path:
    """The folder for a user's choices, which cannot be recreated."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config")


def choices_file(environ: Mapping[str, str]) -> Path:
    """The file with this user's choices, whether or not it exists."""
    return config_folder(environ) / FILE


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
FILE: Final = "app.json"
KEYS_FILE: Final = "keys.yaml"
"""The file that the user writes and the app only reads."""

T = TypeVar("T")


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


class _ViewsFile(msgspec.Struct):
    """The file that keeps `Views`. A conversation is a benchmark's name and a `conv_id`."""

    workspace: str = ""
    lines: tuple[str, ...] = ()
    tables: dict[str, list[str | bool | None]] = {}
    """By table: the column, whether it is sorted backwards, and the conversation, if any."""
    stars: tuple[tuple[str, str], ...] = ()
    read: tuple[tuple[str, str, int], ...] = ()
    dismissed: tuple[int, ...] = ()
    place: str | None = None
    place_at_work: str | None = None


def _packed(views: Views, workspace: Path) -> _ViewsFile:
    rows = {name: _row_words(table.row) for name, table in views.tables.items()}
    return _ViewsFile(
        str(workspace),
        views.lines,
        {
            name: [table.column, table.backwards, *rows[name]]
            for name, table in views.tables.items()
        },
        tuple((star.benchmark, str(star.key)) for star in views.stars),
        tuple((take.benchmark, str(take.key), take.take) for take in views.read),
        views.dismissed,
        views.place,
        views.place_at_work,
    )


def _row_words(row: Subject | None) -> tuple[str, ...]:
    return () if row is None else (row.benchmark, str(row.key))


def _unpacked(file: _ViewsFile) -> Views:
    """Raises `ValueError` for what is no conversation."""
    return Views(
        file.lines,
        {name: _table(*kept) for name, kept in file.tables.items()},
        tuple(Subject(name, ConversationKey.parse(key)) for name, key in file.stars),
        tuple(TakeRef(name, ConversationKey.parse(key), take) for name, key, take in file.read),
        file.dismissed,
        file.place,
        file.place_at_work,
    )


def _table(
    column: str | bool | None = None,  # noqa: FBT001  (as the file has it)
    backwards: str | bool | None = None,  # noqa: FBT001
    *row: str | bool | None,
) -> TableView:
    kept = Subject(str(row[0]), ConversationKey.parse(str(row[1]))) if len(row) == 2 else None
    return TableView(column if isinstance(column, str) else None, backwards is True, kept)


def views_file(choices: Path, workspace: Path) -> Path:
    """The file with the views of a workspace, in a folder beside that of the choices."""
    return choices.parent / FOLDER / f"{_named_after(workspace)}.json"


def read_views(path: Path) -> tuple[Views, str | None]:
    """The views, and a problem with their file to report to the user."""
    file, notice = _read(path, _ViewsFile(), "filters and stars are gone")
    try:
        return _unpacked(file), notice
    except ValueError:
        return Views(), _damaged(path, "filters and stars are gone")


def _read(path: Path, without: T, lost: str) -> tuple[T, str | None]:
    """What the file holds, or else `without`; `lost` is said of what a damaged one held."""
    try:
        return msgspec.convert(json.loads(read_regular(path)), type(without)), None
    except FileNotFoundError:
        return without, None
    # Python runs out of stack on JSON of a few thousand nested brackets
    except (OSError, ValueError, msgspec.ValidationError, RecursionError):
        return without, _damaged(path, lost)


def _damaged(path: Path, lost: str) -> str:
    return f"{path} cannot be read and is left aside: {lost}"


class Preferences:
    """A user's choices and views, stored if there is a file for them, else kept for this
    session. A damaged file counts as missing; failing to write one raises nothing."""

    def __init__(self, file: Path | None, workspace: Path, tell: Callable[[str], None]) -> None:
        """`file` is the one with the choices; `tell` shows problems with the files."""
        self._file = file
        self._workspace = workspace
        self._tell = tell
        self.choices, self._notice = UserSettings(), None
        """The user's choices, and a problem with their file to report to the user."""
        if file is not None:
            self.choices, self._notice = _read(file, self.choices, "what was chosen is gone")
        self._stored_choices = self.choices
        self._views: Views | None = None

    def draft(self, benchmark: str, name: str) -> Path:
        """The path where text from an editor is kept until accepted, so that it survives the end of
        the terminal or the app. Its folder exists."""
        if self._file is None:
            folder = Path(mkdtemp(prefix="crosswind-"))
        else:
            folder = self._file.parent / DRAFTS / _named_after(self._workspace) / benchmark
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder / f"{name}.yaml"

    def choose(self, choices: UserSettings) -> None:
        """Keep these for the next time."""
        self.choices = choices
        self._store_choices(choices)
        self.tell_notices()

    @property
    def views(self) -> Views:
        """The user's views of this workspace, read on first use, which is rarely at start-up."""
        if self._views is None:
            self._views, notice = Views(), None
            if self._file is not None:
                self._views, notice = read_views(views_file(self._file, self._workspace))
            if notice is not None:
                self._tell(notice)
        return self._views

    def keep_views(self, views: Views) -> None:
        """Store the views of this workspace."""
        if views == self.views:
            return
        self._views = views
        if self._file is not None:
            path = views_file(self._file, self._workspace)
            notice = self._write(path, _packed(views, self._workspace))
            if notice is not None:
                self._tell(notice)

    def keep_place(self, place: str, *, at_work: bool) -> None:
        """Store the place shown last, kept apart for when an engine is `at_work`."""
        if self._file is None:
            return
        self._store_choices(replace(self.choices, place=place))
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
        notice, self._notice = self._notice, None
        if notice is not None:
            self._tell(notice)

    def _store_choices(self, choices: UserSettings) -> None:
        if self._file is not None and choices != self._stored_choices:
            self._stored_choices = choices
            self._notice = self._write(self._file, choices) or self._notice

    def _write(self, path: Path, values: object) -> str | None:
        """Write a file; what was wrong with that, to report to the user."""
        try:
            write_private(path, json.dumps(msgspec.to_builtins(values), indent=2) + "\n")
        except OSError as error:
            return f"{path} could not be written: {error.strerror}"
        return None
