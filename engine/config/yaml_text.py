"""Reads untrusted YAML files safely, with the position of every value.

The data is built here from parser events, not by a YAML library's loader: a loader expands
aliases without limit, silently takes the last of two equal keys, and in its C form crashes the
process on deep nesting. With events, each guard can stop before any harm is done.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

import yaml

from engine.config.wording import quotable
from engine.errors import InputError, Problem
from engine.files import open_regular

MAX_BYTES: Final = 2 * 1024 * 1024
# each level is a call within a call, of which Python allows a thousand in all
MAX_DEPTH: Final = 50
MAX_VALUES: Final = 20_000
"""A larger file is no configuration; each value also costs the memory of its position."""

KeyPath = tuple[str | int, ...]
"""The path to a value, such as `("targets", 0, "id")`."""

_CORE: Final = "tag:yaml.org,2002:"
_CORE_TAGS: Final = {f"{_CORE}{name}" for name in ("str", "int", "float", "bool", "null")}
_UNREADABLE: Final = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Characters that YAML forbids, and a byte order mark after the start of the file."""

# the C parser where it is available: the pure one takes seconds for a large file
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file, counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, repr=False)
class YamlDocument:
    """The content of a file, with positions. Its `repr` shows no content, as it may hold a key."""

    path: Path
    data: dict[str, Any]
    positions: Mapping[KeyPath, tuple[int, int]]
    """Line and column of each value."""
    key_positions: Mapping[KeyPath, tuple[int, int]]
    """Line and column of each key of a mapping."""
    written: Mapping[KeyPath, str]
    """The source text of each value that was not read as text."""

    def __repr__(self) -> str:
        return f"YamlDocument({str(self.path)!r})"

    def value(self, at: KeyPath) -> Any:
        """The value at a path; None where there is none."""
        node: Any = self.data
        for part in at:
            match node:
                case dict() if part in node:
                    node = node[part]
                case list() if isinstance(part, int) and part < len(node):
                    node = node[part]
                case _:
                    return None
        return node

    def place(self, at: KeyPath) -> Position:
        """The position of the value at a path, or of the nearest existing value around it."""
        while at and at not in self.positions:
            at = at[:-1]
        return Position(*self.positions.get(at, (1, 1)))

    def key_place(self, at: KeyPath) -> Position:
        """The position of the key at a path, or of the value where it has no key."""
        return Position(*self.key_positions[at]) if at in self.key_positions else self.place(at)

    def problem(
        self, at: KeyPath, what: str, *, hint: str | None = None, of_key: bool = False
    ) -> Problem:
        """A problem with the value at a path, or with its key."""
        place = self.key_place(at) if of_key else self.place(at)
        return Problem(what, self.path, place.line, place.column, dotted_path(at) or None, hint)


def dotted_path(at: KeyPath) -> str:
    """`targets[0].id` for `("targets", 0, "id")`."""
    text = ""
    for part in at:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{quotable(part)}" if text else quotable(part)
    return text


def read_yaml(path: Path) -> YamlDocument:
    """Read one mapping from a file. Raises `InputError` with every problem found."""
    # no variable of this frame holds the text: it may contain a key, and tracebacks show variables
    result = _parse_document(_text_of(path), path)
    if isinstance(result, YamlDocument):
        return result
    raise InputError(result)


def parse_yaml(text: str, path: Path) -> YamlDocument:
    """Read one mapping from the content, or the future content, of `path`. Raises `InputError`."""
    result = _parse_document(text, path)
    if isinstance(result, YamlDocument):
        return result
    # a traceback that shows variables would show the file
    del text
    raise InputError(result)


def _text_of(path: Path) -> str | list[Problem]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return [Problem("this is a folder, expected a file", path)]
        if not stat.S_ISREG(mode):
            return [Problem("this is not a regular file, expected a YAML file", path)]
        with open_regular(path) as file:
            # not by its size, which is wrong for a growing file or one in /proc
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return [Problem("there is no such file", path)]
    except PermissionError:
        return [Problem("no permission to read this file", path)]
    except OSError as error:
        return [Problem(f"this file cannot be read: {error.strerror or 'unknown reason'}", path)]
    except ValueError:
        return [Problem("this path cannot name a file", Path(str(path).replace("\0", "\\0")))]
    return text_of_bytes(raw, path)


def text_of_bytes(raw: bytes, path: Path) -> str | list[Problem]:
    """The bytes of a file as text, without a byte order mark; or the problem with them."""
    if len(raw) > MAX_BYTES:
        return [Problem("this file is larger than 2 MiB, too large for a YAML file here", path)]
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = "this file is UTF-16 (its first bytes, at offset 0, say so), expected UTF-8"
        return [Problem(what, path, 1, 1, hint="save it as UTF-8")]
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        # the text before the fault is valid, so it gives the line and column
        before = raw[: error.start].decode("utf-8").removeprefix("\ufeff")
        line, column = _line_and_column(before)
        what = (
            f"this file is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start} "
            "does not belong there"
        )
        return [Problem(what, path, line, column, hint="save it as UTF-8")]


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _line_and_column(before: str) -> tuple[int, int]:
    lines = _lines(before)
    return len(lines), len(lines[-1]) + 1


