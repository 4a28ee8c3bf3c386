"""Finds the benchmarks in a folder that is to be imported, and guards how its files are opened;
reads a JSON array row by row, a file of lines, and a single value, with the place of each fault."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from errno import ELOOP
from hashlib import blake2b, sha256
from itertools import count, islice
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.branches import VALIDATION, Branch, name_of
from engine.errors import InputError, Problem
from engine.files import read_regular
from engine.store.codec import storable
from engine.store.json_file import kind_of, parse_json, refuse_constant

CACHE: Final = ".cache"
LARGEST: Final = 4 << 30
"""Bytes of a file, which is read whole."""
_LOOKED_AT: Final = 20
"""The most files that are read to recognise a folder."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files of one benchmark."""

    name: str
    """The benchmark's name in the folder."""
    folder: Path
    published: bool
    """Whether there is one file for each conversation, in a folder for each model."""
    cache: Path | None = None
    """Rows of interrupted runs."""
    origin: Path | None = None
    """What the person named, if the folder was made from that."""

    @property
    def place(self) -> Path:
        """The path that people are told."""
        return self.origin or self.folder

    @property
    def definition_path(self) -> Path:
        return self.folder / "benchmark.yaml"

    def name_of(self, path: Path) -> str:
        """Return a file's name, which does not depend on where the source is."""
        is_cached = self.cache is not None and path.is_relative_to(self.cache)
        folder = self.cache if is_cached and self.cache else self.folder
        place = "cache" if is_cached else "files"
        return f"{place}/{path.relative_to(folder)}" if path.is_relative_to(folder) else str(path)


@dataclass(frozen=True, slots=True)
class ImportableFolder:
    """A folder and the benchmarks that were found in it."""

    root: Path
    kind: str
    """What the folder is, in words."""
    sources: Sequence[Source]
    config: Path | None = None


def look_through(folder: Path) -> ImportableFolder:
    """Find the benchmarks in a folder. Raises `InputError` if there is nothing to import."""
    try:
        importable = _find_folder(folder)
    except OSError as error:
        where = Path(error.filename) if error.filename else folder
        raise InputError(Problem(f"cannot be read: {error.strerror}", where)) from error
    if importable is None or not importable.sources:
        raise InputError(
            Problem(
                "there is nothing to import here; expected a workspace with benchmarks/, one "
                "benchmark's folder, or scenarios/<benchmark>/<model>/<id>.json",
                folder,
            )
        )
    return importable


def _find_folder(folder: Path) -> ImportableFolder | None:
    if not folder.exists():
        raise InputError(Problem("there is no such folder", folder))
    if not folder.is_dir():
        raise InputError(Problem("expected a folder, found a file", folder))
    if (folder / "benchmarks").is_dir():
        return _workspace(folder)
    if _is_benchmark(folder):
        return _benchmark(folder)
    several = [_source(place) for place in _folders(folder) if _is_benchmark(place)]
    if several:
        return ImportableFolder(folder, "a folder of benchmarks", several)
    return _published(folder)


def _workspace(folder: Path) -> ImportableFolder:
    places = [place for place in _folders(folder / "benchmarks") if _is_benchmark(place)]
    cached = {place.name: place for place in _folders(folder / CACHE)}
    sources = [_source(place, cached.pop(place.name, None)) for place in places]
    sources += [_source(branch) for place in places for branch in _branches(place)]
    config = folder / "config.yaml"
    # benchmarks of which only the cached rows of an interrupted run are left
    sources += [
        Source(name, folder / "benchmarks" / name, published=False, cache=cache)
        for name, cache in cached.items()
    ]
    published = _published(folder)
    if published is not None:
        sources += published.sources
    return ImportableFolder(folder, "a workspace", sources, config if config.is_file() else None)


def _benchmark(folder: Path) -> ImportableFolder:
    """Return a single benchmark. If it is in a workspace, its cache and configuration are two
    folders above."""
    root = folder.absolute().parent.parent
    cache = root / CACHE / folder.absolute().name
    config = root / "config.yaml"
    inside = folder.absolute().parent.name == "benchmarks"
    source = _source(folder, cache if inside and cache.is_dir() else None)
    return ImportableFolder(
        folder, "one benchmark's folder", [source], config if inside and config.is_file() else None
    )


def _branches(benchmark: Path) -> list[Path]:
    """Return the folders of a benchmark's validation runs."""
    places = _folders(benchmark / VALIDATION)
    return [place for place in places if _is_benchmark(place) and Branch.parse(name_of(place))]


