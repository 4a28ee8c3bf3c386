"""Builds a site from the results and the store, and publishes its folder: it is complete before it
appears, and replaces no foreign file.

A manifest lists a site's own files. An existing site is replaced step by step: new data is put
beside the old data under another name, pages are replaced one by one, each in one move, and then
the rest of the old site is removed. Other files in the folder stay.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final

from engine.errors import InputError, Problem
from engine.files import read_regular, replace_file, sync
from engine.report.html.site import PublishedBenchmark, folder_of, site_pages
from engine.report.site.transcripts import ChunkWriter, CountedBenchmark, write_transcripts
from engine.report.writing import UnfinishedFolder, told_as_store_error
from engine.store.reader import Reader

MANIFEST: Final = "crosswind-site.json"
"""The file that lists the site's own files."""
MADE_BY: Final = "crosswind site"
_LARGEST: Final = 50_000_000
"""Bytes: a larger manifest is not ours."""


class SiteFolder(UnfinishedFolder):
    """A hidden folder in which a site is written before it is published."""

    def __init__(self, place: Path, instead_of: Mapping[str, str]) -> None:
        """`instead_of` has texts that must not be published, with their replacements."""
        super().__init__(place)
        self._instead_of = instead_of

    def write(self, name: str, content: str | bytes) -> None:
        """Write one file, with hidden texts replaced. Raises `OSError`."""
        for hidden, shown in self._instead_of.items():
            if isinstance(content, str) and hidden in content:
                content = content.replace(hidden, shown)
        super().write(name, content)

    def rename(self, old: str, new: str) -> None:
        """Rename a folder in it. Raises `OSError`."""
        (self.path / old).rename(self.path / new)
        self.names = [
            f"{new}{name.removeprefix(old)}" if name.startswith(f"{old}/") else name
            for name in self.names
        ]

    def publish(self) -> int:
        """Move it into place, and return its number of files. Raises `InputError` and `OSError`."""
        names = sorted(self.names)
        if self.place.exists():
            self._replace(names)
        else:
            _write_manifest(self.path, names)
            os.sync()  # once, as syncing each of thousands of files takes minutes
            self.path.rename(self.place)
        sync(self.place.parent)
        return len(names)

    def _replace(self, names: Iterable[str]) -> None:
        """Move data first, then pages, and only then remove what nothing links to any more."""
        own = set(names)
        old = own_files(self.place)
        refuse_foreign(self.place, own - old)
        # old and new files: if this is interrupted, the next run knows that all of them are ours
        _write_manifest(self.place, sorted(own | old))
        os.sync()
        # readers never see a page whose data is not there yet
        for name in sorted(own, key=lambda name: (name.endswith(".html"), name)):
            self.move(name)
        for name in old - own:
            (self.place / name).unlink(missing_ok=True)
        # in reverse, so that inner folders go before the ones around them
        for folder in sorted({(self.place / name).parent for name in old - own}, reverse=True):
            with suppress(OSError):  # somebody else's file is in it
                folder.rmdir()
        _write_manifest(self.place, sorted(own))


def refuse_others(place: Path) -> None:
    """Raises `InputError` for a place that cannot hold a site, or has files that are not ours."""
    if not place.parent.is_dir():
        hint = f"make it first: mkdir -p {place.parent}"
        raise InputError(Problem("there is no such folder", place.parent, hint=hint))
    if not os.path.lexists(place):
        return
    if not place.is_dir():
        raise InputError(Problem("expected a folder, found something else", place))
    if any(place.iterdir()) and not (place / MANIFEST).exists():
        hint = "name a new folder, an empty one, or one that `crosswind export site` made"
        raise InputError(Problem("this folder holds other files", place, hint=hint))
    own_files(place)


def refuse_foreign(place: Path, names: Iterable[str]) -> None:
    """Raises `InputError` where any of these names is taken by a file that is not ours."""
    foreign = sorted(name for name in names if not _is_free(place, name))
    if foreign:
        more = f", and {len(foreign) - 1} more" if foreign[1:] else ""
        what = (
            f"this file stands where one of the site belongs, and Crosswind did not write it{more}"
        )
        hint = "move it away, or name another folder"
        raise InputError(Problem(what, place / foreign[0], hint=hint))


def _is_free(place: Path, name: str) -> bool:
    """Whether the path does not exist, and its existing parents are folders."""
    parts = PurePosixPath(name).parts
    folders = [place.joinpath(*parts[:n]) for n in range(1, len(parts))]
    is_way = all(not os.path.lexists(folder) or folder.is_dir() for folder in folders)
    return is_way and _is_inside(place, name) and not os.path.lexists(place / name)


def own_files(place: Path) -> set[str]:
    """The files of an existing site, relative to it; empty where there is none. Raises `InputError`
    for a manifest that is not ours."""
    path = place / MANIFEST
    if not os.path.lexists(path):
        return set()
    names = _manifest_names(path)
    if names is None or not all(_is_inside(place, name) for name in names):
        hint = "name another folder, or delete this one if it was a site"
        what = "this is not the list of files that `crosswind export site` writes"
        raise InputError(Problem(what, path, hint=hint))
    return {*names, MANIFEST}


def _manifest_names(manifest: Path) -> list[str] | None:
    """The files in a manifest; None where it is not ours."""
    try:
        if manifest.stat().st_size > _LARGEST:
            return None
        content = json.loads(read_regular(manifest))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or content.get("made_by") != MADE_BY:
        return None
    names = content.get("files")
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_list else None


def _is_inside(place: Path, name: str) -> bool:
    """Whether this names a file within the folder, without passing through a link."""
    path = PurePosixPath(name)
    if "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts:
        return False
    folders = [place.joinpath(*path.parts[:n]) for n in range(1, len(path.parts))]
    return not any(folder.is_symlink() for folder in folders)


def _write_manifest(folder: Path, names: Iterable[str]) -> None:
    content = {"made_by": MADE_BY, "files": [name for name in names if name != MANIFEST]}
    replace_file(folder / MANIFEST, (json.dumps(content, indent=0) + "\n").encode())


@dataclass(frozen=True, slots=True)
class BuiltSite:
    files: int
    conversations: int


def write_site(
    place: Path,
    benchmarks: Iterable[CountedBenchmark],
    reader: Reader,
    at: datetime,
    instead_of: Mapping[str, str],
) -> BuiltSite:
    """Write a site to `place`, whole or not at all; `instead_of` is that of a `SiteFolder`. Raises
    `InputError` and `StoreError`."""
    with told_as_store_error(place), closing(SiteFolder(place, instead_of)) as folder:
        published = [
            _with_transcripts(folder, benchmark, reader, number)
            for number, benchmark in enumerate(benchmarks, 1)
        ]
        for name, text in site_pages(published, at):
            folder.write(name, text)
        return BuiltSite(folder.publish(), sum(benchmark.conversations for benchmark in published))


def _with_transcripts(
    folder: SiteFolder, counted: CountedBenchmark, reader: Reader, number: int
) -> PublishedBenchmark:
    home = folder_of(counted.definition.name)
    pieces = ChunkWriter(lambda name, text: folder.write(f"{home}/data/{name}", text))
    count = write_transcripts(counted, reader, pieces)
    # the name depends on the data, so that a page always loads the data of its own site
    data = f"data-{pieces.digest}"
    folder.rename(f"{home}/data", f"{home}/{data}")
    return PublishedBenchmark(
        definition=counted.definition,
        analysis=counted.analysis,
        validations=counted.validations,
        conversations=count,
        data=data,
        number=number,
    )