def _parse_document(text: str | list[Problem], path: Path) -> YamlDocument | list[Problem]:
    if isinstance(text, list):
        return text
    unreadable = _UNREADABLE.search(text)
    if unreadable:
        line, column = _line_and_column(text[: unreadable.start()])
        code = ord(unreadable.group())
        what = f"the invisible character U+{code:04X} cannot stand in a YAML file"
        return [Problem(what, path, line, column, hint="delete it")]
    loader = _Loader(text)
    builder = _Builder(loader, path)
    try:
        data = builder.document()
    except _UnreadableYamlError as stop:
        return [*builder.problems, stop.problem]
    except yaml.MarkedYAMLError as error:
        return [*builder.problems, _syntax_problem(error, text, path)]
    except yaml.YAMLError:
        return [*builder.problems, Problem("this is not valid YAML", path)]
    finally:
        loader.dispose()
    if builder.problems:
        return builder.problems
    if data is None:
        return [Problem("this file is empty, expected keys and values", path)]
    if not isinstance(data, dict):
        return [
            Problem(
                f"found {_kind_name(data)}, expected keys and values (`key: value`)", path, 1, 1
            )
        ]
    return YamlDocument(
        path,
        data,
        MappingProxyType(builder.positions),
        MappingProxyType(builder.key_positions),
        MappingProxyType(builder.written),
    )


def _kind_name(data: object) -> str:
    return "a list" if isinstance(data, list) else "a single value"


class _UnreadableYamlError(Exception):
    """Reading on would be unsafe or useless."""

    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem


@dataclass(slots=True)
class _Builder:
    """Builds plain data from events, one at a time, and refuses unsafe or surprising YAML."""

    loader: Any
    path: Path
    positions: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    key_positions: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def document(self) -> Any:
        """The only document of the stream; None where the stream is empty."""
        self.loader.get_event()
        if isinstance(self.loader.get_event(), yaml.StreamEndEvent):
            return None
        data = self._node(self.loader.get_event(), ())
        self.loader.get_event()
        event = self.loader.get_event()
        if not isinstance(event, yaml.StreamEndEvent):
            self._stop(event, (), "a second document begins here (`---`), expected only one")
        return data

    def _node(self, event: Any, at: KeyPath) -> Any:
        if len(at) > MAX_DEPTH:
            what = f"values are nested deeper than {MAX_DEPTH} levels"
            self._stop(event, at[:3], what, hint="write it flatter")
        if len(self.positions) >= MAX_VALUES:
            self._stop(event, at, f"the file holds more than {MAX_VALUES:,} values")
        # also for what is refused below, so that every problem has a position
        self.positions[at] = _position(event)
        if isinstance(event, yaml.AliasEvent):
            what = f"`*{quotable(str(event.anchor))}` is an alias, and aliases are not taken here"
            self._refuse(event, at, what, hint="write the value out")
            return None
        self._check_anchor(event, at)
        match event:
            case yaml.MappingStartEvent():
                return self._mapping(event, at)
            case yaml.SequenceStartEvent():
                return self._sequence(event, at)
            case _:
                return self._scalar(event, at)

    def _mapping(self, start: Any, at: KeyPath) -> dict[str, Any]:
        self._check_tag(start, at, {f"{_CORE}map"})
        mapping: dict[str, Any] = {}
        first_line: dict[str, int] = {}
        while not isinstance(event := self.loader.get_event(), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._stop(event, at, "a key here is not a plain word")
            self._check_anchor(event, at)
            key: str = event.value
            here = (*at, key)
            if key in mapping:
                what = f"this key stands here twice, first on line {first_line[key]}"
                self._refuse(event, here, what, hint="delete one of the two")
                # read and dropped, so that problems inside it are reported as well
                self._node(self.loader.get_event(), here)
                continue
            self.key_positions[here] = _position(event)
            first_line[key], _ = _position(event)
            mapping[key] = self._node(self.loader.get_event(), here)
        return mapping

    def _sequence(self, start: Any, at: KeyPath) -> list[Any]:
        self._check_tag(start, at, {f"{_CORE}seq"})
        members: list[Any] = []
        while not isinstance(event := self.loader.get_event(), yaml.SequenceEndEvent):
            members.append(self._node(event, (*at, len(members))))
        return members

    def _scalar(self, event: Any, at: KeyPath) -> Any:
        self._check_tag(event, at, _CORE_TAGS)
        tag = event.tag
        if tag is None or tag == "!":
            # the library decides what a plain word is: a number, true, a date
            tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        # `=`, `<<` and the like have a meaning in YAML 1.1 that is not wanted here: they are text
        if tag not in _CORE_TAGS and tag != f"{_CORE}timestamp":
            return event.value
        if tag != f"{_CORE}str":
            self.written[at] = event.value
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        try:
            return self.loader.construct_object(node)
        except (ValueError, IndexError, KeyError):
            kind = "a date" if tag.endswith("timestamp") else "a number"
            what = f"YAML takes this for {kind}, but it is not a possible one"
            self._refuse(event, at, what, hint="put it in quotes")
            return None

    def _check_anchor(self, event: Any, at: KeyPath) -> None:
        # all are refused: aliases of aliases turn a kilobyte into gigabytes, and no configuration
        # needs them
        if event.anchor is not None:
            what = f"`&{quotable(event.anchor)}` is an anchor, and anchors are not taken here"
            self._refuse(event, at, what, hint="delete it and write the value out where it is used")

    def _check_tag(self, event: Any, at: KeyPath, allowed: set[str]) -> None:
        tag: str | None = event.tag
        if tag is not None and tag != "!" and tag not in allowed:
            tag = tag.replace(_CORE, "!!")
            what = f"the tag `{quotable(tag)}` is not taken here"
            self._refuse(event, at, what, hint="delete it and write the plain value")

    def _refuse(self, event: Any, at: KeyPath, what: str, *, hint: str | None = None) -> None:
        line, column = _position(event)
        self.problems.append(Problem(what, self.path, line, column, dotted_path(at) or None, hint))
        # a file of another kind has a fault on each line, and nobody reads them all
        if len(self.problems) >= 100:
            self._stop(event, (), "there are more problems; reading stopped here")

    def _stop(self, event: Any, at: KeyPath, what: str, *, hint: str | None = None) -> NoReturn:
        line, column = _position(event)
        raise _UnreadableYamlError(
            Problem(what, self.path, line, column, dotted_path(at) or None, hint)
        )


def _position(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1


NO_BREAK_SPACE: Final = "\u00a0"
_WHERE_IT_BEGAN: Final = ("expected ',' or", "unexpected end of stream", "find expected ':'")
_TAB: Final = "a tab cannot indent a line in YAML, expected spaces"
_SENTENCES: Final = (
    ("tab character", _TAB),
    ("unexpected end of stream", "the quotation mark that opens here is never closed"),
    ("',' or ']'", "the `[` that opens here is never closed, or lacks a comma"),
    ("',' or '}'", "the `{` that opens here is never closed, or lacks a comma"),
    (
        "mapping values are not allowed",
        "a `:` stands where no key can be: text with `: ` in it needs quotes, "
        "or this line or the one above is indented wrongly",
    ),
    ("could not find expected ':'", "this line has no `:`, expected `key: value`"),
    ("unknown escape character", "this is no escape that YAML knows; in '…' a \\ is just a \\"),
    ("Unicode character escape", "this escape names no character: write the character itself"),
    ("expected key", "this does not fit the lines around it: check indentation and quotes"),
    ("<block end>", "this does not fit the lines around it: check indentation and quotes"),
    ("'-' indicator", "this does not fit the list above it: expected another `- `"),
    ("node content", "a value was expected here"),
    ("undefined tag handle", "words that begin with `!` need quotes"),
    ("incompatible YAML document", "this version of YAML is not known, expected 1.1 or 1.2"),
)


def _syntax_problem(error: yaml.MarkedYAMLError, text: str, path: Path) -> Problem:
    """A parser's error in plain words, at the position where a person would look."""
    message = error.problem or ""
    mark = error.problem_mark
    if error.context_mark is not None and any(part in message for part in _WHERE_IT_BEGAN):
        mark = error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    return Problem(_sentence(message, text, line, column), path, line, column)


def _sentence(message: str, text: str, line: int, column: int) -> str:
    lines = _lines(text)
    if line <= len(lines) and NO_BREAK_SPACE in lines[line - 1]:
        return "there is a no-break space in this line, which YAML takes for text: expected a space"
    if "cannot start any token" in message:
        return _impossible_start(text, line, column)
    if "node content" in message and line > len(text.splitlines()):
        return "the file ends here, in the middle of a value: is a `[` or `{` never closed?"
    for part, sentence in _SENTENCES:
        if part in message:
            return sentence
    # only the parser's own words, never what it quotes from the file
    return (
        f"this is not valid YAML ({re.sub(r'[^a-z ].*', '', message).strip() or 'unknown reason'})"
    )


def _impossible_start(text: str, line: int, column: int) -> str:
    lines = _lines(text)
    character = lines[line - 1][column - 1 : column] if line <= len(lines) else ""
    if character == "\t":
        return _TAB
    return f"a value cannot begin with `{character}` unless it is in quotes"