def _source(place: Path, cache: Path | None = None) -> Source:
    return Source(name_of(place), place, published=False, cache=cache)


def _is_benchmark(folder: Path) -> bool:
    names = ("benchmark.yaml", "scenarios.json", "runs")
    return any((folder / name).exists() for name in names) and not _models(folder)


def _published(folder: Path) -> ImportableFolder | None:
    """Recognise the site's folder, its `scenarios`, or one benchmark in there."""
    for place in (folder / "scenarios", folder):
        sources = [
            Source(folder.name, folder, published=True)
            for folder in _folders(place)
            if _models(folder)
        ]
        if sources:
            return ImportableFolder(folder, "published transcripts", sources)
    if _models(folder):
        source = Source(folder.absolute().name, folder, published=True)
        return ImportableFolder(folder, "one benchmark's published transcripts", [source])
    return None


def _models(folder: Path) -> bool:
    """Whether its subfolders hold files with one conversation each."""
    files = (file for model in _folders(folder) for file in sorted(model.glob("*.json"))[:3])
    return any(_is_published(file) for file in islice(files, _LOOKED_AT))


def _is_published(file: Path) -> bool:
    try:
        row = json.loads(read_regular(file)) if file.is_file() else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(row, dict) and "samples" in row and "scenario" in row


def _folders(place: Path) -> list[Path]:
    return list(_list_folder(place)) if place.is_dir() else []


def _list_folder(place: Path) -> Iterator[Path]:
    for path in sorted(place.iterdir()):
        if path.is_dir() and (not path.name.startswith(".")):
            yield path


@dataclass(slots=True)
class SourceFiles:
    """Reads the files of one source whole, and keeps a digest of each."""

    source: Source
    root: Path
    """The imported folder; nothing outside it is read."""
    on_read: Callable[[int], object] = field(default=lambda size: None)
    """Called with the number of bytes that were read."""
    _digests: dict[str, bytes] = field(default_factory=dict)
    _inside: set[str] = field(default_factory=set)
    """Folders from which no link leads out of `root`: in them, only the file itself is checked for
    being a link. Resolving a path asks the system about each of its parts."""

    def read(self, path: Path) -> bytes:
        """Return the bytes of a file, unless `refuse_unfit` refuses it. Raises `InputError`."""
        try:
            raw = self._checked(path)
        except OSError as error:
            raise InputError(Problem(f"cannot be read: {error.strerror}", path)) from error
        # most processors have instructions for SHA-256: half the time of BLAKE2
        self._digests[self.source.name_of(path)] = sha256(raw).digest()
        self.on_read(len(raw))
        return raw

    def _checked(self, path: Path) -> bytes:
        folder = path.parent
        if str(folder) in self._inside:
            try:
                return read_regular(path, links=False, most=LARGEST)
            except OSError as error:
                refuse_unfit(path, self.root)
                if error.errno != ELOOP:
                    raise
        refuse_unfit(path, self.root)
        if folder.resolve().is_relative_to(self.root.resolve()):
            self._inside.add(str(folder))
        return read_regular(path, most=LARGEST)

    @property
    def digest(self) -> str:
        """A digest of all bytes, independent of the order of reading."""
        whole = blake2b(digest_size=16)
        for name, content in sorted(self._digests.items()):
            whole.update(f"{len(name)} {name} ".encode(errors="surrogateescape"))
            whole.update(content)
        return whole.hexdigest()


def refuse_unfit(path: Path, root: Path) -> None:
    """Raise `InputError` for what is not a file, and for a link that leads out of the imported
    folder."""
    hint = "put the file itself there, not a link"
    try:
        inside = path.resolve(strict=True).is_relative_to(root.resolve())
    except FileNotFoundError:
        what = "this is a link to a file that is not there; it was not read"
        raise InputError(Problem(what, path, hint=hint)) from None
    except (OSError, RuntimeError) as error:
        if isinstance(error, OSError) and error.errno != ELOOP:
            raise InputError(Problem(f"cannot be read: {error.strerror}", path)) from error
        what = "this is a link that leads back to itself; it was not read"
        raise InputError(Problem(what, path, hint=hint)) from None
    if not inside:
        what = "this is a link that leads out of the folder; it was not read"
        raise InputError(Problem(what, path, hint=hint))
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "a pipe or a device"
        raise InputError(Problem(f"expected a file, found {kind}", path))


def json_files(folder: Path) -> list[Path]:
    """Return the JSON files directly in a folder, by name."""
    with os.scandir(folder) as entries:
        return [
            Path(name) for name in sorted(entry.path for entry in entries) if name.endswith(".json")
        ]


def size_of(source: Source) -> int:
    """Estimate the bytes to be read: those of all JSON files and histories."""
    places = [source.folder, *([source.cache] if source.cache else [])]
    return sum(_bytes_in(str(place)) for place in places)


def _bytes_in(folder: str) -> int:
    """What cannot be accessed counts as 0."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                # validation runs are benchmarks of their own
                size += 0 if entry.name == VALIDATION else _bytes_in(entry.path)
            elif entry.name.endswith((".json", ".jsonl")):
                with suppress(OSError):
                    size += entry.stat().st_size
    return size


# JSON in them, row by row, with the place of each fault


_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BEFORE_ROW: Final = frozenset(b" \t\n\r[,")


@dataclass(frozen=True, slots=True)
class JsonRow:
    """A row of an array, and the line in which it begins, from 1."""

    index: int
    line: int
    value: object


_DECODER: Final = json.JSONDecoder(parse_constant=refuse_constant)
_QUICK_DECODER: Final = msgspec.json.Decoder()
"""Takes a third of the time. What it accepts means the same to the other decoder, which handles the
rest, such as lone surrogates."""
_ROWS_DECODER: Final = msgspec.json.Decoder(list[msgspec.Raw])
_NOT_QUICK: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def read_rows(path: Path, raw: bytes) -> Iterator[JsonRow]:
    """Yield the rows of the array in a file with these bytes.

    Raises `InputError` at the first fault; the rows before it are good.
    """
    rows: list[msgspec.Raw] = []
    with suppress(*_NOT_QUICK):
        rows = _ROWS_DECODER.decode(raw)
    at, line, given = 0, 1, 0
    for row in rows:
        begins = at
        while raw[begins] in _BEFORE_ROW:
            begins += 1
        line += raw.count(b"\n", at, begins)
        try:
            value = _QUICK_DECODER.decode(row)
        except _NOT_QUICK:
            break
        yield JsonRow(given, line, value)
        given += 1
        at = begins + len(row)
        line += raw.count(b"\n", begins, at)
    if not rows or given < len(rows):
        yield from (row for row in _slow_rows(path, raw) if row.index >= given)


def _slow_rows(path: Path, raw: bytes) -> Iterator[JsonRow]:
    """Yield the rows of an array that has a fault, up to that, or a text that only Python's own
    decoder accepts."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        text = raw[: error.start].decode("utf-8-sig")
    at, line, counted = len(text) - len(text.lstrip()) + 1, 1, 0
    for index in count() if text.lstrip().startswith("[") else ():
        at = _after_space(text, at)
        line += text.count("\n", counted, at)
        counted = at
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        yield JsonRow(index, line, _storable(value))
        at = _after_space(text, at)
        if not text.startswith(",", at):
            break
        at += 1
    # raises at the first fault
    if not isinstance(value := parse_json(path, raw), list):
        what = f"expected a JSON array, [...], found {kind_of(value)}"
        raise InputError(Problem(what, path=path))


def _after_space(text: str, at: int) -> int:
    blank = _SPACE.match(text, at)
    return at if blank is None else blank.end()


def _storable(value: Any) -> Any:
    """Replace lone surrogates in every text: files may escape them, and no store holds them."""
    if isinstance(value, dict):
        return {storable(name): _storable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_storable(member) for member in value]
    return storable(value) if isinstance(value, str) else value


def read_lines(path: Path, raw: bytes) -> Iterator[JsonRow]:
    """Yield the values of a file with one per line. Raises `InputError` as `read_rows` does."""
    for index, line in enumerate(raw.split(b"\n")):
        if not line.strip():
            continue
        try:
            value = read_object(path, line)
        except InputError as error:
            raise InputError([replace(one, line=index + 1) for one in error.problems]) from error
        yield JsonRow(index, index + 1, value)


def read_object(path: Path, raw: bytes) -> object:
    """Return the value of a file with these bytes. Raises `InputError`."""
    with suppress(*_NOT_QUICK):
        return _QUICK_DECODER.decode(raw)
    return _storable(parse_json(path, raw))
